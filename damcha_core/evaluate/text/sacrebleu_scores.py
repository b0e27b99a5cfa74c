"""BLEU, chrF and TER of detokenised text through sacrebleu, the field's reference.

Texts go in as they are: no Unicode or quote normalisation, no lower-casing of ours. The scores
are those of sacrebleu's command line with its defaults (13a tokens and exp smoothing for BLEU;
character 6-grams and beta 2 for chrF; lower-cased tercom tokens for TER), from 0 to 100, where
TER is better when lower and may be above 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from damcha_core.evaluate.text.text_score import FloatArray, ItemSums, TextScore, check_items

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

NAMES = ("bleu", "chrf", "ter")

# What BLEU statistics hold: output length, reference length, four matches, four totals.
BLEU_LENGTH, FIRST_MATCH, FIRST_TOTAL = 0, 2, 6
BLEU_ORDER = 4

# sacrebleu warns from so many lines on; a small set has fewer, so half of it counts as well.
MANY_TOKENISED_LINES = 100


def metric_of(name: str, *, one_sentence: bool = False) -> Metric:
    """A sacrebleu metric with our settings, which are its defaults.

    Args:
        name: "bleu", "chrf" or "ter".
        one_sentence: BLEU of single sentences: orders longer than the sentence are left out.

    Returns:
        A fresh metric.

    Raises:
        ValueError: another name.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name == "bleu":
        # force keeps sacrebleu's warning off stderr; `bleu_notices` gives ours.
        return BLEU(force=True, effective_order=one_sentence)
    if name == "chrf":
        return CHRF()
    if name == "ter":
        return TER()
    raise ValueError(f"unknown metric {name!r}: one of {', '.join(NAMES)}")


def reference_streams(references: Sequence[Sequence[str]]) -> list[list[Any]]:
    """References turned into sacrebleu's streams, the short ones padded with None.

    Args:
        references: for each item its references, one or several.

    Returns:
        As many streams as the item with most references has, each with one text or None an
        item (which sacrebleu takes, though its annotations do not say so).
    """
    return [list(stream) for stream in zip_longest(*references, fillvalue=None)]


def sacrebleu_score(
    name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> TextScore:
    """BLEU, chrF or TER over all items, with the score of each.

    Args:
        name: "bleu" (detokenised corpus BLEU), "chrf" (chrF2) or "ter".
        hypotheses: one detokenised output an item, blank ones included.
        references: for each item its references, one or several.

    Returns:
        Value 0 to 100 (TER: from 0), None without items. `items` are sentence scores, BLEU's
        with effective order, which its signature (of the corpus value) does not say.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: an unknown name, other numbers of items, or an item without a reference.
    """
    return metric_score(metric_of(name), metric_of(name, one_sentence=True), hypotheses, references)


def metric_score(
    metric: Metric,
    sentence_metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
) -> TextScore:
    """`sacrebleu_score` for a metric with other settings.

    Args:
        metric: gives the corpus value.
        sentence_metric: gives the items, from the same statistics.
        hypotheses: see `sacrebleu_score`.
        references: see `sacrebleu_score`.

    Returns:
        See `sacrebleu_score`.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: other numbers of items, or an item without a reference.
    """
    from sacrebleu.metrics.bleu import BLEU

    check_items(hypotheses, references)
    if not hypotheses:
        return TextScore(None, 0, items=(), notices=("nothing to score: no output",))
    # The statistics are taken once and serve value, items and resampling: TER's are costly.
    # sacrebleu leaves this method to subclasses; a test holds it to the public corpus_score.
    statistics = metric._extract_corpus_statistics(hypotheses, reference_streams(references))
    rows_NK = np.array(statistics, dtype=np.float64)
    sums = ItemSums(rows_NK, lambda sums_MK: values_of(metric, sums_MK), like_sacrebleu=True)
    notices = text_notices(hypotheses, references)
    if isinstance(metric, BLEU):
        notices += bleu_notices(hypotheses, rows_NK.sum(axis=0))
    return TextScore(
        value=float(values_of(metric, rows_NK.sum(axis=0)[None])[0]),
        n=len(hypotheses),
        signature=metric.get_signature().format(),
        items=tuple(values_of(sentence_metric, rows_NK).tolist()),
        sums=sums,
        notices=tuple(notices),
    )


def values_of(metric: Metric, sums_MK: FloatArray) -> FloatArray:
    """Scores of summed statistics; BLEU and chrF end at 100 in spite of rounding.

    Args:
        metric: the one that made the statistics.
        sums_MK: one row a score.

    Returns:
        M scores.
    """
    from sacrebleu.metrics.ter import TER

    scores = [metric._compute_score_from_stats(row).score for row in sums_MK.tolist()]
    values = np.array(scores, dtype=np.float64)
    if isinstance(metric, TER):
        return values
    # exp and log leave a perfect score a few units in the last place off 100.
    return np.where(np.abs(values - 100.0) < 1e-9, 100.0, values)


def text_notices(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """What the user should know about blank texts.

    Args:
        hypotheses: one an item, at least one.
        references: for each item its references.

    Returns:
        Plain lines.
    """
    notices = []
    n_blank = sum(not text.strip() for text in hypotheses)
    if n_blank == len(hypotheses):
        notices.append("every output is empty")
    elif n_blank:
        notices.append(f"{n_blank} of {len(hypotheses)} outputs are empty; they are scored as such")
    n_blank = sum(not any(text.strip() for text in of_item) for of_item in references)
    if n_blank:
        notices.append(f"{n_blank} of {len(references)} items have blank references only")
    return notices


def bleu_notices(hypotheses: Sequence[str], total_K: FloatArray) -> list[str]:
    """What the user should know about a BLEU value.

    Args:
        hypotheses: one an item, at least one.
        total_K: BLEU statistics summed over the items.

    Returns:
        Plain lines.
    """
    notices = []
    n_tokenised = sum(text.rstrip().endswith(" .") for text in hypotheses)
    n_written = sum(bool(text.strip()) for text in hypotheses)
    if n_tokenised and n_tokenised >= min(MANY_TOKENISED_LINES, n_written / 2):
        notices.append(
            f"already tokenised text: {n_tokenised} of {len(hypotheses)} outputs end in ' .'; "
            "BLEU expects detokenised text and may come out otherwise"
        )
    if not total_K[BLEU_LENGTH]:
        return notices
    if not total_K[FIRST_TOTAL + BLEU_ORDER - 1]:
        notices.append(
            "no output has 4 words, so BLEU is 0 whatever they say: it needs 4-grams; chrF is "
            "the better measure here"
        )
    elif not total_K[FIRST_MATCH]:
        notices.append("no word of the outputs is in a reference, so BLEU is 0")
    elif not total_K[FIRST_MATCH + BLEU_ORDER - 1]:
        notices.append("no 4-gram of the outputs is in a reference; BLEU rests on smoothing alone")
    return notices
