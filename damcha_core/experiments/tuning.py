"""The learning rate of every attention on every task, chosen on valid from one grid.

One grid, one budget and seed 0 for all attentions of a task, so that none is tuned more than
another. The runs are cells like those of a study, in <study>/tune/; their test split is never
scored. The choice is <study>/tuning.json.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from damcha_core.experiments.rate_grid import GRID
from damcha_core.experiments.runner import RunOptions, StudyOutcome, run_study
from damcha_core.experiments.study import Study, load_study, plan_study
from damcha_core.experiments.study_folder import StudyFolder
from damcha_core.experiments.study_observer import StudyObserver
from damcha_core.experiments.suite import Override, Suite
from damcha_core.experiments.tuned_rates import RATE, TUNING_FILE
from damcha_core.files import find_json_object, replace_json

SCHEMA = 1
RUNS = "tune"
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
            Of a task with none among them tuning.json keeps what it says, so that the grid can be
            widened for one task.

    Raises:
        UsageError, DataError, DiskError, Interrupted: see run_study.
    """
    runs = run_study(plan, options, observer, only=only)
    file = plan.folder.path.parent / TUNING_FILE
    record = tuning_record(plan, runs)
    if only is not None:
        record = with_kept_tasks(record, find_json_object(file) or {}, {cell.task for cell in only})
    replace_json(file, record)
    return TuningOutcome(file, record, runs)


def plan_tuning(
    suite: Suite,
    *,
    out: Path | None = None,
    grid: Sequence[float] | None = None,
    budget: str | None = None,
    builtin: bool = False,
    sets: Sequence[str] = (),
) -> Study:
    """The runs of a tuning; nothing is written.

    Args:
        suite: whose tasks and attentions; its own train.lr of single cells is left out.
        out: folder of the study that the rates are for; None: see plan_study.
        grid: rates, at least two, all above 0; None: those of the tuning that the folder has,
            else GRID.
        budget: as for plan_study.
        builtin: as for plan_study.
        sets: "section.key=value" each, for every cell, such as a shorter train.max_steps.

    Returns:
        A study in <out>/tune with seed 0; its cells vary train.lr.

    Raises:
        UsageError: the grid is not one, or the suite varies settings by a grid of its own.
        ConfigError: settings are not valid.
    """
    if suite.grid:
        raise UsageError(
            f"{suite.origin} varies {', '.join(suite.grid)}; rates are tuned for a suite without a "
            "[grid], one for each task and attention"
        )
    plain = replace(suite, overrides=tuple(_without_rate(suite.overrides)))

    def planned(rates: Sequence[object]) -> Study:
        varied = replace(plain, grid={RATE: list(rates)})
        study = plan_study(varied, out=out, budget=budget, builtin=builtin, sets=sets)
        return replace(study, folder=TuningFolder(study.folder.path / RUNS))

    if grid is not None:
        return planned(_rates(grid))
    study = planned(GRID)
    if not study.folder.suite_file.is_file():
        return study
    return planned(load_tuning(study.folder.path.parent).suite.grid[RATE])


def _rates(grid: Sequence[float]) -> list[float]:
    rates = sorted({float(rate) for rate in grid})
    if len(rates) < 2 or not all(math.isfinite(rate) and rate > 0 for rate in rates):
        shown = ", ".join(map(repr, grid)) or "nothing"
        raise UsageError(f"--grid {shown}: give at least two different rates, all above 0")
    return rates


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
        {"schema", "suite", "builtin", "split", "seed", "code", "grid", "grids" by task, "budget":
        {"name", "settings" by task, "set"}, "cells"}; cells are by "task/attention": {"metric",
        "better", "scores" and "states" by rate, "runs" (run folders, seen from the study's),
        "chosen", "edge"}. A score is the task's `tuning_metric` of the best checkpoint on valid;
        None where the run diverged or is not done. "chosen" is the rate of the best score, the
        smaller of two that are equal; None as long as a run of the grid has failed or is not done,
        or where all diverged. "edge" says that it is the first or the last of the grid, so that a
        better one may lie outside.
    """
    standings = dict(outcome.standings) if outcome is not None else {}
    pairs: dict[str, dict[str, Any]] = {}
    for cell in plan.cells:
        spec = task_row(cell.task).tuning_metric
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
        "code": code_hash(),
        "grid": rates,
        "grids": dict.fromkeys(plan.suite.tasks, rates),
        "budget": {
            "name": plan.budget,
            "settings": {
                task: dict(table) for task, table in plan.suite.budgets.get(plan.budget, {}).items()
            },
            "set": dict(plan.settings),
        },
        "cells": pairs,
    }


def with_kept_tasks(
    record: Mapping[str, Any], stored: Mapping[str, Any], worked_on: Collection[str]
) -> dict[str, Any]:
    """A record that says of tasks that were not worked on what was said of them before.

    Args:
        record: of `tuning_record`.
        stored: the record that the study has; empty where it has none.
        worked_on: tasks.

    Returns:
        The record. What is stored of a task is kept where its suite, code and budget are those of
        now.
    """
    now: dict[str, Any] = {**record, "grids": {**record["grids"]}, "cells": {**record["cells"]}}
    same = ("schema", "suite", "builtin", "split", "seed", "code")
    if any(stored.get(key) != record[key] for key in same):
        return now
    budgets = (record["budget"], stored["budget"])
    for task, grid in stored["grids"].items():
        one, other = ((b["name"], b["settings"].get(task), b["set"]) for b in budgets)
        if task in worked_on or task not in now["grids"] or one != other:
            continue
        now["grids"][task] = grid
        for pair, found in stored["cells"].items():
            if pair in now["cells"] and pair.partition("/")[0] == task:
                now["cells"][pair] = found
    now["grid"] = sorted({rate for grid in now["grids"].values() for rate in grid})
    return now


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
