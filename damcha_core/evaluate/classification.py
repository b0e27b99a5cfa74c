"""Scoring classification."""

from __future__ import annotations

from torch import nn

from damcha_core.evaluate.classification_scores import ClassificationScores
from damcha_core.evaluate.evaluator import Evaluation, Evaluator, with_units
from damcha_core.evaluate.item_lines import item_lines
from damcha_core.tasks.classification import ClassificationTask
from damcha_core.tasks.task import Batch


class ClassificationEvaluator(Evaluator):
    """Top-1, top-5 and plain cross-entropy; see classification_scores.

    Args:
        task: a classification task.
    """

    task: ClassificationTask

    def prepare(self, split: str, *, for_report: bool) -> None:
        """Forget earlier batches; there is no floor beside chance."""
        self.scores = ClassificationScores()
        self.keeps_items = for_report

    def update(self, model: nn.Module, batch: Batch) -> None:
        """Classify a batch and score it."""
        self.scores.update(batch["ids"].tolist(), model(batch["images"]), batch["labels"])

    def result(self, split: str) -> Evaluation:
        """Scores of everything since prepare."""
        metrics = with_units(self.scores.compute(), self.task.row.metrics)
        return Evaluation(
            split=split,
            loss=metrics["loss"].value,
            size=len(self.scores.ids()),
            metrics=metrics,
            details={"classes": len(self.task.facts.class_names)},
            files={"jsonl": self._item_lines(split)} if self.keeps_items else {},
        )

    def _item_lines(self, split: str) -> str:
        return item_lines(
            self.scores.ids(),
            self.task.split(split).names,
            scores=self.scores.per_image(),
            further=self.scores.classes(),
        )
