"""Scoring translation, with the nearest training target as the floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from damcha_core.evaluate.evaluator import MetricValue
from damcha_core.evaluate.text.nearest_target import nearest_targets
from damcha_core.evaluate.text.sacrebleu_scores import sacrebleu_score
from damcha_core.evaluate.text.text_evaluator import TextEvaluator, text_lines
from damcha_core.evaluate.text.text_score import TextScore

QUICK = ("bleu", "chrf")
WHOLE = ("bleu", "chrf", "ter")


class TranslationEvaluator(TextEvaluator):
    """BLEU, chrF and TER of sacrebleu against the raw references, and perplexity.

    A validation during training leaves out TER, which takes longer than the decoding.
    """

    def text_scores(self) -> dict[str, TextScore]:
        """BLEU, chrF and TER of what was written."""
        return self._scores(self.hypotheses)

    def floors(self) -> Mapping[str, Mapping[str, MetricValue]]:
        """Scores of two answers that need no model."""
        sources = [question.source for question in self.asked]
        nearest = nearest_targets(self.task.data.split("train"), sources)
        return {
            "nearest_training_target": self.metric_values(self._scores(nearest.targets)),
            "source_itself": self.metric_values(self._scores(sources)),
        }

    def files(self, scores: Mapping[str, TextScore]) -> dict[str, str]:
        """What was written; for a report the sources and references too, line by line."""
        written = super().files(scores)
        if self.for_report:
            written["src"] = text_lines([question.source for question in self.asked])
            written["ref"] = text_lines([question.references[0] for question in self.asked])
        return written

    def _scores(self, hypotheses: Sequence[str]) -> dict[str, TextScore]:
        names = WHOLE if self.for_report else QUICK
        return {name: sacrebleu_score(name, hypotheses, self.references) for name in names}
