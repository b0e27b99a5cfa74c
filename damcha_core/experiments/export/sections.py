"""What a reader is shown, in order: tables under headings, for every format alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from damcha_core.experiments.export.adaptivity_tables import adaptivity_table
from damcha_core.experiments.export.data_tables import tuning
from damcha_core.experiments.export.grid_tables import grid_table
from damcha_core.experiments.export.score_tables import comparison_table, score_table
from damcha_core.experiments.export.table import Column, Entry, Table, count, significant, words
from damcha_core.experiments.results.plain_json import mapping_in, text_in
from damcha_core.experiments.results.study_report import StudyReport

SHORT_HASH = 12


def reader_tables(report: StudyReport) -> list[Table]:
    """The tables for a reader.

    Args:
        report: of a study.

    Returns:
        For each task its main metric against what the suite varies (where it does), its scores and
        comparisons, then tuning and adaptivity where the study has
        them, then every run.
    """
    tables: list[Table | None] = []
    for task in report.study.tasks:
        tables += [grid_table(report, task), score_table(report, task)]
        tables += [comparison_table(report, task)]
    tables += [tuning_table(report), adaptivity_table(report), run_table(report)]
    return [table for table in tables if table is not None]


def tuning_table(report: StudyReport) -> Table | None:
    """The learning rates that were tried, and which was taken."""
    found = tuning(report)
    score = [column.key for column in found.columns].index("validation_score")
    tried = {row[:2] for row in found.rows if row[score].value is not None}
    shown = [row for row in found.rows if row[:2] in tried]
    if not shown:
        return None
    columns = tuple(
        Column(column.key, column.title, is_text=True)
        for column in found.columns
        if column.key != "budget"
    )
    rows = tuple(
        tuple(
            Entry(significant(e.value), e.value) if isinstance(e.value, float) else e
            for e in row[:-1]
        )
        for row in shown
    )
    notes = grid_notes(report.study.tuning)
    notes += budget_notes(mapping_in(report.study.tuning, "budget"))
    return Table(found.name, found.title, columns, rows, tuple(notes))


def grid_notes(tuning: Mapping[str, Any]) -> list[str]:
    """Which rates were tried, by task where tasks differ."""
    grids = mapping_in(tuning, "grids")
    texts = {task: ", ".join(map(str, g)) for task, g in grids.items() if isinstance(g, list)}
    if len(set(texts.values())) > 1:
        parts = "; ".join(f"{task} {text}" for task, text in texts.items())
        return [f"The same grid for every attention of a task: {parts}."]
    grid = tuning.get("grid")
    if not isinstance(grid, list):
        return []
    return [f"The same grid for every attention: {', '.join(map(str, grid))}."]


def budget_notes(budget: dict[str, Any]) -> list[str]:
    """What a trial was allowed, of the budget in tuning.json."""
    settings = mapping_in(budget, "settings")
    parts = [f"{task} {_settings(mapping_in(settings, task))}" for task in settings]
    parts += [f"every task {_settings(mapping_in(budget, 'set'))}"] if budget.get("set") else []
    if not budget:
        return []
    name = text_in(budget, "name") or "?"
    return [f"Budget of a trial, {name}: {'; '.join(parts) or 'the recipe of each task'}."]


def _settings(table: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in table.items())


def run_table(report: StudyReport) -> Table:
    """Every run with its main score, where it lies and under which settings it ran."""
    columns = [
        Column("run_folder", "run folder", is_text=True),
        Column("seed", "seed"),
        Column("state", "state", is_text=True),
        Column("metric", "metric", is_text=True),
        Column("value", "score"),
        Column("parameters", "parameters"),
        Column("multiply_adds", "multiply-adds"),
        *([Column("seconds", "seconds")] if report.with_times else []),
        Column("config_hash", "settings", is_text=True),
    ]
    rows, notes = [], []
    for cell in report.study.cells:
        main, record = next(iter(cell.metrics.items()), ("", None))
        value = record.value if record else None
        row = [words(cell.id), count(cell.seed), words(cell.state), words(main)]
        row += [Entry(significant(value, 6), value)]
        row += [count(cell.parameters), count(cell.multiply_adds)]
        row += [Entry(significant(cell.seconds), cell.seconds)] if report.with_times else []
        rows.append((*row, words(cell.config_hash[:SHORT_HASH])))
        if cell.reason:
            notes.append(f"{cell.id}: {cell.state}: {' '.join(cell.reason.split())}")
    if report.study.rates:
        notes.append(f"Learning rates: {report.study.rates}.")
    codes = {cell.code for cell in report.study.cells if cell.is_done}
    if len(codes) > 1:
        notes.append(
            f"These runs were made by {len(codes)} versions of the code, which may differ in what "
            "they compute; runs.csv says which by which."
        )
    notes.append(
        "Settings are the first digits of the configuration's hash; parameters are those of the "
        "whole model, multiply-adds those of a forward pass for one sample of mean length "
        "(2 FLOPs each)."
    )
    if report.with_times:
        notes.append(
            "Seconds are those of training and validation, added up over interruptions, and depend "
            "on what else the machine did."
        )
    return Table("runs", "Every run", tuple(columns), tuple(rows), tuple(notes))
