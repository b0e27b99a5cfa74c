"""A dry run: everything a run would do, up to two real steps, with nothing written."""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from damcha_core.config.change import with_values
from damcha_core.config.consistency import notices, training_problems
from damcha_core.config.schema import RunConfig
from damcha_core.data.loader import make_loader
from damcha_core.data.randomness import torch_seed
from damcha_core.errors import ConfigError
from damcha_core.tasks.build import build_task
from damcha_core.tasks.task import Batch, move_batch
from damcha_core.train.device import choose_device, memory_errors
from damcha_core.train.learner import Learner
from damcha_core.train.observer import Observer
from damcha_core.train.run import build_learner, horizon_steps, total_steps
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.torch_settings import torch_settings

BYTES_OF_STATE = 4
"""Copies of the parameters while training: weights, gradients and two moments of AdamW."""


@dataclass(frozen=True)
class Rehearsal:
    """What a run would be.

    Attributes:
        config: settings as they would be stored.
        folder: where the run would go.
        device: where it would compute.
        parameters: trainable numbers.
        state_bytes: weights, gradients, AdamW's moments and the EMA.
        activation_bytes: what the forward pass of a micro-batch keeps for its backward pass.
        steps: optimiser steps in all.
        loss: loss of the first step.
        step_seconds: time of one step, the second one made here.
        estimated_seconds: steps times that; validation and saving come on top.
        samples: size of each split.
    """

    config: RunConfig
    folder: str
    device: str
    parameters: int
    state_bytes: int
    activation_bytes: int
    steps: int
    loss: float
    step_seconds: float
    estimated_seconds: float
    samples: dict[str, int]


def rehearse(config: RunConfig, observer: Observer) -> Rehearsal:
    """Check everything a run needs and make its first steps in memory.

    Args:
        config: resolved settings.
        observer: told about the data.

    Raises:
        The errors that run.start raises before and in its first step.
    """
    problems = training_problems(config)
    if problems:
        raise ConfigError(problems)
    device = choose_device(config.run.device)
    folder = RunFolder.for_new_run(config)
    with torch_settings(config), memory_errors():
        task = build_task(config, notify=observer.progress)
        config = with_values(config, {"train.horizon_steps": horizon_steps(config, task)})
        for notice in (*task.notices, *notices(config)):
            observer.notice(notice)
        learner = build_learner(config, task, device)
        parameters = list(learner.model.parameters())
        copies = BYTES_OF_STATE + (config.train.ema_decay > 0)
        keys = task.training_batches(0, 0)[: config.train.accumulate]
        dataset = task.dataset("train", training=True)
        losses, seconds, activation_bytes = [], 0.0, 0
        for step in range(2):  # the first step of a process also pays for warming up
            started = time.perf_counter()
            loader = make_loader(dataset, keys, 0)
            batches = [move_batch(batch, parameters[0]) for batch in loader]
            seed = torch_seed("dropout", config.run.seed, step, 0)
            losses.append(learner.update(batches, step=step + 1, dropout_seed=seed).loss)
            seconds = time.perf_counter() - started
            activation_bytes = activation_bytes or kept_bytes(learner, batches[0])
        steps = total_steps(config, task)
        return Rehearsal(
            config=config,
            folder=str(folder.path),
            device=str(device),
            parameters=sum(p.numel() for p in parameters),
            state_bytes=copies * sum(p.numel() * p.element_size() for p in parameters),
            activation_bytes=activation_bytes,
            steps=steps,
            loss=losses[0],
            step_seconds=seconds,
            estimated_seconds=seconds * steps,
            samples=dict(task.facts.samples),
        )


def kept_bytes(learner: Learner, batch: Batch) -> int:
    """Bytes beside the parameters that a forward pass keeps for its backward pass.

    Args:
        learner: gives model, loss and number format.
        batch: a micro-batch on the device.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor), learner.precision.autocast():
        loss = learner.task.loss(
            learner.model, batch
        )  # alive to the end, so no address comes twice
    own = {parameter.untyped_storage().data_ptr() for parameter in learner.model.parameters()}
    assert loss.items > 0
    return sum(n_bytes for address, n_bytes in kept.items() if address not in own)
