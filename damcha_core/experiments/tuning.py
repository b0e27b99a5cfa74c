"""The learning rate of every attention on every task, chosen on valid from one grid.

One grid, one budget and seed 0 for all, so that no attention is tuned more than another. The runs
are cells like those of a study, in <study>/tune/; their test split is never scored. The choice is
<study>/tuning.json.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from damcha_core.catalog.tasks import task_row
from damcha_core.errors import CheckpointError, UsageError
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_state import (
    Standing,
    State,
    planned_identity,
    seen_standing,
)
from damcha_core.experiments.identity import code_hash
from damcha_core.experiments.runner import RunOptions, StudyOutcome, run_study
from damcha_core.experiments.study import Study, load_study, plan_study
from damcha_core.experiments.study_folder import StudyFolder
from damcha_core.experiments.study_observer import StudyObserver
from damcha_core.experiments.suite import Override, Suite
from damcha_core.files import find_json_object, replace_json

SCHEMA = 1
RATE = "train.lr"
GRID = (3e-4, 1e-3, 3e-3)
"""The rates that are tried unless others are named."""
RUNS = "tune"
TUNING_FILE = "tuning.json"
SPLIT = "valid"


class TuningFolder(StudyFolder):
    """The folder of runs that are compared on valid; their scores are those of result.json.

    Training ends with the scores of the best checkpoint on valid, so nothing is left to score, and
    no test split is looked at.
    """

    def test_file(self, cell: str) -> Path:
        return self.run(cell).result_file


@dataclass(frozen=True)
class TuningOutcome:
    """What a tuning came to.

    Attributes:
        file: tuning.json.
        record: its content; see `tuning_record`.
        runs: where each of its cells stands.
    """

    file: Path
    record: dict[str, Any]
    runs: StudyOutcome

    @property
    def exit_code(self) -> int:
        """1 where a run failed or was stopped, or where all of a grid diverged, else 0.

        A rate at which training diverges is a finding and no failure.
        """
        states = [standing.state for standing in self.runs.standings.values()]
        hopeless = any(
            set(pair["states"].values()) == {State.DIVERGED.value}
            for pair in self.record["cells"].values()
        )
        return int(hopeless or State.FAILED in states or State.INTERRUPTED in states)


def tune(
    plan: Study,
    options: RunOptions | None = None,
    observer: StudyObserver | None = None,
    *,
    only: Sequence[Cell] | None = None,
) -> TuningOutcome:
    """Train every rate of the grid, and choose.

    What is done already is not done again, and several processes share the work; see run_study.

    Args:
        plan: of `plan_tuning`.
        options: how the cells are worked off.
        observer: told what happens.
        only: the cells to work on; None: all. The choice is made where a whole grid is done.

    Raises:
        UsageError, DataError, DiskError, Interrupted: see run_study.
    """
    runs = run_study(plan, options, observer, only=only)
    record = tuning_record(plan, runs)
    file = plan.folder.path.parent / TUNING_FILE
    replace_json(file, record)
    return TuningOutcome(file, record, runs)


def plan_tuning(
    suite: Suite,
    *,
    out: Path | None = None,
    grid: Sequence[float] = GRID,
    budget: str | None = None,
    builtin: bool = False,
    sets: Sequence[str] = (),
) -> Study:
    """The runs of a tuning; nothing is written.

    Args:
        suite: whose tasks and attentions; its own train.lr of single cells is left out.
        out: folder of the study that the rates are for; None: see plan_study.
        grid: rates, at least two, all above 0.
        budget: as for plan_study.
        builtin: as for plan_study.
        sets: "section.key=value" each, for every cell, such as a shorter train.max_steps.

    Returns:
        A study in <out>/tune with seed 0; its cells vary train.lr.

    Raises:
        UsageError: the grid is not one, or the suite varies settings by a grid of its own.
        ConfigError: settings are not valid.
    """
    rates = sorted({float(rate) for rate in grid})
    if len(rates) < 2 or not all(math.isfinite(rate) and rate > 0 for rate in rates):
        shown = ", ".join(map(repr, grid)) or "nothing"
        raise UsageError(f"--grid {shown}: give at least two different rates, all above 0")
    if suite.grid:
        raise UsageError(
            f"{suite.origin} varies {', '.join(suite.grid)}; rates are tuned for a suite without a "
            "[grid], one for each task and attention"
        )
    study = plan_study(
        replace(suite, grid={RATE: rates}, overrides=tuple(_without_rate(suite.overrides))),
        out=out,
        budget=budget,
        builtin=builtin,
        sets=sets,
    )
    return replace(study, folder=TuningFolder(study.folder.path / RUNS))


def load_tuning(folder: Path) -> Study:
    """The runs of the tuning of a study, as stored.

    Args:
        folder: of the study that was tuned.

    Raises:
        CheckpointError: there was no tuning.
        ConfigError: its suite.toml is damaged, or not valid in this version.
    """
    return replace(load_study(folder / RUNS), folder=TuningFolder(folder / RUNS))


def _without_rate(overrides: Sequence[Override]) -> Iterator[Override]:
    for override in overrides:
        settings = {key: value for key, value in override.settings.items() if key != RATE}
        if settings:
            yield replace(override, settings=settings)


def tuning_record(plan: Study, outcome: StudyOutcome | None = None) -> dict[str, Any]:
    """What is known of a tuning.

    Args:
        plan: of `plan_tuning`.
        outcome: where cells stand; others are looked at.

    Returns:
        {"schema", "suite", "builtin", "split", "seed", "grid", "budget": {"name", "settings" by
        task, "set"}, "cells"}; cells are by "task/attention": {"metric", "better", "scores" and
        "states" by rate, "runs" (run folders, seen from the study's), "chosen", "edge"}. A score
        is that of the best checkpoint on valid; None where the run diverged or is not done.
        "chosen" is the rate of the best score, the smaller of two that are equal; None as long as
        a run of the grid has failed or is not done, or where all diverged. "edge" says that it
        is the first or the last of the grid, so that a better one may lie outside.
    """
    standings = dict(outcome.standings) if outcome is not None else {}
    pairs: dict[str, dict[str, Any]] = {}
    for cell in plan.cells:
        spec = task_row(cell.task).main_metric
        pair = pairs.setdefault(
            f"{cell.task}/{cell.attention}",
            {
                "metric": spec.name,
                "better": spec.better,
                "scores": {},
                "states": {},
                "runs": {},
            },
        )
        now = standings.get(cell.id) or _look(plan, cell)
        rate = repr(cell.settings[RATE])
        pair["states"][rate] = now.state.value
        pair["scores"][rate] = _score(plan, cell, spec.name) if now.state is State.DONE else None
        pair["runs"][rate] = f"{RUNS}/{cell.id}"
    rates = list(plan.suite.grid[RATE])
    for pair in pairs.values():
        pair["chosen"] = _chosen(pair)
        ends = (rates[0], rates[-1])
        pair["edge"] = None if pair["chosen"] is None else pair["chosen"] in ends
    return {
        "schema": SCHEMA,
        "suite": plan.name,
        "builtin": plan.builtin,
        "split": SPLIT,
        "seed": 0,
        "grid": rates,
        "budget": {
            "name": plan.budget,
            "settings": {
                task: dict(table) for task, table in plan.suite.budgets.get(plan.budget, {}).items()
            },
            "set": dict(plan.settings),
        },
        "cells": pairs,
    }


def _look(plan: Study, cell: Cell) -> Standing:
    run = plan.folder.run(cell.id)
    return seen_standing(plan.folder, cell, planned_identity(cell, run.path, code_hash()))


def _score(plan: Study, cell: Cell, metric: str) -> float | None:
    try:
        value = plan.folder.run(cell.id).read_result()["metrics"][metric]["value"]
    except (CheckpointError, KeyError, TypeError):
        return None
    return float(value) if isinstance(value, int | float) else None


def _chosen(pair: dict[str, Any]) -> float | None:
    settled = (State.DONE.value, State.DIVERGED.value)
    if not all(state in settled for state in pair["states"].values()):
        return None
    sign = 1.0 if pair["better"] == "lower" else -1.0
    ranks = [
        (sign * score, float(rate)) for rate, score in pair["scores"].items() if score is not None
    ]
    return min(ranks)[1] if ranks else None


def tuned_overrides(folder: Path) -> tuple[Override, ...]:
    """The chosen rates, as overrides that beat those of a suite when they come after them.

    Args:
        folder: of the study that was tuned.

    Returns:
        One for each task and attention that has a choice.

    Raises:
        CheckpointError: there is no tuning, or its file is damaged.
    """
    file = folder / TUNING_FILE
    record = find_json_object(file)
    if record is None:
        what = "damaged" if file.exists() else "there is no such file"
        raise CheckpointError(f"{file}: {what}; make it with damcha suite tune")
    cells = record.get("cells")
    overrides = []
    for pair, found in cells.items() if isinstance(cells, dict) else ():
        task, _, attention = pair.partition("/")
        chosen = found.get("chosen", "") if isinstance(found, dict) else ""
        if chosen is None:
            continue
        if not isinstance(chosen, float) or not (math.isfinite(chosen) and chosen > 0):
            raise CheckpointError(f"{file}: damaged: no learning rate for {pair}")
        overrides.append(Override({RATE: chosen}, task=task, attention=attention))
    return tuple(overrides)


def with_tuned_rates(suite: Suite, folder: Path, tasks: Sequence[str]) -> Suite:
    """A suite whose every task and attention has the rate that was chosen for it.

    Args:
        suite: to be tuned.
        folder: of the study that was tuned.
        tasks: those that will be trained (of `chosen_tasks`).

    Raises:
        CheckpointError: there is no tuning, or its file is damaged.
        UsageError: nothing was chosen for some task and attention.
    """
    tuned = [
        override
        for override in tuned_overrides(folder)
        if override.task in tasks and override.attention in suite.attentions
    ]
    there = {(override.task, override.attention) for override in tuned}
    lacking = [
        f"{task}/{attention}"
        for task in tasks
        for attention in suite.attentions
        if (task, attention) not in there
    ]
    if lacking:
        more = ", ..." if len(lacking) > 5 else ""
        raise UsageError(
            f"{folder / TUNING_FILE}: no rate was chosen for {', '.join(lacking[:5])}{more}; "
            "finish damcha suite tune, or leave --tuned out"
        )
    return replace(suite, overrides=(*suite.overrides, *tuned))
