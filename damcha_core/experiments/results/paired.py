"""Every attention against a baseline on the same test items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from damcha_core.evaluate.text.bootstrap import N_RESAMPLES, paired_test, resampled_values
from damcha_core.evaluate.text.text_score import FloatArray, TextScore
from damcha_core.experiments.results.aggregate import Group, groups_of, spread, task_metrics
from damcha_core.experiments.results.cell_result import CellResult
from damcha_core.experiments.results.hierarchical import hierarchical_test
from damcha_core.experiments.results.holm import holm
from damcha_core.experiments.results.item_records import NoItemScores

ITEMS_ONLY = "items only"
SEEDS_THEN_ITEMS = "seeds, then items"
SIGNIFICANT = 0.05


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A system beside the baseline in one metric.

    Attributes:
        task: what was learnt.
        attention: the system.
        baseline: what it is compared with, at the same point of the grid.
        grid: that point.
        metric: which one.
        unit: of the values.
        better: "lower" or "higher".
        seeds: those that both have; the values are means over them.
        system_value: of the system; None without a seed in common.
        baseline_value: of the baseline.
        difference: system less baseline.
        interval: 95 % interval of the difference by resampling.
        seed_interval: 95 % interval of the mean difference over seeds by Student's t; None for
            a single seed.
        p_value: two-sided; None where there is no test.
        p_holm: the same, corrected over the comparisons of the task in this metric.
        resampled: ITEMS_ONLY for one seed, SEEDS_THEN_ITEMS for several; empty without a test.
        n_items: items of the test split.
        n_resamples: resamples drawn.
        reason: why there is no test; empty where there is one.
    """

    task: str
    attention: str
    baseline: str
    grid: Mapping[str, Any]
    metric: str
    unit: str
    better: str
    seeds: tuple[int, ...] = ()
    system_value: float | None = None
    baseline_value: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    seed_interval: tuple[float, float] | None = None
    p_value: float | None = None
    p_holm: float | None = None
    resampled: str = ""
    n_items: int = 0
    n_resamples: int = 0
    reason: str = ""

    @property
    def verdict(self) -> str:
        """What the corrected test says, in words."""
        if self.p_holm is None or self.difference is None:
            return f"no test: {self.reason}"
        if self.p_holm >= SIGNIFICANT or self.difference == 0:
            return "no difference shown"
        return "better" if (self.difference > 0) == (self.better == "higher") else "worse"


def compare(
    cells: Sequence[CellResult],
    baseline: str,
    *,
    main_only: bool,
    n_resamples: int = N_RESAMPLES,
) -> list[Comparison]:
    """All comparisons of a study.

    Args:
        cells: its runs.
        baseline: the attention that the others are compared with.
        main_only: take the main metric of each task alone.
        n_resamples: resamples of each test.

    Returns:
        Comparisons in the order of the groups; those of a task in one metric are a family for
        Holm's correction.
    """
    groups = groups_of(cells)
    scores = ScoreTable(n_resamples)
    compared: list[Comparison] = []
    for task in dict.fromkeys(group.task for group in groups):
        of_task = [group for group in groups if group.task == task]
        references = {repr(g.grid): g for g in of_task if g.attention == baseline}
        metrics = list(task_metrics(of_task))
        for metric in metrics[:1] if main_only else metrics:
            family = [
                _comparison(group, references.get(repr(group.grid)), baseline, metric, scores)
                for group in of_task
                if group.attention != baseline and group.done
            ]
            corrected = holm([comparison.p_value for comparison in family])
            compared += [replace(c, p_holm=p) for c, p in zip(family, corrected, strict=True)]
    return compared


