"""The tables that programs read: one row a fact, every number as it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from damcha_core.experiments.export.adaptivity_tables import adaptivity, adaptivity_heads
from damcha_core.experiments.export.score_tables import floors_by_point
from damcha_core.experiments.export.table import Table, plain_table
from damcha_core.experiments.results.aggregate import Group
from damcha_core.experiments.results.cell_result import CellResult
from damcha_core.experiments.results.plain_json import mapping_in, number_in
from damcha_core.experiments.results.study_report import StudyReport


def data_tables(report: StudyReport) -> list[Table]:
    """All of them.

    Args:
        report: of a study.

    Returns:
        scores, comparisons, runs, run-scores, floors, curves; tuning, adaptivity and
        adaptivity-heads where the study has them.
    """
    tables = [
        scores(report),
        comparisons(report),
        runs(report),
        run_scores(report),
        floors(report),
        curves(report),
        tuning(report),
        adaptivity(report),
        adaptivity_heads(report),
    ]
    return [table for table in tables if table.rows or table.name in ("scores", "runs")]


def scores(report: StudyReport) -> Table:
    """Every metric of every group, over its seeds."""
    grid = list(report.study.grid)
    columns = ["task", "attention", *grid, "metric", "unit", "better", "mean", "deviation"]
    columns += ["interval_low", "interval_high", "seeds", "planned_seeds", "states", "parameters"]
    columns += ["multiply_adds", *(["seconds"] if report.with_times else [])]
    rows = []
    for group in report.groups:
        for name in report.metrics(group.task) or ("",):
            rows.append(_score_row(report, group, name))
    return plain_table("scores", "Scores over seeds", columns, rows)


def _score_row(report: StudyReport, group: Group, name: str) -> list[Any]:
    found = group.metric(name)
    spread = found.spread if found else None
    low, high = spread.interval if spread and spread.interval else (None, None)
    row = [group.task, group.attention, *_grid(report, group.grid), name]
    row += [found.unit if found else "", found.better if found else ""]
    row += [spread.mean if spread else None, spread.deviation if spread else None, low, high]
    row += [spread.n if spread else 0, len(group.cells), group.states]
    row += [group.parameters, group.multiply_adds]
    return [*row, *([group.seconds] if report.with_times else [])]


def _grid(report: StudyReport, point: Mapping[str, Any]) -> list[Any]:
    return [point.get(key) for key in report.study.grid]


def comparisons(report: StudyReport) -> Table:
    """Every attention against the baseline."""
    columns = ["task", "attention", "baseline", *report.study.grid, "metric", "unit", "better"]
    columns += ["system", "baseline_value", "difference", "interval_low", "interval_high"]
    columns += ["seed_interval_low", "seed_interval_high", "p_value", "p_holm", "resampled"]
    columns += ["seeds", "items", "resamples", "verdict"]
    rows: list[list[Any]] = []
    for one in report.comparisons:
        row = [one.task, one.attention, one.baseline, *_grid(report, one.grid)]
        row += [one.metric, one.unit, one.better, one.system_value, one.baseline_value]
        row += [one.difference, *(one.interval or (None, None))]
        row += [*(one.seed_interval or (None, None)), one.p_value, one.p_holm, one.resampled]
        row += [" ".join(map(str, one.seeds)), one.n_items, one.n_resamples, one.verdict]
        rows.append(row)
    return plain_table("comparisons", "Paired comparisons", columns, rows)


def runs(report: StudyReport) -> Table:
    """Every run, with what is needed to find it and to make it again."""
    columns = ["run_folder", "task", "attention", *report.study.grid, "seed", "state", "reason"]
    columns += ["metric", "value", "parameters", "multiply_adds"]
    columns += [*(["seconds"] if report.with_times else []), "config_hash", "code", "command"]
    rows: list[list[Any]] = []
    for cell in report.study.cells:
        main, record = next(iter(cell.metrics.items()), ("", None))
        row = [cell.id, cell.task, cell.attention, *_grid(report, cell.grid), cell.seed]
        row += [cell.state, cell.reason, main, record.value if record else None]
        row += [cell.parameters, cell.multiply_adds]
        row += [cell.seconds] if report.with_times else []
        rows.append([*row, cell.config_hash, cell.code, cell.command])
    return plain_table("runs", "Runs", columns, rows)


def run_scores(report: StudyReport) -> Table:
    """Every metric of every run that has scores."""
    columns = ["run_folder", "task", "attention", "seed", "state", "metric", "value", "unit"]
    columns += ["n", "better", "config_hash"]
    rows = [
        [
            *(cell.id, cell.task, cell.attention, cell.seed, cell.state, name, record.value),
            *(record.unit, record.n, record.better, cell.config_hash),
        ]
        for cell in report.study.cells
        for name, record in shown_metrics(report, cell)
    ]
    return plain_table("run-scores", "Scores of single runs", columns, rows)


def shown_metrics(report: StudyReport, cell: CellResult) -> list[tuple[str, Any]]:
    """The metrics of a run that the report shows."""
    found = list(cell.metrics.items())
    return found[:1] if report.main_only else found


def floors(report: StudyReport) -> Table:
    """The trivial answers of every task; with the grid point where they depend on it."""
    rows = []
    for task in report.study.tasks:
        shown = report.metrics(task)
        for grid, of_point in floors_by_point(report.of_task(task)):
            for floor, of_floor in of_point.items():
                for name, record in of_floor.items():
                    if name in shown:
                        row = [task, *_grid(report, grid), floor, name]
                        rows.append([*row, record.value, record.unit, record.n])
    columns = ["task", *report.study.grid, "floor", "metric", "value", "unit", "n"]
    return plain_table("floors", "Scores of trivial answers", columns, rows)


def curves(report: StudyReport) -> Table:
    """The learning curve of every run: one row a validation and metric."""
    rows = []
    for cell in report.study.cells:
        for point in cell.curve:
            values = {"train_loss": point.train_loss, "valid_loss": point.valid_loss}
            for name, value in {**values, **point.metrics}.items():
                rows.append([cell.id, point.step, name, value])
    columns = ["run_folder", "step", "metric", "value"]
    return plain_table("curves", "Learning curves on the validation split", columns, rows)


def tuning(report: StudyReport) -> Table:
    """What `damcha suite tune` tried and chose."""
    found = report.study.tuning
    budget = json.dumps(found.get("budget", {}), ensure_ascii=False, sort_keys=True)
    rows = []
    for place, cell in sorted(mapping_in(found, "cells").items()):
        task, _, attention = place.partition("/")
        chosen = number_in(cell, "chosen")
        for rate, score in mapping_in(cell, "scores").items():
            is_chosen = chosen is not None and as_number(rate) == chosen
            rows.append([task, attention, rate, score, "yes" if is_chosen else "no", budget])
    columns = ["task", "attention", "learning_rate", "validation_score", "chosen", "budget"]
    return plain_table("tuning", "Learning rates tried and chosen", columns, rows)


def as_number(text: str) -> float | None:
    """A number written as text; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None
