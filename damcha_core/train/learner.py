"""Model, optimiser, schedule, scaler and EMA: everything that one update changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from damcha_core.attention.parameter_groups import parameter_groups
from damcha_core.config.schema import TrainSection
from damcha_core.errors import CheckpointError, NonFiniteError
from damcha_core.tasks.task import Batch, Task
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.clipping import clip_gradients
from damcha_core.train.nonfinite import first_nonfinite_gradient, first_nonfinite_module
from damcha_core.train.optimizer_state import optimizer_tensors, restore_optimizer
from damcha_core.train.precision import Precision
from damcha_core.train.schedule import lr_factor
from damcha_core.train.weights import load_weights


@dataclass(frozen=True)
class Update:
    """What one optimiser step did.

    Attributes:
        loss: mean loss over the items of the update.
        items: how many that were.
        grad_norm: weighted norm of the gradient before clipping.
        lr: the rate of groups with factor 1.
        applied: False where the float16 scaler skipped the step.
    """

    loss: float
    items: int
    grad_norm: float
    lr: float
    applied: bool


class Learner:
    """A model and all that learning adds to it.

    Args:
        task: gives the loss.
        model: freshly built; moved to the precision's device and format.
        settings: the [train] section; horizon_steps must be set.
        precision: number format and device.
    """

    def __init__(
        self, task: Task, model: nn.Module, *, settings: TrainSection, precision: Precision
    ) -> None:
        assert settings.horizon_steps > 0, "the horizon is fixed before training starts"
        self.task = task
        self.settings = settings
        self.precision = precision
        self.model = precision.prepare(model)
        self.forward_model: nn.Module = self.model
        if settings.compile:
            # The compiled twin shares its parameters; state is always read from self.model, so
            # that no name in a checkpoint carries a prefix of the compiler's.
            self.forward_model = cast(nn.Module, torch.compile(self.model))
        groups = parameter_groups(self.model, lr=settings.lr, weight_decay=settings.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=settings.lr, fused=_fused(precision.device))
        self.scheduler = self._schedule(0)
        self.average: AveragedModel | None = None
        if settings.ema_decay > 0:
            average_fn = get_ema_multi_avg_fn(settings.ema_decay)
            self.average = AveragedModel(self.model, multi_avg_fn=average_fn)

    def _schedule(self, updates: int) -> LambdaLR:
        def factor(update: int) -> float:
            return lr_factor(
                update,
                warmup_steps=self.settings.warmup_steps,
                horizon_steps=self.settings.horizon_steps,
                min_lr_ratio=self.settings.min_lr_ratio,
            )

        for group in self.optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        return LambdaLR(self.optimizer, factor, last_epoch=updates - 1)

    def update(self, batches: Sequence[Batch], *, step: int, dropout_seed: int) -> Update:
        """Make one optimiser step over one or more micro-batches.

        Args:
            batches: the micro-batches, on the device.
            step: number of the step, for messages.
            dropout_seed: what dropout is drawn from in this step.

        Raises:
            NonFiniteError: the loss or the gradient is not finite; the weights are unchanged.
        """
        self.model.train()
        torch.manual_seed(dropout_seed)
        items = sum(self.task.items(batch) for batch in batches)
        assert items > 0, "a batch without a single item to learn from"
        total = 0.0
        for batch in batches:
            with self.precision.autocast():
                loss = self.task.loss(self.forward_model, batch)
            value = loss.total.item()
            if not math.isfinite(value):
                raise self._loss_error(value, batch, step)
            total += value
            self.precision.scaler.scale(loss.total / items).backward()
        lr = self.settings.lr * self.scheduler.lr_lambdas[0](self.scheduler.last_epoch)
        grad_norm, applied = self._apply(batches, step)
        return Update(total / items, items, grad_norm, lr, applied)

    def _apply(self, batches: Sequence[Batch], step: int) -> tuple[float, bool]:
        scaler = self.precision.scaler
        scaler.unscale_(self.optimizer)
        grad_norm = clip_gradients(self.optimizer.param_groups, self.settings.clip_norm).item()
        applied = math.isfinite(grad_norm)
        if not applied and not scaler.is_enabled():
            parameter = first_nonfinite_gradient(self.model)
            self.optimizer.zero_grad(set_to_none=True)
            raise NonFiniteError(
                f"step {step}: the gradient of {parameter} is not finite "
                f"({_samples(batches)}); the weights were not changed.\n{ADVICE}"
            )
        scaler.step(self.optimizer)
        scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if applied:
            self.scheduler.step()
            if self.average is not None:
                self.average.update_parameters(self.model)
        return (grad_norm if applied else 0.0), applied

    def _loss_error(self, value: float, batch: Batch, step: int) -> NonFiniteError:
        with self.precision.autocast():
            module = first_nonfinite_module(self.task, self.model, batch)
        self.optimizer.zero_grad(set_to_none=True)
        return NonFiniteError(
            f"step {step}: the loss is {value}; first seen in {module} "
            f"({_samples([batch])}); the weights were not changed.\n{ADVICE}"
        )

    @property
    def evaluation_model(self) -> nn.Module:
        """The model that is validated: the EMA where there is one."""
        if self.average is None:
            return self.model
        averaged: nn.Module = self.average.module
        return averaged

    def tensors(self) -> dict[str, Tensor]:
        """Optimiser, EMA and generator states by name."""
        tensors = optimizer_tensors(self.optimizer, self.model)
        if self.average is not None:
            for name, value in self.average.module.state_dict().items():
                tensors[f"{EMA}{name}"] = value
            tensors[EMA_UPDATES] = self.average.n_averaged
        tensors[RANDOM] = torch.get_rng_state()
        return tensors

    def restore(self, checkpoint: Checkpoint, *, updates: int) -> None:
        """Take over the weights and states of a checkpoint.

        Args:
            checkpoint: one made under the same settings.
            updates: updates made when it was saved, for the schedule.

        Raises:
            CheckpointError: its tensors do not fit this model.
        """
        load_weights(self.model, checkpoint.weights)
        tensors = checkpoint.tensors
        restore_optimizer(self.optimizer, self.model, tensors, updates=updates)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self.scheduler = self._schedule(updates)
        if self.average is not None:
            averaged = {n.removeprefix(EMA): t for n, t in tensors.items() if n.startswith(EMA)}
            load_weights(self.average.module, averaged)
            self.average.n_averaged.copy_(_like(self.average.n_averaged, tensors, EMA_UPDATES))
        torch.set_rng_state(_like(torch.get_rng_state(), tensors, RANDOM))
        try:
            self.precision.scaler.load_state_dict(checkpoint.state["scaler"])
        except (KeyError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"its loss scaler is not readable: {error}") from error


EMA, EMA_UPDATES, RANDOM = "ema/", "ema_updates", "random/cpu"
ADVICE = "Lower train.lr, raise train.warmup_steps, or set train.clip_norm; see docs/method.md."


def _like(own: Tensor, tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """The stored tensor of that name, if it has the shape and the format of our own."""
    stored = tensors.get(name)
    if stored is None or stored.shape != own.shape or stored.dtype != own.dtype:
        raise CheckpointError(f"its tensor {name} is missing or of another shape or format")
    return stored


def _samples(batches: Sequence[Batch]) -> str:
    ids = [int(i) for batch in batches for i in batch["ids"]]
    shown = ", ".join(map(str, ids[:8]))
    return f"training samples {shown}{', ...' if len(ids) > 8 else ''}"


def _fused(device: torch.device) -> bool:
    return device.type in ("cpu", "cuda")
