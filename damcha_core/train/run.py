"""A run from its settings to its result: started, or continued where it stopped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from damcha_core.config.change import with_values
from damcha_core.config.consistency import notices, training_problems
from damcha_core.config.resolve import config_from_run
from damcha_core.config.schema import RunConfig
from damcha_core.data.randomness import torch_seed
from damcha_core.errors import CheckpointError, ConfigError, DataError
from damcha_core.evaluate.evaluator import build_evaluator
from damcha_core.evaluate.reconstruction import training_mean
from damcha_core.tasks.build import build_task, task_type
from damcha_core.tasks.reconstruction import ReconstructionTask
from damcha_core.tasks.task import Task, TaskFacts
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.checkpoint_store import BEST, LAST
from damcha_core.train.device import choose_device, memory_errors
from damcha_core.train.disk import replace_json
from damcha_core.train.environment import describe_environment
from damcha_core.train.learner import Learner
from damcha_core.train.metrics_log import read_metrics
from damcha_core.train.observer import Observer, RunStart
from damcha_core.train.precision import Precision
from damcha_core.train.resumption import (
    require_own,
    require_resumable_changes,
    stored_position,
)
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.signals import StopRequest
from damcha_core.train.state import TrainState
from damcha_core.train.torch_settings import torch_settings
from damcha_core.train.trained_run import load_run
from damcha_core.train.trainer import Trainer


@dataclass(frozen=True)
class RunOutcome:
    """What a finished (or paused) run came to.

    Attributes:
        folder: the run folder.
        result: the content of result.json.
        resumed_from: name of the checkpoint it went on from; empty for a fresh start.
        ended: why it is over: "epochs", "max_steps", "patience"; empty if it only paused.
        already_complete: True if there was nothing left to do.
    """

    folder: Path
    result: dict[str, Any]
    resumed_from: str
    ended: str
    already_complete: bool = False


def start(config: RunConfig, observer: Observer) -> RunOutcome:
    """Train a new run.

    Args:
        config: resolved settings.
        observer: told what happens.

    Raises:
        ConfigError: settings that cannot be trained.
        UsageError: the device is not there or the run folder is taken.
        DataError: the data set is missing or broken; nothing was written then.
        Interrupted, NonFiniteError, DiskError, OutOfMemoryError: see Trainer.run.
    """
    problems = training_problems(config)
    if problems:
        raise ConfigError(problems)
    device = choose_device(config.run.device)
    Precision(config.train.precision, device)  # refuses what the device lacks, before any work
    RunFolder.for_new_run(config)  # refuses a folder that is taken, before any work
    with torch_settings(config), memory_errors():
        task = build_task(config, notify=observer.progress)
        config = with_values(config, {"train.horizon_steps": horizon_steps(config, task)})
        for notice in task.notices:
            observer.notice(notice)
        for line in notices(config):
            observer.notice(line)
        learner = build_learner(config, task, device)
        folder = RunFolder.for_new_run(config)  # a default name may have been taken meanwhile
        with folder.claim(config):
            _store_data_facts(folder, task)
            return _train(config, task, learner, folder, TrainState(), "", observer)


def resume(
    path: Path,
    observer: Observer,
    *,
    sets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
) -> RunOutcome:
    """Continue a run from its newest good checkpoint.

    Args:
        path: the run folder.
        observer: told what happens.
        sets: "section.key=value" changes; only RESUME_MAY_CHANGE may really change.
        flags: changes by dotted key, likewise.

    Raises:
        CheckpointError: no run there, or no good checkpoint left.
        UsageError: a setting differs that may not, or another process trains there.
        Interrupted, NonFiniteError, DiskError, OutOfMemoryError: see Trainer.run.
    """
    folder = RunFolder.open(path)
    stored = folder.read_config()
    config = config_from_run(folder.config_file, sets, flags)
    require_resumable_changes(stored, config, path)
    device = choose_device(config.run.device)
    with folder.lock(), torch_settings(config), memory_errors():
        folder.sweep()
        facts, assets = _data_kept(folder, config)
        found = folder.checkpoints.load_newest_good(
            observer.notice,
            lambda place, checkpoint: require_own(place, checkpoint, stored, assets or {}),
        )
        task = build_task(config, facts, assets, notify=observer.progress)
        state, name = TrainState(), ""
        if found is not None:
            name, checkpoint = found
            state = stored_position(folder.checkpoints.folder / name, checkpoint)
            if _is_complete(state, config):
                return _completed(folder, config, state, name)
        learner = build_learner(config, task, device)
        if found is None:
            observer.notice(f"{path}: no checkpoint was saved yet; starting from step 0")
        else:
            _restore(learner, folder.checkpoints.folder / name, checkpoint, state, observer)
        _require_same_data(task, folder)
        _store_data_facts(folder, task)
        if config.train.epochs != stored.train.epochs:
            _keep_epochs(folder, stored, config, observer)
        return _train(config, task, learner, folder, state, name, observer)


def build_learner(config: RunConfig, task: Task, device: torch.device) -> Learner:
    """A freshly initialised model with its optimiser; a function of run.seed alone."""
    torch.manual_seed(torch_seed("init", config.run.seed))
    precision = Precision(config.train.precision, device)
    return Learner(task, task.build_model(), settings=config.train, precision=precision)


def horizon_steps(config: RunConfig, task: Task) -> int:
    """Length of the learning-rate schedule in updates.

    train.horizon_steps if given, else train.max_steps if given, else all epochs.
    """
    return config.train.horizon_steps or config.train.max_steps or total_steps(config, task)


def total_steps(config: RunConfig, task: Task) -> int:
    """Optimiser steps of all epochs, or train.max_steps if that is fewer."""
    micro_batches = len(task.training_batches(0, 0))
    steps = math.ceil(micro_batches / config.train.accumulate) * config.train.epochs
    return min(steps, config.train.max_steps) if config.train.max_steps else steps


def _train(
    config: RunConfig,
    task: Task,
    learner: Learner,
    folder: RunFolder,
    state: TrainState,
    resumed_from: str,
    observer: Observer,
) -> RunOutcome:
    device = learner.precision.device
    folder.add_environment(describe_environment(device, resumed_from=resumed_from))
    observer.started(
        RunStart(
            folder=folder.path,
            task=config.run.task,
            attention=config.attention.name,
            device=str(device),
            parameters=sum(p.numel() for p in learner.model.parameters()),
            epochs=config.train.epochs,
            first_epoch=state.epoch,
            horizon_steps=config.train.horizon_steps,
            steps=max(0, total_steps(config, task) - state.step),
        )
    )
    evaluator = build_evaluator(task)
    for line in evaluator.notices():
        observer.notice(line)
    trainer = Trainer(
        config,
        task=task,
        learner=learner,
        evaluator=evaluator,
        folder=folder,
        state=state,
    )
    with StopRequest() as stop:
        trainer.run(observer, stop)
    result = _write_result(folder, config, state, resumed_from)
    return RunOutcome(folder.path, result, resumed_from, state.ended)


def _write_result(
    folder: RunFolder, config: RunConfig, state: TrainState, resumed_from: str
) -> dict[str, Any]:
    """Score `best` on the validation split and write result.json."""
    # Without a single finite score there is no best.
    which = LAST if state.best.value is None else BEST
    where = {
        "run.device": config.run.device,
        "run.threads": config.run.threads,
        "data.root": config.data.root,
        "data.workers": config.data.workers,
    }
    best = load_run(folder.path, checkpoint=which, flags=where)
    evaluation, record = best.evaluate("valid")  # what it lacks was said at the start
    folder.keep_samples("valid", evaluation.files)
    record |= {
        "parameters": sum(p.numel() for p in best.model.parameters()),
        "steps": state.step,
        "epochs": state.epoch,
        "ended": state.ended,
        "seconds": round(sum(r["seconds"] for r in read_metrics(folder.metrics_file)), 3),
        "resumed_from": resumed_from,
    }
    replace_json(folder.result_file, record)
    return record


def _restore(
    learner: Learner, place: Path, checkpoint: Checkpoint, state: TrainState, observer: Observer
) -> None:
    try:
        learner.restore(checkpoint, updates=state.updates)
    except CheckpointError as error:
        raise CheckpointError(f"{place}: {error}") from error
    observer.notice(f"resuming from {place.name} (epoch {state.epoch + 1})")
    if checkpoint.threads != torch.get_num_threads():
        observer.notice(
            f"the run had {checkpoint.threads} threads, now {torch.get_num_threads()}: "
            "the last bits of the result can differ from an uninterrupted run"
        )


def _is_complete(state: TrainState, config: RunConfig) -> bool:
    """True if nothing is left to do; a run that ended by epochs may be given more of them."""
    if state.ended in ("", "epochs"):
        between_epochs = state.consumed == 0
        over = between_epochs and state.epoch >= config.train.epochs
        state.ended = "epochs" if over else ""
    return bool(state.ended)


def _completed(folder: RunFolder, config: RunConfig, state: TrainState, name: str) -> RunOutcome:
    # Stopped between the last checkpoint and its result, there is none or that of an earlier end.
    if not _has_result(folder, state):
        _write_result(folder, config, state, folder.resumed_from())
    return RunOutcome(folder.path, folder.read_result(), name, state.ended, already_complete=True)


def _has_result(folder: RunFolder, state: TrainState) -> bool:
    try:
        return folder.read_result().get("steps") == state.step
    except CheckpointError:  # missing or damaged: it can be made again
        return False


def _keep_epochs(
    folder: RunFolder, stored: RunConfig, config: RunConfig, observer: Observer
) -> None:
    """Store another number of epochs, so that a later resume goes to the same end."""
    folder.store_config(with_values(stored, {"train.epochs": config.train.epochs}))
    if config.train.epochs > stored.train.epochs:
        observer.notice(
            f"train.epochs raised from {stored.train.epochs} to {config.train.epochs}: the "
            f"schedule keeps its {config.train.horizon_steps} steps, so the added epochs run at "
            "the floor rate"
        )


def _data_kept(
    folder: RunFolder, config: RunConfig
) -> tuple[TaskFacts | None, dict[str, bytes] | None]:
    """What the run knows and keeps of its data; a run stopped at its very start may have none."""
    if not folder.facts_file.exists() and not folder.checkpoints.names():
        return None, None
    kind = task_type(config)
    return folder.read_facts(kind.facts_type), folder.read_assets(kind.asset_names)


def _require_same_data(task: Task, folder: RunFolder) -> None:
    stored, present = task.facts, task.read_facts()
    if not stored.is_same_data(present):
        raise DataError(
            f"{folder.path}: the data changed since the run started: {present.summary} now, "
            f"{stored.summary} then; put the old data back or start a new run"
        )


def _store_data_facts(folder: RunFolder, task: Task) -> None:
    """Keep what is needed of the data once it is gone, unless it is there already."""
    folder.store_assets(
        {name: text for name, text in task.assets.items() if not (folder.path / name).exists()}
    )
    if not folder.facts_file.exists():
        folder.store_facts(task.facts)
    if isinstance(task, ReconstructionTask) and not folder.mean_picture_file.exists():
        folder.store_mean_picture(training_mean(task))
