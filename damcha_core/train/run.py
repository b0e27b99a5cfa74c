"""A run from its settings to its result: started, or continued where it stopped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from damcha_core.config.change import with_values
from damcha_core.config.consistency import notices, training_problems
from damcha_core.config.resolve import config_from_run
from damcha_core.config.schema import RunConfig
from damcha_core.data.randomness import torch_seed
from damcha_core.errors import CheckpointError, ConfigError
from damcha_core.evaluate.evaluator import build_evaluator
from damcha_core.files import replace_json
from damcha_core.tasks.build import build_task
from damcha_core.tasks.task import Task
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.checkpoint_store import BEST, LAST
from damcha_core.train.device import choose_device, memory_errors
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
from damcha_core.train.run_data import (
    data_kept,
    require_one_run,
    require_same_data,
    store_data_facts,
)
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.signals import StopRequest
from damcha_core.train.state import TrainState
from damcha_core.train.torch_settings import torch_settings
from damcha_core.train.trained_run import load_run
from damcha_core.train.trainer import Trainer
from damcha_core.train.world import ALONE, World


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


def start(config: RunConfig, observer: Observer, world: World = ALONE) -> RunOutcome:
    """Train a new run.

    Args:
        config: resolved settings.
        observer: told what happens; of several processes that of the leader alone.
        world: the processes that train it together, each of which calls this.

    Raises:
        ConfigError: settings that cannot be trained.
        UsageError: the device is not there or the run folder is taken.
        DataError: the data set is missing or broken; nothing was written then.
        Interrupted, NonFiniteError, DiskError, OutOfMemoryError: see Trainer.run.
    """
    observer = observer if world.leads else Observer()
    device = world.together(lambda: _trainable_on(config, world))
    world.from_lead(lambda: str(RunFolder.for_new_run(config).path))  # refused before any work
    with torch_settings(config), memory_errors(), ExitStack() as kept:
        task, config = _prepared(config, observer, world)
        learner = world.together(lambda: build_learner(config, task, device, world))

        def claim() -> str:
            folder = RunFolder.for_new_run(config)  # a default name may have been taken meanwhile
            kept.enter_context(folder.claim(config))
            store_data_facts(folder, task)
            return str(folder.path)

        folder = RunFolder(Path(world.from_lead(claim)))
        return _train(config, task, learner, folder, TrainState(), "", observer)


def _trainable_on(config: RunConfig, world: World) -> torch.device:
    """The device, once settings and device are known to be fit for training."""
    problems = training_problems(config)
    if problems:
        raise ConfigError(problems)
    device = choose_device(config.run.device, world)
    Precision(config.train.precision, device)  # refuses what the device lacks, before any work
    return device


def _prepared(config: RunConfig, observer: Observer, world: World) -> tuple[Task, RunConfig]:
    """The task with its data read, and the settings with their horizon."""

    def prepare() -> tuple[Task, RunConfig]:
        task = build_task(config, notify=observer.progress)
        horizon = with_values(config, {"train.horizon_steps": horizon_steps(config, task)})
        for line in (*task.notices, *notices(horizon)):
            observer.notice(line)
        return task, horizon

    task, config = world.in_turn(prepare)
    require_one_run(world, config, task)
    return task, config


def resume(
    path: Path,
    observer: Observer,
    *,
    sets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    world: World = ALONE,
) -> RunOutcome:
    """Continue a run from its newest good checkpoint.

    Args:
        path: the run folder.
        observer: told what happens; of several processes that of the leader alone.
        sets: "section.key=value" changes; only RESUME_MAY_CHANGE may really change.
        flags: changes by dotted key, likewise.
        world: the processes that go on with it together, each of which calls this; they need not
            be as many as before.

    Raises:
        CheckpointError: no run there, or no good checkpoint left.
        UsageError: a setting differs that may not, or another process trains there.
        Interrupted, NonFiniteError, DiskError, OutOfMemoryError: see Trainer.run.
    """
    observer = observer if world.leads else Observer()
    folder = RunFolder(path)

    def opened() -> tuple[RunConfig, RunConfig, torch.device]:
        stored = RunFolder.open(path).read_config()
        config = config_from_run(folder.config_file, sets, flags)
        require_resumable_changes(stored, config, path)
        return stored, config, choose_device(config.run.device, world)

    stored, config, device = world.together(opened)
    with ExitStack() as kept:

        def claim() -> None:
            kept.enter_context(folder.lock())
            folder.sweep()

        world.from_lead(claim)
        kept.enter_context(torch_settings(config))
        kept.enter_context(memory_errors())
        facts, assets = world.together(lambda: data_kept(folder, config))
        found = _newest_checkpoint(folder, stored, assets or {}, observer, world)
        task = build_task(config, facts, assets, notify=observer.progress)
        state, name = TrainState(), ""
        if found is not None:
            name, checkpoint = found
            place = folder.checkpoints.folder / name
            state = world.together(lambda: stored_position(place, checkpoint))
            if _is_complete(state, config):
                return _completed(folder, config, state, name, world)
        learner = world.together(lambda: build_learner(config, task, device, world))
        if found is None:
            observer.notice(f"{path}: no checkpoint was saved yet; starting from step 0")
        else:
            world.together(lambda: _restore(learner, place, checkpoint, state, observer))
        world.in_turn(lambda: require_same_data(task, folder))
        require_one_run(world, config, task)
        world.from_lead(lambda: _keep_what_changed(folder, task, stored, config, observer))
        return _train(config, task, learner, folder, state, name, observer)


def _newest_checkpoint(
    folder: RunFolder,
    stored: RunConfig,
    assets: Mapping[str, bytes],
    observer: Observer,
    world: World,
) -> tuple[str, Checkpoint] | None:
    """The checkpoint that the leader chooses, read by every process; None if there is none."""
    chosen: list[Checkpoint] = []

    def choose() -> str:
        found = folder.checkpoints.load_newest_good(
            observer.notice, lambda place, of: require_own(place, of, stored, assets)
        )
        if found is None:
            return ""
        chosen.append(found[1])
        return found[0]

    name = world.from_lead(choose)
    if not name:
        return None
    return name, world.together(lambda: chosen[0] if chosen else folder.checkpoints.load(name)[1])


def build_learner(
    config: RunConfig, task: Task, device: torch.device, world: World = ALONE
) -> Learner:
    """A freshly initialised model with its optimiser; a function of run.seed alone."""
    torch.manual_seed(torch_seed("init", config.run.seed))
    precision = Precision(config.train.precision, device)
    return Learner(
        task, task.build_model(), settings=config.train, precision=precision, world=world
    )


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
    device, world = learner.precision.device, learner.world
    world.from_lead(
        lambda: folder.add_environment(
            describe_environment(device, resumed_from=resumed_from, processes=world.size)
        )
    )
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
            processes=world.size,
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
    with StopRequest() as request:
        trainer.run(observer, world.agreed_stop(request))
    result = world.from_lead(lambda: _write_result(folder, config, state, resumed_from))
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
    if checkpoint.world_size != learner.world.size:
        observer.notice(
            f"the run had {_processes(checkpoint.world_size)}, now "
            f"{_processes(learner.world.size)}: the last bits of the result can differ from an "
            "uninterrupted run, and dropout draws anew"
        )


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _is_complete(state: TrainState, config: RunConfig) -> bool:
    """True if nothing is left to do; a run that ended by epochs may be given more of them."""
    if state.ended in ("", "epochs"):
        between_epochs = state.consumed == 0
        over = between_epochs and state.epoch >= config.train.epochs
        state.ended = "epochs" if over else ""
    return bool(state.ended)


def _completed(
    folder: RunFolder, config: RunConfig, state: TrainState, name: str, world: World
) -> RunOutcome:
    def result() -> dict[str, Any]:
        # Stopped between the last checkpoint and its result, there is none or that of an earlier
        # end.
        if not _has_result(folder, state):
            _write_result(folder, config, state, folder.resumed_from())
        return folder.read_result()

    return RunOutcome(
        folder.path, world.from_lead(result), name, state.ended, already_complete=True
    )


def _has_result(folder: RunFolder, state: TrainState) -> bool:
    try:
        return folder.read_result().get("steps") == state.step
    except CheckpointError:  # missing or damaged: it can be made again
        return False


def _keep_what_changed(
    folder: RunFolder, task: Task, stored: RunConfig, config: RunConfig, observer: Observer
) -> None:
    store_data_facts(folder, task)
    if config.train.epochs != stored.train.epochs:
        _keep_epochs(folder, stored, config, observer)


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
