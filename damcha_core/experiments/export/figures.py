"""Learning curves, scores against cost, and scores with their intervals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from damcha_core.experiments.export.drawing import (
    colour,
    drawing,
    log_axis,
    marker,
    new_figure,
    written,
)
from damcha_core.experiments.export.heat_maps import map_figure, norm_figure
from damcha_core.experiments.results.aggregate import Group
from damcha_core.experiments.results.study_report import StudyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAINT = 0.35
ARROWS = {"higher": "higher is better", "lower": "lower is better"}


def figures(report: StudyReport) -> dict[str, bytes]:
    """All figures of a study.

    Args:
        report: of a study.

    Returns:
        Content by file name. Nothing is drawn where there is nothing to draw. Without times no
        figure depends on them.
    """
    files: dict[str, bytes] = {}
    with drawing():
        for name, figure in _all(report):
            for ending, content in written(figure).items():
                files[f"{name}.{ending}"] = content
    return files


def _all(report: StudyReport) -> Iterator[tuple[str, Figure]]:
    for task in report.study.tasks:
        curves = curve_figure(report, task)
        if curves is not None:
            yield f"curves-{file_stem(task)}", curves
    tasks = [task for task in report.study.tasks if scored(report, task)]
    if tasks:
        yield "score-and-cost", cost_figure(report, tasks)
        yield "scores", score_figure(report, tasks)
    for group in report.groups:
        # One run shows what they look like; the numbers of all are in the tables.
        looked_at = [cell for cell in group.cells if cell.adaptivity][:1]
        for cell in looked_at:
            for kind, make in (("norms", norm_figure), ("maps", map_figure)):
                figure = make(cell.id, cell.adaptivity)
                if figure is not None:
                    yield f"metrics-{kind}-{file_stem(cell.id)}", figure


def file_stem(text: str) -> str:
    """A name that a file can have everywhere."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:100]


def scored(report: StudyReport, task: str) -> list[tuple[Group, float]]:
    """The groups of a task that have a main score, with its mean."""
    main = next(iter(report.metrics(task)), "")
    found = []
    for group in report.of_task(task):
        metric = group.metric(main)
        if metric is not None and metric.spread is not None:
            found.append((group, metric.spread.mean))
    return found


def group_label(report: StudyReport, group: Group) -> str:
    """Attention and grid point."""
    point = [f"{key.rpartition('.')[2]} {group.grid.get(key)}" for key in report.study.grid]
    return ", ".join([group.attention, *point])


def curve_figure(report: StudyReport, task: str) -> Figure | None:
    """Training loss, validation loss and the main validation metric against steps.

    Args:
        report: of a study.
        task: one of its tasks.

    Returns:
        A line a run, those of one attention in one colour; None without a point.
    """
    groups = [group for group in report.of_task(task) if any(cell.curve for cell in group.cells)]
    if not groups:
        return None
    names = report.study.attentions
    main = next(iter(report.metrics(task)), "")
    figure = new_figure(10, 3)
    panels = figure.subplots(1, 3 if main else 2, squeeze=False)[0]
    titles = ["training loss", "validation loss", f"validation {main}"][: len(panels)]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
        axes.set_xlabel("steps")
    for group in groups:
        label = group_label(report, group)
        for cell in group.cells:
            steps = [point.step for point in cell.curve]
            columns = [
                [point.train_loss for point in cell.curve],
                [point.valid_loss for point in cell.curve],
                [point.metrics.get(main) for point in cell.curve],
            ]
            for axes, values in zip(panels, columns, strict=False):
                _line(axes, steps, values, colour(names, group.attention), label)
            label = "_"  # one line of a group is named
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center")
    figure.suptitle(task)
    return figure


def _line(
    axes: Axes, steps: Sequence[int], values: Sequence[float | None], shade: str, label: str
) -> None:
    known = [(step, v) for step, v in zip(steps, values, strict=True) if v is not None]
    axes.plot(
        [step for step, _ in known],
        [value for _, value in known],
        color=shade,
        linewidth=1,
        marker="." if len(known) < 3 else "",
        label=label,
    )


