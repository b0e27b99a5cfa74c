"""Scoring sentences made of concepts as captions are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from damcha_core.evaluate.evaluator import MetricValue
from damcha_core.evaluate.text.caption_bleu import caption_bleu
from damcha_core.evaluate.text.caption_tokens import tokenise_items
from damcha_core.evaluate.text.cider import cider
from damcha_core.evaluate.text.coverage import concept_coverage
from damcha_core.evaluate.text.meteor import meteor, wordnet_available, wordnet_problem
from damcha_core.evaluate.text.nearest_target import nearest_targets
from damcha_core.evaluate.text.rouge_l import rouge_l
from damcha_core.evaluate.text.text_evaluator import TextEvaluator
from damcha_core.evaluate.text.text_score import TextScore


class ConceptEvaluator(TextEvaluator):
    """BLEU-4, CIDEr and ROUGE-L of coco-caption, concept coverage, METEOR, and perplexity.

    All references of a concept set count. METEOR needs WordNet and is left out, with a note,
    where there is none; a validation during training leaves it out anyhow.
    """

    def notices(self) -> tuple[str, ...]:
        """Says that METEOR will be missing, where it will."""
        problem = wordnet_problem()
        return () if problem is None else (f"meteor: not available. {problem}",)

    def text_scores(self) -> dict[str, TextScore]:
        """The scores of what was written."""
        return self._scores(self.hypotheses)

    def floors(self) -> Mapping[str, Mapping[str, MetricValue]]:
        """Scores of two answers that need no model."""
        sources = [question.source for question in self.asked]
        nearest = nearest_targets(self.task.data.split("train"), sources)
        return {
            "nearest_training_target": self.metric_values(self._scores(nearest.targets)),
            "concepts_themselves": self.metric_values(self._scores(sources)),
        }

    def further_details(self) -> dict[str, Any]:
        """The share of questions whose concepts all occur."""
        return {"all_concepts_covered": self._all_covered}

    def _scores(self, hypotheses: Sequence[str]) -> dict[str, TextScore]:
        items = tokenise_items(hypotheses, self.references)
        covered = concept_coverage(
            items.hypotheses, [question.source.split() for question in self.asked]
        )
        scores = {
            "bleu4": caption_bleu(items.hypotheses, items.references)[-1],
            "cider": cider(items.hypotheses, items.references),
            "coverage": covered.fraction,
            "rouge_l": rouge_l(items.hypotheses, items.references),
        }
        if self.for_report and wordnet_available():
            scores["meteor"] = meteor(items.hypotheses, items.references)
        self._all_covered = covered.all_covered.value
        return scores
