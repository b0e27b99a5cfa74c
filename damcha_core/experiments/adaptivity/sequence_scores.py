"""The loss of each sequence and the task's main metric, under whatever metrics the layers use."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from torch import nn

from damcha_core.catalog.tasks import MetricSpec
from damcha_core.evaluate.classification import ClassificationEvaluator
from damcha_core.evaluate.evaluator import build_evaluator
from damcha_core.evaluate.recall import RecallEvaluator
from damcha_core.evaluate.reconstruction import ReconstructionEvaluator
from damcha_core.evaluate.text.perplexity import perplexity
from damcha_core.evaluate.text.text_evaluator import target_losses
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.tasks.task import Batch, Task
from damcha_core.tasks.text_task import TextTask


class SequenceScores(ABC):
    """Scores of some sequences, batch by batch.

    Attributes:
        spec: the metric of `metric`.
    """

    spec: MetricSpec

    @abstractmethod
    def update(self, model: nn.Module, batch: Batch) -> None:
        """Score a batch."""

    @abstractmethod
    def losses(self) -> list[float | None]:
        """The loss of each sequence by itself; None where it has none."""

    @abstractmethod
    def loss(self) -> float | None:
        """The task's loss over all of them."""

    @abstractmethod
    def metric(self) -> float | None:
        """The metric over all of them."""

    def n_real(self, batch: Batch) -> list[int] | None:
        """Tokens of each sequence that are no padding; None: all."""
        return None


class EvaluatorScores(SequenceScores):
    """Scores of pictures and of recall, by the evaluator of their task.

    Args:
        task: not of texts.
        split: whose samples.
    """

    def __init__(self, task: Task, split: str) -> None:
        self.spec, self._split = task.row.main_metric, split
        evaluator = build_evaluator(task)
        assert isinstance(
            evaluator, ReconstructionEvaluator | ClassificationEvaluator | RecallEvaluator
        )
        self._evaluator = evaluator
        self._evaluator.prepare(split, for_report=False)

    def update(self, model: nn.Module, batch: Batch) -> None:
        self._evaluator.update(model, batch)

    def losses(self) -> list[float | None]:
        if isinstance(self._evaluator, RecallEvaluator):
            return self._evaluator.per_item()["loss"]
        name = "loss" if isinstance(self._evaluator, ClassificationEvaluator) else "masked_mse"
        return self._evaluator.scores.per_image()[name]

    def loss(self) -> float | None:
        return self._evaluator.result(self._split).loss

    def metric(self) -> float | None:
        return self._evaluator.result(self._split).metrics[self.spec.name].value


class TextScores(SequenceScores):
    """Losses of given targets; no text is written.

    A text that is written has no other one of equal length to take its metrics from, so that
    perplexity stands in the place of the task's main metric.

    Args:
        task: of texts.
    """

    def __init__(self, task: TextTask) -> None:
        (self.spec,) = (spec for spec in task.row.metrics if spec.name == "perplexity")
        self._nll: list[float] = []
        self._counts: list[int] = []

    def update(self, model: nn.Module, batch: Batch) -> None:
        assert isinstance(model, ConditionalLM)
        self._nll += target_losses(model, batch)
        self._counts += batch["scored"].sum(dim=1).tolist()

    def losses(self) -> list[float | None]:
        return [nll / count for nll, count in zip(self._nll, self._counts, strict=True)]

    def loss(self) -> float | None:
        return math.fsum(self._nll) / sum(self._counts)

    def metric(self) -> float | None:
        return perplexity(self._nll, self._counts).value

    def n_real(self, batch: Batch) -> list[int] | None:
        counts: list[int] = (batch["n_tokens"] - 1).tolist()  # the end mark is no input
        return counts


def sequence_scores(task: Task, split: str) -> SequenceScores:
    """Empty scores of the kind that a task needs."""
    return TextScores(task) if isinstance(task, TextTask) else EvaluatorScores(task, split)


def swap_record(own: SequenceScores, swapped: SequenceScores) -> dict[str, Any]:
    """How far the scores move when every sequence is compared under another one's metrics.

    Returns:
        {"metric": {"name", "unit", "better", "own", "swapped"}, "loss": {"own", "swapped",
        "difference", "standard_error", "sequences"}}. The difference is the mean over sequences
        of swapped less own; its standard error is that of a mean of so many.
    """
    pairs = zip(own.losses(), swapped.losses(), strict=True)
    moves = [after - before for before, after in pairs if before is not None and after is not None]
    mean = math.fsum(moves) / len(moves) if moves else None
    error = None
    if mean is not None and len(moves) > 1:
        spread = math.fsum((move - mean) ** 2 for move in moves) / (len(moves) - 1)
        error = math.sqrt(spread / len(moves))
    return {
        "metric": {
            "name": own.spec.name,
            "unit": own.spec.unit,
            "better": own.spec.better,
            "own": own.metric(),
            "swapped": swapped.metric(),
        },
        "loss": {
            "own": own.loss(),
            "swapped": swapped.loss(),
            "difference": mean,
            "standard_error": error,
            "sequences": len(moves),
        },
    }