def cost_figure(report: StudyReport, tasks: Sequence[str]) -> Figure:
    """The main score against parameters, multiply-adds and, with times, wall time.

    Args:
        report: of a study.
        tasks: those with scores.

    Returns:
        A row a task.
    """
    costs = ["parameters", "multiply_adds", *(["seconds"] if report.with_times else [])]
    titles = {
        "parameters": "parameters",
        "multiply_adds": "forward multiply-adds per sample",
        "seconds": "wall seconds of training and validation",
    }
    names = report.study.attentions
    figure = new_figure(3.2 * len(costs) + 1.5, 2.4 * len(tasks) + 0.4)
    panels = figure.subplots(len(tasks), len(costs), squeeze=False)
    seen = {}
    for task, row in zip(tasks, panels, strict=True):
        main, record = next(iter(report.metrics(task).items()))
        row[0].set_ylabel(f"{task}: {main}\n({ARROWS[record.better]})")
        for axes, cost in zip(row, costs, strict=True):
            axes.set_xlabel(titles[cost])
            points = [(g, getattr(g, cost), mean) for g, mean in scored(report, task)]
            points = [point for point in points if point[1]]
            for group, paid, mean in points:
                seen[group.attention] = axes.errorbar(
                    [paid],
                    [mean],
                    yerr=_half_intervals(group, main),
                    fmt=marker(names, group.attention),
                    color=colour(names, group.attention),
                    markersize=5,
                    capsize=2,
                )
            if points:
                log_axis(axes, [paid for _, paid, _ in points])
    ordered = [name for name in names if name in seen]
    figure.legend([seen[name] for name in ordered], ordered, loc="outside right center")
    return figure


def _half_intervals(group: Group, metric: str) -> list[list[float]] | None:
    found = group.metric(metric)
    if found is None or found.spread is None or found.spread.interval is None:
        return None
    return [[found.spread.mean - found.spread.interval[0]]] * 2


def score_figure(report: StudyReport, tasks: Sequence[str]) -> Figure:
    """The main score of every group with its 95 % interval over seeds, and the single runs.

    Args:
        report: of a study.
        tasks: those with scores.

    Returns:
        A panel a task. Bars begin at the smallest value less a margin, as the axis says, because
        differences are what is looked for.
    """
    names = report.study.attentions
    heights = [len(scored(report, task)) for task in tasks]
    figure = new_figure(7, sum(0.24 * n + 0.7 for n in heights))
    panels = figure.subplots(len(tasks), 1, squeeze=False, height_ratios=heights)[:, 0]
    for task, axes in zip(tasks, panels, strict=True):
        main, record = next(iter(report.metrics(task).items()))
        groups = scored(report, task)
        lows, highs = [], []
        for place, (group, mean) in enumerate(groups):
            runs = [c.metrics[main].value for c in group.done if main in c.metrics]
            singles = [value for value in runs if value is not None]
            half = _half_intervals(group, main)
            reach = half[0][0] if half else 0.0
            lows += [mean - reach, *singles]
            highs += [mean + reach, *singles]
            shade = colour(names, group.attention)
            axes.barh(place, mean, color=shade, alpha=FAINT)
            axes.errorbar([mean], [place], xerr=half, fmt="|", color=shade, capsize=3)
            axes.plot(singles, [place] * len(singles), ".", color="black", markersize=3)
        margin = (max(highs) - min(lows)) * 0.15 or abs(max(highs)) * 0.05 or 1.0
        axes.set_xlim(min(lows) - margin, max(highs) + margin)
        axes.set_yticks(range(len(groups)), [group_label(report, group) for group, _ in groups])
        axes.invert_yaxis()
        axes.set_xlabel(f"{main}, {record.unit} ({ARROWS[record.better]}); the axis is cut")
        axes.set_title(task)
    return figure
