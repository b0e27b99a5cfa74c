"""A study folder read back, whatever state its runs are in.

Nothing that lies there stops the export: a file that is missing or damaged costs its own run
alone, and the reason stands beside it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from damcha_core.catalog.tasks import task_row
from damcha_core.config.controls import as_built
from damcha_core.config.model_size import model_multiply_adds
from damcha_core.config.resolve import config_from_run
from damcha_core.errors import CheckpointError, DamchaError
from damcha_core.experiments.results.cell_result import (
    CellResult,
    CurvePoint,
    MetricRecord,
    Study,
)
from damcha_core.experiments.results.plain_json import (
    mapping_in,
    number_in,
    text_in,
    whole_in,
)
from damcha_core.experiments.results.planned_cells import PlannedCell, SuitePlan, read_plan
from damcha_core.files import find_json_object
from damcha_core.train.metrics_log import read_metrics

SUITE_FILE = "suite.toml"
CELLS = "cells"
RECORD_STATES = ("done", "failed", "diverged")
Judged = Mapping[str, tuple[str, str]]
"""State and reason by cell id, from whoever knows better than the files alone."""


def read_study(folder: Path, *, judged: Judged | None = None) -> Study:
    """Everything that a study folder says about its runs.

    Args:
        folder: the study folder.
        judged: states that replace those which the files show. By the files a run is out of date
            if the suite gives it other settings now. Other code or data make it none here, so
            that an old study can be exported by a new version; an export says if the runs of a
            study were made by different code.

    Returns:
        The study; cells in the order of its suite, those that are no longer in it behind.

    Raises:
        CheckpointError: there is no study in that folder.
    """
    records = folder / CELLS
    if not (folder / SUITE_FILE).is_file() and not records.is_dir():
        raise CheckpointError(
            f"{folder}: not a study folder: neither {SUITE_FILE} nor {CELLS}/ in it; "
            "`damcha suite run` makes one"
        )
    plan = read_plan(folder)
    planned = {cell.id: cell for cell in plan.cells}
    found = sorted(path.stem for path in records.glob("*.json")) if records.is_dir() else []
    for name in found:
        if name not in planned:
            planned[name] = _unplanned(
                name, find_json_object(records / f"{name}.json", finite=True), plan
            )
    cells = [read_cell(folder, cell, judged or {}) for cell in planned.values()]
    return Study(
        name=folder.resolve().name,
        summary=plan.summary,
        grid=plan.grid,
        cells=tuple(_in_order(cells)),
        tuning=find_json_object(folder / "tuning.json", finite=True) or {},
        rates=plan.rates,
    )


def _in_order(cells: list[CellResult]) -> list[CellResult]:
    """Cells with those of a task, an attention and a grid point side by side, by seed."""
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    attentions = list(dict.fromkeys(cell.attention for cell in cells))
    points = list(dict.fromkeys(repr(cell.grid) for cell in cells))
    return sorted(
        cells,
        key=lambda cell: (
            tasks.index(cell.task),
            points.index(repr(cell.grid)),
            attentions.index(cell.attention),
            cell.seed,
            cell.id,
        ),
    )


def _unplanned(name: str, record: Mapping[str, Any] | None, plan: SuitePlan) -> PlannedCell:
    settings = mapping_in(record, "settings")
    grid = {key: settings.get(key) for key in plan.grid}
    seed = whole_in(record, "seed") or 0
    return PlannedCell(name, text_in(record, "task"), text_in(record, "attention"), seed, grid)


def read_cell(study: Path, cell: PlannedCell, judged: Judged) -> CellResult:
    """What is known of one cell.

    Args:
        study: the study folder.
        cell: what it is.
        judged: see `read_study`.

    Returns:
        The cell; its scores only where it is done or out of date.
    """
    folder = study / cell.id
    record_file = study / CELLS / f"{cell.id}.json"
    record = find_json_object(record_file, finite=True)
    result = find_json_object(folder / "result.json", finite=True)
    test = find_json_object(folder / "test.json", finite=True)
    if record is None and record_file.exists():
        state, reason = "interrupted", "its record is damaged"
    else:
        shown = _state(study, cell, record)
        state, reason = judged.get(cell.id) or shown
    if state == "done" and (problem := _score_problem(result, test)):
        state, reason = "interrupted", problem
    scored = test if state in ("done", "out of date") else None
    seconds = number_in(result, "seconds")
    return CellResult(
        id=cell.id,
        task=cell.task,
        attention=cell.attention,
        seed=cell.seed,
        grid=cell.grid,
        state=state,
        reason=_without_place(reason, study),
        folder=folder,
        metrics=_metrics(mapping_in(scored, "metrics"), cell.task),
        floors={
            name: _metrics(scores, cell.task)
            for name, scores in mapping_in(scored, "floors").items()
        },
        details=mapping_in(scored, "details"),
        parameters=whole_in(result, "parameters"),
        multiply_adds=multiply_adds(folder),
        seconds=number_in(record, "seconds") if seconds is None else seconds,
        config_hash=_config_hash(record, scored),
        code=text_in(mapping_in(record, "identity"), "code"),
        command=_command(record, cell.id),
        curve=learning_curve(folder / "metrics.jsonl"),
        adaptivity=find_json_object(folder / "adaptivity.json", finite=True) or {},
    )


def _state(study: Path, cell: PlannedCell, record: Mapping[str, Any] | None) -> tuple[str, str]:
    """State and reason as the files show them."""
    folder = study / cell.id
    if is_locked(folder / ".lock") or is_locked(study / "locks" / f"{cell.id}.lock"):
        return "running", ""
    if record is None:
        return ("interrupted", "") if (folder / "run.toml").is_file() else ("missing", "")
    state, reason = text_in(record, "state"), text_in(record, "reason")
    if state not in RECORD_STATES:
        return "interrupted", f"its record names the unknown state {state!r}"
    made_under = mapping_in(record, "identity").get("config_hash")
    if state == "done" and cell.config_hash and made_under != cell.config_hash:
        return "out of date", "settings changed since"
    return state, reason


def _score_problem(result: Mapping[str, Any] | None, test: Mapping[str, Any] | None) -> str:
    """Why the scores of a run that is said to be done cannot be shown; empty: they can."""
    if test is None or not mapping_in(test, "metrics"):
        return "test.json is missing or damaged"
    same = ("step", "seed", "task", "attention", "config_hash")
    if result is None or any(result.get(key) != test.get(key) for key in same):
        return "test.json does not score what result.json describes"
    return ""


def is_locked(path: Path) -> bool:
    """Whether another process holds a lock file; a file that cannot be asked is not locked."""
    if not path.is_file():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:  # a study may be read where it cannot be written
        return False
    lock.release()
    return False


def _without_place(text: str, study: Path) -> str:
    """A text without the place of the study, which is no result."""
    for place in (str(study.resolve()), str(study)):
        text = text.replace(f"{place}/", "") if place not in ("", ".", "/") else text
    return text


def _config_hash(record: Mapping[str, Any] | None, test: Mapping[str, Any] | None) -> str:
    return text_in(test, "config_hash") or text_in(mapping_in(record, "identity"), "config_hash")


def _command(record: Mapping[str, Any] | None, cell_id: str) -> str:
    """The command of a record with its --out relative to the study folder."""
    text = text_in(record, "command")
    try:
        words = shlex.split(text)
    except ValueError:
        return text
    places = [place for place, word in enumerate(words[:-1]) if word == "--out"]
    for place in places:
        words[place + 1] = cell_id
    return shlex.join(words)


def _metrics(scores: Any, task: str) -> dict[str, MetricRecord]:
    """Scores in the order of the catalogue, so that the main one comes first."""
    scores = scores if isinstance(scores, dict) else {}
    names = [name for name in metric_names(task) if name in scores]
    names += [name for name in scores if name not in names]
    return {
        name: MetricRecord(
            value=number_in(scores[name], "value"),
            unit=text_in(scores[name], "unit"),
            n=whole_in(scores[name], "n") or 0,
            better="lower" if text_in(scores[name], "better") == "lower" else "higher",
        )
        for name in names
    }


def metric_names(task: str) -> list[str]:
    """Metrics of a task, the main one first; none for a task that is not in the catalogue."""
    try:
        return [spec.name for spec in task_row(task).metrics]
    except DamchaError:
        return []


def multiply_adds(folder: Path) -> int | None:
    """Forward multiply-adds of a run's model for one sample of mean length.

    Args:
        folder: the run folder.

    Returns:
        Their number; None where run.toml or facts.json is missing or does not say enough.
    """
    facts = find_json_object(folder / "facts.json", finite=True)
    if facts is None:
        return None
    classes = facts.get("class_names")
    try:
        return model_multiply_adds(
            as_built(config_from_run(folder)),
            channels=whole_in(facts, "channels") or 0,
            n_classes=len(classes) if isinstance(classes, list) else 0,
            vocab_size=whole_in(facts, "vocab_size") or 0,
        )
    except (DamchaError, AssertionError):
        return None


def learning_curve(path: Path) -> tuple[CurvePoint, ...]:
    """The validations of a metrics.jsonl with the mean training loss that led to each.

    Args:
        path: the file.

    Returns:
        One point a validation; none where the file is missing.
    """
    points: list[CurvePoint] = []
    losses: list[float] = []
    try:
        for record in read_metrics(path):
            loss = number_in(record, "loss")
            if record.get("split") == "train":
                losses += [] if loss is None else [loss]
            elif record.get("split") == "valid":
                metrics = mapping_in(record, "metrics")
                train_loss = sum(losses) / len(losses) if losses else None
                values = {name: number_in(metrics, name) for name in metrics}
                points.append(CurvePoint(record["step"], train_loss, loss, values))
                losses = []
    except OSError:
        return ()
    return tuple(points)
