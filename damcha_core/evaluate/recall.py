"""Scoring recall, with the answers beside it that look nothing up.

- `random_shown_value`: each of the P values that the sequence shows, with equal probability. It
  knows what a value is and where they stand, and does not know which belongs to the key: accuracy
  1 / P, loss log P.
- `random_value`: each of the S values of the vocabulary: accuracy 1 / S, loss log S.

Both are expectations, exact for every sequence, because values are drawn without replacement.
Shape suffixes: B sequences, T queries of a batch, P queries of a sequence, V vocabulary.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from damcha_core.errors import NonFiniteError
from damcha_core.evaluate.classification_scores import true_class_ranks
from damcha_core.evaluate.evaluator import Evaluation, Evaluator, MetricValue, with_units
from damcha_core.evaluate.item_lines import item_lines
from damcha_core.evaluate.picture_sums import as_float64
from damcha_core.evaluate.sample_scores import SampleScores, Score
from damcha_core.tasks.recall import RecallTask
from damcha_core.tasks.task import Batch

FLOOR_NAMES = ("random_shown_value", "random_value")


def query_scores(logits_TV: Tensor, answers_T: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each query is answered rightly, and its cross-entropy.

    Args:
        logits_TV: of the whole vocabulary, any floating dtype.
        answers_T: int64, the right values.

    Returns:
        right (T,) float64, 1 where the right value has the largest logit (of equal ones the first
        counts); losses (T,) float64 in nats.

    Raises:
        NonFiniteError: a loss is NaN or infinite.
    """
    logits_TV, answers_T = as_float64(logits_TV), answers_T.cpu()
    losses_T = F.cross_entropy(logits_TV, answers_T, reduction="none")
    if not bool(torch.isfinite(losses_T).all()):
        raise NonFiniteError("The loss of a query is not finite; the model cannot be scored.")
    return (true_class_ranks(logits_TV, answers_T) < 1).double(), losses_T


class RecallEvaluator(Evaluator):
    """Share of the queries that are answered rightly, and plain cross-entropy.

    Args:
        task: a recall task.
    """

    task: RecallTask

    def prepare(self, split: str, *, for_report: bool) -> None:
        """Forget earlier batches."""
        self.scores = SampleScores(("accuracy", "loss"))
        self.for_report = for_report

    def update(self, model: nn.Module, batch: Batch) -> None:
        """Answer the queries of a batch and score them by sequence."""
        scored_BN = batch["scored"]
        right_T, losses_T = query_scores(
            model(batch["tokens"], where_BN=scored_BN), batch["answers"][scored_BN]
        )
        ids = batch["ids"].tolist()
        self.scores.add(
            ids,
            {
                "accuracy": right_T.view(len(ids), -1).mean(dim=1).tolist(),
                "loss": losses_T.view(len(ids), -1).mean(dim=1).tolist(),
            },
        )

    def result(self, split: str) -> Evaluation:
        """Scores of everything since prepare; n is the number of queries."""
        n_queries = len(self.scores) * self.task.config.data.n_pairs
        means = {
            name: Score(self.scores.mean(name).value, n_queries) for name in ("accuracy", "loss")
        }
        metrics = with_units(means, self.task.row.metrics)
        return Evaluation(
            split=split,
            loss=metrics["loss"].value,
            size=len(self.scores),
            metrics=metrics,
            details={
                "n_pairs": self.task.config.data.n_pairs,
                "sequence_length": self.task.config.data.recall_length,
            },
            floors=self._floors(n_queries) if self.for_report else {},
            files={"jsonl": self._item_lines()} if self.for_report else {},
        )

    def per_item(self) -> dict[str, list[float | None]]:
        """Share of right queries and mean loss of each sequence, in the order of the ids."""
        return {name: self.scores.column(name) for name in ("accuracy", "loss")}

    def _floors(self, n_queries: int) -> dict[str, dict[str, MetricValue]]:
        n_symbols = self.task.split("train").n_symbols
        choices = dict(zip(FLOOR_NAMES, (self.task.config.data.n_pairs, n_symbols), strict=True))
        return {
            name: with_units(
                {"accuracy": Score(1 / n, n_queries), "loss": Score(math.log(n), n_queries)},
                self.task.row.metrics,
            )
            for name, n in choices.items()
        }

    def _item_lines(self) -> str:
        return item_lines(self.scores.ids(), None, scores=self.per_item())
