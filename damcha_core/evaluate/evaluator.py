"""Running a model over a split and scoring it, for every task the same way."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from damcha_core.catalog.loading import load
from damcha_core.catalog.tasks import MetricSpec
from damcha_core.data.loader import make_loader
from damcha_core.evaluate.sample_scores import Score
from damcha_core.tasks.task import Batch, Task, move_batch

REPORTED_DIGITS = 12


class EvaluationStopped(Exception):  # noqa: N818 (a request to stop is no error)
    """A signal asked to stop; the caller decides what is saved."""


@dataclass(frozen=True)
class MetricValue:
    """A score with what is needed to read it.

    Attributes:
        value: None where the metric is not defined for the data.
        unit: of the value.
        n: number of things the value is a mean over.
        better: "lower" or "higher".
        interval: ends of its 95 % interval over the scored things; None where none was computed.
    """

    value: float | None
    unit: str
    n: int
    better: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on a split.

    Attributes:
        split: which one.
        loss: the task's loss, for the log.
        size: how much was scored, in the unit of the task: samples, or tokens.
        metrics: by name, the main one first.
        details: what else the report should state, in plain types.
        floors: scores of the trivial answers that a model has to beat, by name.
        files: what the model made of the split, as text by file ending.
    """

    split: str
    loss: float | None
    size: int
    metrics: Mapping[str, MetricValue]
    details: Mapping[str, Any] = field(default_factory=dict)
    floors: Mapping[str, Mapping[str, MetricValue]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


class Evaluator(ABC):
    """Scores models on the splits of a task.

    Args:
        task: its data and its row of the catalogue.
    """

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def prepare(self, split: str, *, for_report: bool) -> None:
        """Forget earlier batches; a report has more in it than a validation during training."""

    def notices(self) -> tuple[str, ...]:
        """What a report will lack, said before the work starts."""
        return ()

    @abstractmethod
    def update(self, model: nn.Module, batch: Batch) -> None:
        """Score one batch."""

    def finish(self, model: nn.Module) -> None:  # noqa: B027 (most have nothing left to do)
        """Do what is left to do with the model after the last batch."""

    @abstractmethod
    def result(self, split: str) -> Evaluation:
        """Scores of everything since prepare."""

    def evaluate(
        self,
        model: nn.Module,
        split: str,
        *,
        batch_size: int,
        workers: int = 0,
        for_report: bool = False,
        should_stop: Callable[[], bool] = bool,
    ) -> Evaluation:
        """Score a model on a whole split.

        Args:
            model: on its device; its training mode is put back afterwards.
            split: "train", "valid" or "test".
            batch_size: samples a forward pass.
            workers: processes that load data; 0 loads in this one.
            for_report: also score the trivial answers, and do at full effort what a validation
                during training does quickly.
            should_stop: asked between batches.

        Raises:
            EvaluationStopped: should_stop said so.
        """
        parameter = next(model.parameters())
        was_training = model.training
        model.eval()
        self.prepare(split, for_report=for_report)
        dataset = self.task.dataset(split, training=False)
        keys = self.task.evaluation_batches(split, batch_size)
        try:
            with torch.no_grad():
                for batch in make_loader(dataset, keys, workers):
                    if should_stop():
                        raise EvaluationStopped
                    self.update(model, move_batch(batch, parameter))
                self.finish(model)
        finally:
            model.train(was_training)
        return self.result(split)


def with_units(
    scores: Mapping[str, Score], specs: tuple[MetricSpec, ...]
) -> dict[str, MetricValue]:
    """Scores with the units of the catalogue, in its order."""
    return {
        spec.name: MetricValue(scores[spec.name].value, spec.unit, scores[spec.name].n, spec.better)
        for spec in specs
    }


def reported_value(value: float | None) -> float | None:
    """A score as records state it: twelve significant digits, None if it is no finite number.

    The model computes in float64, and its last bits may move with the batch size, the thread
    count and the machine; the first twelve digits do not.
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{REPORTED_DIGITS}g}")


def build_evaluator(task: Task) -> Evaluator:
    """The evaluator that the task's catalogue row names."""
    evaluator: Evaluator = load(task.row.evaluator)(task)
    return evaluator


def reporting_model(model: nn.Module) -> nn.Module:
    """A copy of a model in float64, for numbers that are reported.

    In float32 the last digits of a score move with the batch size, the thread count and the
    device; in float64 they do not reach those that reported_value keeps. Devices without float64
    (mps) keep their format.
    """
    device = next(model.parameters()).device
    reported = copy.deepcopy(model)
    return reported if device.type == "mps" else reported.double()
