"""The main metric against one varied setting: attentions down, values of the setting across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from damcha_core.experiments.export.score_tables import (
    better_way,
    floor_words,
    floors_by_point,
    metric_column,
    plain_entry,
)
from damcha_core.experiments.export.table import Column, Entry, Table, decimals_for, words
from damcha_core.experiments.results.aggregate import Group
from damcha_core.experiments.results.study_report import StudyReport

Head = tuple[str, ...]
"""What a row stands for: an attention, and the values of the other varied settings."""


def grid_table(report: StudyReport, task: str) -> Table | None:
    """The main metric of a task against the first setting that the suite varies.

    Args:
        report: of a study.
        task: one of its tasks.

    Returns:
        A row an attention and point of the other varied settings, then one a trivial answer; None
        where the suite varies nothing, or no run is done.
    """
    groups, metrics = report.of_task(task), report.metrics(task)
    if not (report.study.grid and metrics):
        return None
    key, *others = report.study.grid
    metric, record = next(iter(metrics.items()))
    better, setting = better_way(record.better), key.rpartition(".")[2]
    heads = list(dict.fromkeys(_head(group, others) for group in groups))
    floors = _floors(groups, metric, others)
    names = list(dict.fromkeys(name for _, name, _ in floors))
    columns = [Column("attention", "attention", is_text=True)]
    columns += [Column(other, other.rpartition(".")[2], is_text=True) for other in others]
    body = [[words(text) for text in column] for column in zip(*heads, strict=True)]
    for place, column in enumerate(body):
        column += [words("" if place else floor_words(name)) for name in names]
    for value in dict.fromkeys(group.grid.get(key) for group in groups):
        columns.append(Column(f"{key}={value}", f"{setting} {value}", better))
        of_value = [group for group in groups if group.grid.get(key) == value]
        scores = metric_column(of_value, metric, record)
        by_head = {_head(g, others): e for g, e in zip(of_value, scores, strict=True)}
        decimals = decimals_for(e.value for e in scores if isinstance(e.value, float))
        entries = [by_head.get(head, Entry("")) for head in heads]
        for name in names:
            own = (v for grid, n, v in floors if n == name and grid.get(key, value) == value)
            entries.append(plain_entry(next(own, None), decimals))
        body.append(entries)
    return Table(
        f"grid-{task}",
        f"{task}: {metric} on the test split against {setting}",
        tuple(columns),
        tuple(tuple(row) for row in zip(*body, strict=True)),
        (f"{metric}: {record.unit}, {record.better} is better.",),
    )


def _head(group: Group, others: Sequence[str]) -> Head:
    return (group.attention, *(str(group.grid.get(other, "")) for other in others))


def _floors(
    groups: Sequence[Group], metric: str, others: Sequence[str]
) -> list[tuple[Mapping[str, Any], str, float | None]]:
    """Grid point, name and score of each trivial answer; of all others' values the first."""
    found = floors_by_point(groups)
    first = {
        other: next((grid[other] for grid, _ in found if other in grid), None) for other in others
    }
    return [
        (grid, name, scores[metric].value)
        for grid, floors in found
        for name, scores in floors.items()
        if metric in scores and all(grid.get(o, v) == v for o, v in first.items())
    ]
