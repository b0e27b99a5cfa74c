"""What a run tells the outside while it goes; the core itself prints nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunStart:
    """A run that is about to train.

    Attributes:
        folder: the run folder.
        task: name of the task.
        attention: name of the attention.
        device: where it runs.
        parameters: trainable numbers of the model.
        epochs: epochs in all.
        first_epoch: the epoch it starts in, from 0.
        horizon_steps: length of the learning-rate schedule.
        steps: steps left to make, as far as epochs and max_steps tell.
        processes: how many train together.
    """

    folder: Path
    task: str
    attention: str
    device: str
    parameters: int
    epochs: int
    first_epoch: int
    horizon_steps: int
    steps: int
    processes: int = 1


@dataclass(frozen=True)
class StepReport:
    """One training step, as in metrics.jsonl.

    Attributes:
        step: number of the step.
        epoch: number of its epoch, from 1.
        loss: mean over its items.
        items: what the loss is a mean over: hidden numbers, pictures, target tokens.
        lr: learning rate of parameters with factor 1.
        grad_norm: before clipping.
        size: samples, or tokens where the task counts them.
        seconds: how long it took.
    """

    step: int
    epoch: int
    loss: float
    items: int
    lr: float
    grad_norm: float
    size: int
    seconds: float


@dataclass(frozen=True)
class EpochReport:
    """A finished epoch and its validation."""

    epoch: int
    step: int
    train_loss: float | None
    metrics: dict[str, float | None]
    main: str
    improved: bool
    seconds: float


class Observer:
    """Receives the events of a run; the base class ignores them all."""

    def notice(self, text: str) -> None:
        """Something the user should know: a warning, a fallback, a skipped file."""

    def progress(self, what: str, done: int, total: int) -> None:
        """How far reading or fetching data has come; total 0 is unknown."""

    def started(self, start: RunStart) -> None:
        """Training is about to begin."""

    def step(self, report: StepReport) -> None:
        """A step was made."""

    def epoch(self, report: EpochReport) -> None:
        """An epoch ended and was validated."""

    def finished(self) -> None:
        """Training is over, by itself or by a signal."""
