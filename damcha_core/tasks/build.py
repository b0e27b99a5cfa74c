"""From settings to a task."""

from __future__ import annotations

from collections.abc import Mapping

from damcha_core.catalog.loading import load
from damcha_core.catalog.tasks import task_row
from damcha_core.config.schema import RunConfig
from damcha_core.data.notify import Notify, no_notice
from damcha_core.tasks.task import Task, TaskFacts


def build_task(
    config: RunConfig,
    facts: TaskFacts | None = None,
    assets: Mapping[str, bytes] | None = None,
    *,
    notify: Notify = no_notice,
) -> Task:
    """The task that run.task names.

    Args:
        config: resolved settings.
        facts: facts of the data from a run folder; None reads them from the data when needed.
        assets: files that a run kept of its data, by name; None makes them from the data.
        notify: told how far reading or fetching the data has come.

    Raises:
        UsageError: there is no such task.
    """
    row = task_row(config.run.task)
    kind = task_type(config)
    return kind(row, config, facts=facts, assets=assets, notify=notify)


def task_type(config: RunConfig) -> type[Task]:
    """The class of the task that run.task names.

    Raises:
        UsageError: there is no such task.
    """
    kind: type[Task] = load(task_row(config.run.task).builder)
    return kind
