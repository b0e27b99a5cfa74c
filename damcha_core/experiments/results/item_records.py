"""The items of a test split as an evaluation kept them, and metrics made of them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from damcha_core.evaluate.text.caption_bleu import caption_bleu
from damcha_core.evaluate.text.caption_tokens import tokenise_items
from damcha_core.evaluate.text.perplexity import perplexity
from damcha_core.evaluate.text.sacrebleu_scores import NAMES as SACREBLEU_NAMES
from damcha_core.evaluate.text.sacrebleu_scores import sacrebleu_score
from damcha_core.evaluate.text.text_score import ItemSums, TextScore, mean_score, means

POOLED = {
    "masked_mse": ("masked_squared_error", "hidden_values"),
    "masked_mean_absolute_error": ("masked_absolute_error", "hidden_values"),
}
"""Metrics that are a sum over all items divided by another one, and the names of the two."""

PERPLEXITY = ("negative_log_likelihood", "target_tokens")
"""Sums of an item whose quotient is the exponent of the perplexity."""

TOLERANCE = 1e-6
"""Relative difference allowed between a stated score and the one made of the items, which are
kept with twelve digits."""


class NoItemScores(Exception):  # noqa: N818 (a score that cannot be tested is no error)
    """A metric cannot be made of the items; the text says why."""


@dataclass(frozen=True)
class ItemRecords:
    """The lines of a samples/test.jsonl.

    Attributes:
        records: one an item, in the order of the file.
    """

    records: tuple[dict[str, Any], ...]

    @property
    def keys(self) -> list[Any]:
        """What each item is: its id, or its source and references."""
        return [
            record["id"] if "id" in record else [record.get("source"), record.get("references")]
            for record in self.records
        ]

    def score(self, metric: str, stated: float | None) -> TextScore:
        """A metric in the form in which it can be resampled.

        Corpus metrics of texts are computed from the texts; others are the mean of the items'
        scores, or a quotient of sums over the items.

        Args:
            metric: its name.
            stated: its value in test.json.

        Returns:
            The score with its sums.

        Raises:
            NoItemScores: the items hold nothing of it, or come to another value.
        """
        if stated is None:
            raise NoItemScores("the metric is not available")
        try:
            score = self._recomputed(metric)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NoItemScores(f"samples/test.jsonl is damaged: {error!r}") from None
        value = np.nan if score.value is None else score.value
        if not abs(value - stated) <= TOLERANCE * max(1.0, abs(stated)):
            raise NoItemScores(
                f"the items kept do not add up to the score: {value:.6g}, not {stated:.6g}"
            )
        return score

    def _recomputed(self, metric: str) -> TextScore:
        records = self.records
        has_texts = all("hypothesis" in record and "references" in record for record in records)
        if has_texts and (metric in SACREBLEU_NAMES or metric == "bleu4"):
            hypotheses = [record["hypothesis"] for record in records]
            references = [record["references"] for record in records]
            return _corpus_score(metric, hypotheses, references)
        if metric in POOLED and all("sums" in record for record in records):
            return _pooled([record["sums"] for record in records], *POOLED[metric])
        if metric == "perplexity" and all("sums" in record for record in records):
            sums = [record["sums"] for record in records]
            return perplexity(*([of_item[key] for of_item in sums] for key in PERPLEXITY))
        if not all(metric in record["scores"] for record in records):
            raise NoItemScores("the items kept hold nothing that it could be made of")
        values = [record["scores"][metric] for record in records]
        return mean_score([None if v is None else float(v) for v in values], signature=metric)


def _corpus_score(
    metric: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> TextScore:
    if metric != "bleu4":
        return sacrebleu_score(metric, hypotheses, references)
    items = tokenise_items(hypotheses, references)
    return caption_bleu(items.hypotheses, items.references)[-1]


def _pooled(sums: Sequence[dict[str, Any]], total: str, count: str) -> TextScore:
    pairs = [(of_item[total], of_item[count]) for of_item in sums]
    rows_NK = np.array(
        [(0.0, 0.0) if None in pair else pair for pair in pairs], dtype=np.float64
    ).reshape(-1, 2)
    value = float(means(rows_NK.sum(axis=0)[None])[0])
    return TextScore(
        value=None if np.isnan(value) else value,
        n=int(rows_NK[:, 1].sum()),
        signature=f"{total}/{count}",
        sums=ItemSums(rows_NK, means),
    )


def read_items(path: Path) -> ItemRecords | None:
    """The items of a file.

    Args:
        path: a samples/test.jsonl.

    Returns:
        Its items; None where it is missing, empty or damaged in any line, because a test on some
        of the items would be another test.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        records = tuple(json.loads(line) for line in lines if line.strip())
    except (OSError, ValueError, RecursionError):
        return None
    if not records or not all(
        isinstance(record, dict) and isinstance(record.get("scores"), dict) for record in records
    ):
        return None
    return ItemRecords(records)
