"""The tables that a reader compares attentions in, one a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from damcha_core.experiments.export.table import (
    NOTHING,
    Better,
    Column,
    Entry,
    Table,
    count,
    decimals_for,
    fixed,
    mark_best,
    significant,
    words,
)
from damcha_core.experiments.results.aggregate import Group, MetricSpread
from damcha_core.experiments.results.cell_result import MetricRecord
from damcha_core.experiments.results.paired import Comparison
from damcha_core.experiments.results.study_report import StudyReport

Floors = Mapping[str, Mapping[str, MetricRecord]]
NOT_AVAILABLE = "not available"


def grid_columns(report: StudyReport) -> list[Column]:
    """A column for each setting that the suite varies."""
    return [Column(key, key.rpartition(".")[2], is_text=True) for key in report.study.grid]


def grid_entries(report: StudyReport, group: Group | Comparison) -> list[Entry]:
    """The settings of a row."""
    return [words(str(group.grid.get(key, ""))) for key in report.study.grid]


def score_table(report: StudyReport, task: str) -> Table:
    """The scores of all attentions on a task, with what each costs beside them.

    Args:
        report: of a study.
        task: one of its tasks.

    Returns:
        A row an attention (and grid point), then one a trivial answer.
    """
    groups = report.of_task(task)
    columns = [Column("attention", "attention", is_text=True), *grid_columns(report)]
    columns += [Column("runs", "runs", is_text=True)]
    body: list[list[Entry]] = [[words(group.attention) for group in groups]]
    of_grid = [grid_entries(report, group) for group in groups]
    body += [list(column) for column in zip(*of_grid, strict=True)]
    body += [[words(run_words(group)) for group in groups]]
    metrics = report.metrics(task)
    for place, (name, record) in enumerate(metrics.items()):
        columns.append(Column(name, name, better_way(record.better)))
        body.append(metric_column(groups, name, record))
        if place == 0:
            columns.append(Column(f"{name}_interval", f"95 % interval of {name}"))
            body.append(interval_column(groups, name))
    columns += [Column("parameters", "parameters"), Column("multiply_adds", "multiply-adds")]
    body += [[count(group.parameters) for group in groups]]
    body += [[count(group.multiply_adds) for group in groups]]
    if report.with_times:
        columns.append(Column("seconds", "seconds"))
        body.append([Entry(significant(g.seconds), g.seconds) for g in groups])
    rows = [tuple(row) for row in zip(*body, strict=True)]
    rows += floor_rows(groups, columns, metrics)
    title = f"{task}: scores on the test split"
    return Table(
        f"scores-{task}", title, tuple(columns), tuple(rows), tuple(score_notes(groups, metrics))
    )


def run_words(group: Group) -> str:
    """How many of a group's runs its scores are made of, and what became of the others."""
    done = len(group.done)
    if done == len(group.cells):
        return str(done)
    return f"{done} of {len(group.cells)} ({group.states})"


def metric_column(groups: Sequence[Group], name: str, record: MetricRecord) -> list[Entry]:
    """Mean and standard deviation of a metric for every group, words where there is none."""
    found = [group.metric(name) for group in groups]
    means = [None if m is None or m.spread is None else m.spread.mean for m in found]
    decimals = decimals_for(means)
    entries = [
        Entry(_metric_text(group, metric, decimals), mean)
        for group, metric, mean in zip(groups, found, means, strict=True)
    ]
    shown = [None if mean is None else fixed(mean, decimals) for mean in means]
    return mark_best(entries, shown, better_way(record.better))


def _metric_text(group: Group, metric: MetricSpread | None, decimals: int) -> str:
    if metric is None:
        return group.states if not group.done else NOT_AVAILABLE
    if metric.spread is None:
        return NOT_AVAILABLE
    text = fixed(metric.spread.mean, decimals)
    deviation = metric.spread.deviation
    return text if deviation is None else f"{text} ± {fixed(deviation, decimals)}"


def interval_column(groups: Sequence[Group], name: str) -> list[Entry]:
    """The 95 % interval over seeds of a metric for every group."""
    found = [group.metric(name) for group in groups]
    spreads = [None if metric is None else metric.spread for metric in found]
    decimals = decimals_for(None if s is None else s.mean for s in spreads)
    return [Entry(interval_text(None if s is None else s.interval, decimals)) for s in spreads]


def interval_text(interval: tuple[float, float] | None, decimals: int) -> str:
    """An interval for a reader."""
    if interval is None:
        return NOTHING
    return f"{fixed(interval[0], decimals)} to {fixed(interval[1], decimals)}"


def floors_by_point(groups: Sequence[Group]) -> list[tuple[Mapping[str, Any], Floors]]:
    """The trivial answers of a task, with the grid point that they belong to.

    Returns:
        One entry with no grid point where they are known for all points and the same, or else one
        entry for each point with a run that is done.
    """
    found: list[tuple[Mapping[str, Any], Floors]] = []
    for group in groups:
        if group.done and group.grid not in [grid for grid, _ in found]:
            found.append((group.grid, group.done[0].floors))
    n_points = len({repr(group.grid) for group in groups})
    if len(found) == n_points and all(floors == found[0][1] for _, floors in found):
        return [({}, found[0][1])]
    return found


