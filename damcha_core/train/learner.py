"""Model, optimiser, schedule, scaler and EMA: everything that one update changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from damcha_core.train.shares import StandIn
from damcha_core.train.weights import load_weights
from damcha_core.train.world import ALONE, World


@dataclass(frozen=True)
class Update:
    """What one optimiser step did, all processes together.

    Attributes:
        loss: mean loss over the items of the update.
        items: how many that were.
        samples: how many samples they belong to.
        size: those samples in the unit of the task: samples, or tokens.
        grad_norm: weighted norm of the gradient before clipping.
        lr: the rate of groups with factor 1.
        applied: False where the float16 scaler skipped the step.
    """

    loss: float
    items: int
    samples: int
    size: int
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
        world: the processes that learn together; each has a learner of its own, and all of them
            hold the same weights and states after every update.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        *,
        settings: TrainSection,
        precision: Precision,
        world: World = ALONE,
    ) -> None:
        assert settings.horizon_steps > 0, "the horizon is fixed before training starts"
        self.task = task
        self.settings = settings
        self.precision = precision
        self.world = world
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
        self._connected = world.size == 1

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
            batches: the micro-batches, on the device; of several processes each has its share of
                every one.
            step: number of the step, for messages.
            dropout_seed: what dropout is drawn from in this step.

        Raises:
            NonFiniteError: the loss or the gradient is not finite; the weights are unchanged.
        """
        self.model.train()
        if not self._connected:
            self._connect(batches[0])
        torch.manual_seed(dropout_seed)
        own = [batch for batch in batches if not isinstance(batch, StandIn)]
        counts = self.world.sums_later(
            sum(self.task.items(batch) for batch in own),
            sum(len(batch["ids"]) for batch in own),
            sum(self.task.size(batch) for batch in own),
        )
        total, items, samples, size = self._accumulate(batches, counts, step)
        lr = self.settings.lr * self.scheduler.lr_lambdas[0](self.scheduler.last_epoch)
        grad_norm, applied = self._apply(batches, step, dropout_seed)
        return Update(total / items, items, samples, size, grad_norm, lr, applied)

    def _accumulate(
        self, batches: Sequence[Batch], counts: Callable[[], list[float]], step: int
    ) -> tuple[float, int, int, int]:
        """Sum the gradients of all micro-batches of all processes; loss, items, samples, size."""
        total, items = 0.0, 0
        problem: NonFiniteError | None = None
        for place, batch in enumerate(batches):
            last = place == len(batches) - 1
            with self._apart(last):
                loss = self._loss(batch)
                value = loss.item()
                if not math.isfinite(value):
                    problem = problem or self._loss_error(value, batch, step)
                    if self.world.size == 1:
                        raise problem
                total += value
                if last:
                    # Before the passes that wait for one another, because all have to make them.
                    total, n_broken = self.world.sums(total, problem is not None)
                    if n_broken:
                        self.world.fail(problem)
                if not items:
                    items, samples, size = (int(n) for n in counts())
                    assert items > 0, "a batch without a single item to learn from"
                if self.world.size > 1:
                    # The processes take the mean of their gradients; the sum is wanted.
                    loss = loss * self.world.size
                with self.world.watched():
                    self.precision.scaler.scale(loss / items).backward()
        return total, items, samples, size

    def _loss(self, batch: Batch) -> Tensor:
        with self.precision.autocast(), self.world.watched():
            total = self.task.loss(self.forward_model, batch).total
        return total * 0.0 if isinstance(batch, StandIn) else total

    def _apart(self, last: bool) -> AbstractContextManager[object]:
        """Where gradients are still to come, the processes do not exchange them yet."""
        return nullcontext() if last else self.world.unsynchronised(self.forward_model)

    def _connect(self, batch: Batch) -> None:
        """Let the processes share gradients from now on.

        After its first backward pass DistributedDataParallel arranges anew what it sends, and the
        last bits of a sum of three or more depend on that. So one such pass is made here and
        forgotten: then a resumed run sends from its first step what an unbroken one sends.
        """
        self.forward_model = self.world.parallel(self.forward_model, self.precision.device)
        self._connected = True
        loss = self._loss(batch)
        with self.world.watched():
            loss.backward()
        self.optimizer.zero_grad(set_to_none=True)

    def _apply(self, batches: Sequence[Batch], step: int, dropout_seed: int) -> tuple[float, bool]:
        scaler = self.precision.scaler
        scaler.unscale_(self.optimizer)
        grad_norm = clip_gradients(self.optimizer.param_groups, self.settings.clip_norm).item()
        applied = math.isfinite(grad_norm)
        if not applied and not scaler.is_enabled():
            parameter = first_nonfinite_gradient(self.model)
            self.optimizer.zero_grad(set_to_none=True)
            error = NonFiniteError(
                f"step {step}: the gradient of {parameter} is not finite "
                f"({_samples(batches)}); the weights were not changed.\n{ADVICE}"
            )
            self.world.fail(error if self._is_to_blame(batches, dropout_seed) else None)
        scaler.step(self.optimizer)
        scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if applied:
            self.scheduler.step()
            if self.average is not None:
                self.average.update_parameters(self.model)
        return (grad_norm if applied else 0.0), applied

    def _is_to_blame(self, batches: Sequence[Batch], dropout_seed: int) -> bool:
        """Whether a gradient that is not finite is of this process's samples, or of nobody's."""
        if self.world.size == 1:
            return True
        torch.manual_seed(dropout_seed)
        for batch in batches:
            with self.world.unsynchronised(self.forward_model):
                self._loss(batch).backward()
        bad = not all(
            bool(torch.isfinite(p.grad).all())
            for p in self.model.parameters()
            if p.grad is not None
        )
        self.optimizer.zero_grad(set_to_none=True)
        [n_bad] = self.world.sums(bad)
        return bad or not n_bad

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
