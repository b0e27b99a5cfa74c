"""Scores of the runs of one attention on one task, and their spread over seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from damcha_core.experiments.results.cell_result import STATES, CellResult, MetricRecord
from damcha_core.experiments.results.student_t import t_quantile


@dataclass(frozen=True)
class Spread:
    """Values of several seeds in short.

    Attributes:
        mean: of the values.
        deviation: their standard deviation, n - 1 in the denominator; None for one value.
        interval: 95 % interval of the mean by Student's t with n - 1 degrees of freedom; None
            for one value.
        n: how many values.
    """

    mean: float
    deviation: float | None
    interval: tuple[float, float] | None
    n: int


def spread(values: Sequence[float]) -> Spread | None:
    """Mean, standard deviation and interval of some values.

    Args:
        values: one a seed.

    Returns:
        Them; None without a value.
    """
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Spread(mean, None, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = t_quantile(n - 1) * deviation / math.sqrt(n)
    return Spread(mean, deviation, (mean - half, mean + half), n)


@dataclass(frozen=True)
class MetricSpread:
    """A metric over the seeds of a group.

    Attributes:
        name: of the metric.
        unit: of its values.
        better: "lower" or "higher".
        spread: None where no run has the metric.
    """

    name: str
    unit: str
    better: str
    spread: Spread | None


@dataclass(frozen=True)
class Group:
    """The runs of one attention on one task at one point of the grid, one a seed.

    Attributes:
        task: what was learnt.
        attention: with which attention.
        grid: the settings that the suite varies.
        cells: all runs, by seed.
    """

    task: str
    attention: str
    grid: Mapping[str, Any]
    cells: tuple[CellResult, ...]

    @property
    def done(self) -> list[CellResult]:
        """The runs whose scores count."""
        return [cell for cell in self.cells if cell.is_done]

    def metric(self, name: str) -> MetricSpread | None:
        """A metric over the runs that are done; None where none of them knows it."""
        records = [cell.metrics[name] for cell in self.done if name in cell.metrics]
        if not records:
            return None
        values = [record.value for record in records if record.value is not None]
        return MetricSpread(name, records[0].unit, records[0].better, spread(values))

    @property
    def parameters(self) -> int | None:
        """Of the model, the same for every seed."""
        return _first(cell.parameters for cell in self.cells)

    @property
    def multiply_adds(self) -> int | None:
        """Forward, for one sample of mean length, the same for every seed."""
        return _first(cell.multiply_adds for cell in self.cells)

    @property
    def seconds(self) -> float | None:
        """Mean over the runs that are done."""
        found = spread([cell.seconds for cell in self.done if cell.seconds is not None])
        return found.mean if found else None

    @property
    def states(self) -> str:
        """The states of the runs in words: one word where all are alike, else each with its count.

        Such as "failed", or "2 done, 1 diverged".
        """
        counts = Counter(cell.state for cell in self.cells)
        if len(counts) == 1:
            return next(iter(counts))
        return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def _first(values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def groups_of(cells: Sequence[CellResult]) -> list[Group]:
    """Runs put together that differ in their seed alone.

    Args:
        cells: of one study.

    Returns:
        Groups in the order in which they come first.
    """
    members: dict[tuple[str, str, str], list[CellResult]] = {}
    for cell in cells:
        members.setdefault((cell.task, cell.attention, repr(cell.grid)), []).append(cell)
    return [
        Group(of[0].task, of[0].attention, of[0].grid, tuple(sorted(of, key=lambda c: c.seed)))
        for of in members.values()
    ]


def task_metrics(groups: Sequence[Group]) -> dict[str, MetricRecord]:
    """The metrics that the runs of a task report, by name, the main one first.

    Args:
        groups: of one task.

    Returns:
        A record of each, for its unit and direction; none where no run is done.
    """
    found: dict[str, MetricRecord] = {}
    for group in groups:
        for cell in group.done:
            for name, record in cell.metrics.items():
                found.setdefault(name, record)
    return found