def floor_rows(
    groups: Sequence[Group], columns: Sequence[Column], metrics: dict[str, MetricRecord]
) -> list[tuple[Entry, ...]]:
    """The trivial answers, which no model trained."""
    rows = []
    decimals = {
        name: decimals_for(m.spread.mean for g in groups if (m := g.metric(name)) and m.spread)
        for name in metrics
    }
    for grid, floors in floors_by_point(groups):
        for floor, scores in floors.items():
            row = [words(floor_words(floor))]
            for column in columns[1:]:
                record = scores.get(column.key) if column.key in metrics else None
                value = None if record is None else record.value
                if column.key in grid:
                    row.append(words(str(grid[column.key])))
                else:
                    row.append(plain_entry(value, decimals.get(column.key, 0)))
            rows.append(tuple(row))
    return rows


def floor_words(floor: str) -> str:
    """The name of a trivial answer for a reader."""
    return f"floor: {floor.replace('_', ' ')}"


def plain_entry(value: float | None, decimals: int) -> Entry:
    """A number with so many decimals; nothing for None."""
    return Entry("") if value is None else Entry(fixed(value, decimals), value)


def score_notes(groups: Sequence[Group], metrics: dict[str, MetricRecord]) -> Iterator[str]:
    """What has to be known to read the scores of a task."""
    for name, record in metrics.items():
        yield f"{name}: {record.unit}, {record.better} is better."
    if any(len(group.done) > 1 for group in groups):
        yield (
            "Mean ± standard deviation over seeds; the interval is that of the mean by Student's t."
        )
    signatures: dict[str, set[str]] = {}
    for cell in (cell for group in groups for cell in group.done):
        found = cell.details.get("signatures")
        for name, signature in (found if isinstance(found, dict) else {}).items():
            if name in metrics:
                signatures.setdefault(name, set()).add(str(signature))
    for name, different in signatures.items():
        yield f"{name} is made as {' and as '.join(sorted(different))}."


def comparison_table(report: StudyReport, task: str) -> Table | None:
    """Every attention against the baseline on a task.

    Args:
        report: of a study.
        task: one of its tasks.

    Returns:
        A row a comparison; None where there is none.
    """
    found = [comparison for comparison in report.comparisons if comparison.task == task]
    if not found:
        return None
    columns = [
        Column("attention", "attention", is_text=True),
        *grid_columns(report),
        Column("metric", "metric", is_text=True),
        Column("difference", f"less {report.baseline}"),
        Column("interval", "95 % interval"),
        Column("p_value", "p"),
        Column("p_holm", "p after Holm"),
        Column("resampled", "resampled", is_text=True),
        Column("seeds", "seeds"),
        Column("items", "items"),
        Column("verdict", f"than {report.baseline}", is_text=True),
    ]
    rows = []
    for one in found:
        decimals = decimals_for([one.difference])
        rows.append(
            (
                words(one.attention),
                *grid_entries(report, one),
                words(one.metric),
                Entry(_signed(one.difference, decimals), one.difference),
                Entry(interval_text(one.interval, decimals)),
                Entry(significant(one.p_value, 3), one.p_value),
                Entry(significant(one.p_holm, 3), one.p_holm),
                words(one.resampled or NOTHING),
                count(len(one.seeds)),
                count(one.n_items or None),
                words(one.verdict),
            )
        )
    title = f"{task}: every attention less {report.baseline} on the same test items"
    return Table(f"comparisons-{task}", title, tuple(columns), tuple(rows), comparison_notes(found))


def comparison_notes(found: Sequence[Comparison]) -> tuple[str, ...]:
    """How the tests of a table were made."""
    notes = []
    tested = [one for one in found if one.resampled]
    if tested:
        notes.append(
            f"Paired bootstrap, {tested[0].n_resamples:,} resamples; BLEU, chrF and TER of one "
            "seed by sacrebleu's."
        )
    kinds = {one.resampled for one in tested}
    if "items only" in kinds:
        notes.append("Items only: one seed, so the test says nothing about another training run.")
    if "seeds, then items" in kinds:
        notes.append(
            "Seeds, then items: each resample draws seeds (one fewer than there are, which makes "
            "their spread unbiased), then items once for all of them. With few seeds it is rough; "
            "comparisons.csv gives the interval over seeds by Student's t beside it."
        )
    if tested:
        notes.append(
            "Holm's correction over the comparisons of the task in one metric; the first metric "
            "is the main one. Better and worse at 5 % after the correction."
        )
    return tuple(notes)


def _signed(value: float | None, decimals: int) -> str:
    text = fixed(value, decimals)
    return f"+{text}" if value is not None and value > 0 and float(text) != 0 else text


def better_way(text: str) -> Better:
    """Which way is better, of the word in a record."""
    return "lower" if text == "lower" else "higher"