class ScoreTable:
    """Scores of runs in the form in which they can be resampled, each made once.

    Args:
        n_resamples: how many resamples `values` takes.
    """

    def __init__(self, n_resamples: int) -> None:
        self.n_resamples = n_resamples
        self._scores: dict[tuple[str, str], TextScore | NoItemScores] = {}
        self._values: dict[tuple[str, str], FloatArray] = {}

    def score(self, cell: CellResult, metric: str) -> TextScore:
        """A metric of a run, made of its items.

        Raises:
            NoItemScores: it cannot be made.
        """
        made = _once(self._scores, (cell.id, metric), lambda: _score(cell, metric))
        if isinstance(made, NoItemScores):
            raise made
        return made

    def values(self, cell: CellResult, metric: str) -> FloatArray:
        """A metric of a run on every resample of its items.

        Raises:
            NoItemScores: it cannot be made.
        """
        sums = self.score(cell, metric).sums
        assert sums is not None
        return _once(
            self._values, (cell.id, metric), lambda: resampled_values(sums, self.n_resamples)
        )


def _once(made: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    if key not in made:
        made[key] = make()
    return made[key]


def _score(cell: CellResult, metric: str) -> TextScore | NoItemScores:
    if cell.items is None:
        return NoItemScores(f"{cell.id}/samples/test.jsonl is missing or damaged")
    try:
        return cell.items.score(metric, cell.metrics[metric].value)
    except NoItemScores as reason:
        return reason


def _comparison(
    system: Group, reference: Group | None, baseline: str, metric: str, scores: ScoreTable
) -> Comparison:
    """A comparison before Holm's correction."""
    record = next((c.metrics[metric] for c in system.done if metric in c.metrics), None)
    compared = Comparison(
        task=system.task,
        attention=system.attention,
        baseline=baseline,
        grid=system.grid,
        metric=metric,
        unit=record.unit if record else "",
        better=record.better if record else "higher",
    )
    if reference is None:
        return replace(compared, reason=f"{baseline} is not in this study")
    ours, theirs = ({c.seed: c for c in g.done if _has(c, metric)} for g in (system, reference))
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if not seeds:
        return replace(compared, reason="no seed that both have this score of")
    values, base = ([_value(of[s], metric) for s in seeds] for of in (ours, theirs))
    differences = spread([v - b for v, b in zip(values, base, strict=True)])
    assert differences is not None
    compared = replace(
        compared,
        seeds=seeds,
        system_value=math.fsum(values) / len(seeds),
        baseline_value=math.fsum(base) / len(seeds),
        difference=differences.mean,
        seed_interval=differences.interval,
    )
    pairs = [(theirs[seed], ours[seed]) for seed in seeds]
    try:
        return _tested(compared, pairs, metric, scores)
    except NoItemScores as reason:
        return replace(compared, reason=str(reason))


def _has(cell: CellResult, metric: str) -> bool:
    return metric in cell.metrics and cell.metrics[metric].value is not None


def _value(cell: CellResult, metric: str) -> float:
    value = cell.metrics[metric].value
    assert value is not None
    return value


def _tested(
    compared: Comparison,
    pairs: Sequence[tuple[CellResult, CellResult]],
    metric: str,
    scores: ScoreTable,
) -> Comparison:
    """The comparison with its test.

    Raises:
        NoItemScores: the items do not allow one.
    """
    runs = [cell for pair in pairs for cell in pair]
    made = [scores.score(cell, metric) for cell in runs]
    keys = [cell.items.keys for cell in runs if cell.items is not None]
    if any(other != keys[0] for other in keys[1:]):
        raise NoItemScores("the two were not scored on the same test items")
    n_items = len(keys[0])
    if len(pairs) == 1:
        outcome = paired_test(made[0], made[1], scores.n_resamples)
        if outcome is None or outcome.p_value is None:
            raise NoItemScores("too few items")
        interval, p_value, resampled = outcome.interval, outcome.p_value, ITEMS_ONLY
    else:
        assert compared.difference is not None
        of_baseline, of_system = (
            [scores.values(cell, metric) for cell in side] for side in zip(*pairs, strict=True)
        )
        interval, found = hierarchical_test(of_baseline, of_system, compared.difference)
        if found is None or n_items < 2:
            raise NoItemScores("too few items")
        p_value, resampled = found, SEEDS_THEN_ITEMS
    return replace(
        compared,
        interval=interval,
        p_value=p_value,
        resampled=resampled,
        n_items=n_items,
        n_resamples=scores.n_resamples,
    )
