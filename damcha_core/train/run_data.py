"""The data of a run: kept in its folder, and the same wherever and whenever it trains."""

from __future__ import annotations

import json

from damcha_core.config.schema import RunConfig
from damcha_core.errors import DataError
from damcha_core.evaluate.reconstruction import training_mean
from damcha_core.tasks.build import task_type
from damcha_core.tasks.reconstruction import ReconstructionTask
from damcha_core.tasks.task import Task, TaskFacts
from damcha_core.train.resumption import fingerprints, run_hash
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.world import World


def require_one_run(world: World, config: RunConfig, task: Task) -> None:
    """Refuse processes that would train different models, or on different data.

    Args:
        world: the processes; one process is always of one run.
        config: the settings this one was given.
        task: with the data that it found.

    Raises:
        UsageError: another process has other settings or other data.
    """
    if world.size > 1:
        world.require_same("settings", run_hash(config))
        known = {"facts": task.facts.to_mapping(), "assets": fingerprints(task.assets)}
        world.require_same("data", json.dumps(known, sort_keys=True))


def data_kept(
    folder: RunFolder, config: RunConfig
) -> tuple[TaskFacts | None, dict[str, bytes] | None]:
    """What the run knows and keeps of its data; a run stopped at its very start may have none.

    Args:
        folder: the run folder.
        config: its settings.

    Returns:
        Facts and files by name, or None and None.

    Raises:
        CheckpointError: there is a checkpoint, and the facts or a file is missing or damaged.
    """
    if not folder.facts_file.exists() and not folder.checkpoints.names():
        return None, None
    kind = task_type(config)
    return folder.read_facts(kind.facts_type), folder.read_assets(kind.asset_names)


def require_same_data(task: Task, folder: RunFolder) -> None:
    """Refuse to go on with data that changed.

    Args:
        task: knows what the data were, and reads what they are.
        folder: the run folder, for the message.

    Raises:
        DataError: the data changed, or are gone.
    """
    stored, present = task.facts, task.read_facts()
    if not stored.is_same_data(present):
        raise DataError(
            f"{folder.path}: the data changed since the run started: {present.summary} now, "
            f"{stored.summary} then; put the old data back or start a new run"
        )


def store_data_facts(folder: RunFolder, task: Task) -> None:
    """Keep what is needed of the data once it is gone, unless it is there already.

    Args:
        folder: the run folder.
        task: with its data.

    Raises:
        DiskError: the folder cannot be written.
    """
    folder.store_assets(
        {name: text for name, text in task.assets.items() if not (folder.path / name).exists()}
    )
    if not folder.facts_file.exists():
        folder.store_facts(task.facts)
    if isinstance(task, ReconstructionTask) and not folder.mean_picture_file.exists():
        folder.store_mean_picture(training_mean(task))
