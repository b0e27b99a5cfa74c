"""BLEU-1 to BLEU-4 as the caption evaluation of the field computes them, 0 to 1.

"BLEU: a method for automatic evaluation of machine translation" (ACL 2002) over the whole set,
with the closest reference length and no smoothing but two tiny constants that keep quotients
defined: an output without a match scores about 1e-4 on its own, not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from damcha_core.evaluate.text.text_score import (
    FloatArray,
    ItemSums,
    TextScore,
    Tokens,
    check_items,
)

MAX_ORDER = 4
SMALL = 1e-9
TINY = 1e-15

# Columns of a statistics row: output length, closest reference length, matches, totals.
OUTPUT_LENGTH, REFERENCE_LENGTH = 0, 1
MATCHES = slice(2, 2 + MAX_ORDER)
TOTALS = slice(2 + MAX_ORDER, 2 + 2 * MAX_ORDER)


def ngram_counts(tokens: Tokens, max_order: int = MAX_ORDER) -> Counter[tuple[str, ...]]:
    """How often each n-gram of 1 up to max_order words occurs.

    Args:
        tokens: words of one text.
        max_order: longest n-gram.

    Returns:
        Counts by n-gram, a tuple of words.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for order in range(1, max_order + 1):
        counts.update(zip(*(tokens[shift:] for shift in range(order)), strict=False))
    return counts


def item_statistics(hypothesis: Tokens, references: Sequence[Tokens]) -> list[int]:
    """What one item adds to the counts of the set.

    Args:
        hypothesis: words of the output.
        references: words of each reference, at least one.

    Returns:
        Output length, closest reference length (the shorter of two as close), clipped matches
        of the four orders, n-grams of the four orders.
    """
    length = len(hypothesis)
    closest = min((abs(len(words) - length), len(words)) for words in references)[1]
    allowed: Counter[tuple[str, ...]] = Counter()
    for words in references:
        allowed |= ngram_counts(words)
    matches = [0] * MAX_ORDER
    for ngram, count in ngram_counts(hypothesis).items():
        matches[len(ngram) - 1] += min(count, allowed[ngram])
    totals = [max(0, length - order) for order in range(MAX_ORDER)]
    return [length, closest, *matches, *totals]


def bleu_values(sums_MK: FloatArray, order: int = MAX_ORDER) -> FloatArray:
    """BLEU of summed statistics.

    Args:
        sums_MK: rows in the layout of `item_statistics`.
        order: longest n-gram, 1 to 4.

    Returns:
        M values in [0, 1].
    """
    precision_MO = (sums_MK[:, MATCHES] + TINY) / (sums_MK[:, TOTALS] + SMALL)
    mean_M = np.prod(precision_MO[:, :order], axis=1) ** (1.0 / order)
    ratio_M = (sums_MK[:, OUTPUT_LENGTH] + TINY) / (sums_MK[:, REFERENCE_LENGTH] + SMALL)
    # The penalty of an empty output is exp of about -1e15 and more: zero, and no warning.
    penalty_M = np.exp(np.minimum(0.0, 1.0 - 1.0 / np.minimum(ratio_M, 1.0)))
    return mean_M * penalty_M


def caption_bleu(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> tuple[TextScore, ...]:
    """BLEU-1 to BLEU-4 of a set.

    Args:
        hypotheses: words of one output an item.
        references: for each item the words of its references, one or several.

    Returns:
        Four scores, BLEU-4 last; their items are the same formula on single items.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: other numbers of items, or an item without a reference.
    """
    check_items(hypotheses, references)
    rows = [item_statistics(*item) for item in zip(hypotheses, references, strict=True)]
    rows_NK = np.array(rows, dtype=np.float64).reshape(-1, TOTALS.stop)
    return tuple(_score(rows_NK, order) for order in range(1, MAX_ORDER + 1))


def _score(rows_NK: FloatArray, order: int) -> TextScore:
    """The score of one order."""
    n_items = len(rows_NK)
    return TextScore(
        value=float(bleu_values(rows_NK.sum(axis=0)[None], order)[0]) if n_items else None,
        n=n_items,
        signature=f"caption-bleu{order}|reflen:closest|smooth:none",
        items=tuple(bleu_values(rows_NK, order).tolist()),
        sums=ItemSums(rows_NK, lambda sums_MK: bleu_values(sums_MK, order)),
    )
