"""What an export shows of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from damcha_core.evaluate.text.bootstrap import N_RESAMPLES
from damcha_core.experiments.results.aggregate import Group, groups_of, task_metrics
from damcha_core.experiments.results.cell_result import MetricRecord, Study
from damcha_core.experiments.results.paired import Comparison, compare


@dataclass(frozen=True)
class StudyReport:
    """A study, put together for export.

    Attributes:
        study: its runs.
        groups: these by task, grid point and attention.
        comparisons: every attention against the baseline.
        baseline: name of that attention.
        main_only: show the main metric of each task alone.
        with_times: show how long runs took.
    """

    study: Study
    groups: Sequence[Group]
    comparisons: Sequence[Comparison]
    baseline: str
    main_only: bool
    with_times: bool

    def of_task(self, task: str) -> list[Group]:
        """The groups of a task."""
        return [group for group in self.groups if group.task == task]

    def metrics(self, task: str) -> dict[str, MetricRecord]:
        """The metrics that are shown of a task, the main one first."""
        found = task_metrics(self.of_task(task))
        return dict(list(found.items())[:1]) if self.main_only else found


def study_report(
    study: Study,
    *,
    baseline: str = "mha",
    main_only: bool = False,
    with_times: bool = True,
    n_resamples: int = N_RESAMPLES,
) -> StudyReport:
    """Put a study together for export.

    Args:
        study: its runs.
        baseline: the attention that the others are compared with.
        main_only: show and test the main metric of each task alone.
        with_times: show how long runs took; without that, nothing in an export depends on it.
        n_resamples: resamples of each test.

    Returns:
        The report.
    """
    comparisons = compare(study.cells, baseline, main_only=main_only, n_resamples=n_resamples)
    groups = groups_of(study.cells)
    return StudyReport(study, groups, comparisons, baseline, main_only, with_times)
