"""ROUGE-L as the caption evaluation of the field computes it, 0 to 1.

"ROUGE: A Package for Automatic Evaluation of Summaries" (ACL workshop 2004): the longest common
subsequence of words over the length of the output (precision) and of the reference (recall).
Here the best precision and the best recall over the references are taken apart from each other
and joined with beta 1.2; no stemming.
"""

from __future__ import annotations

from collections.abc import Sequence

from damcha_core.evaluate.text.text_score import TextScore, Tokens, check_items, mean_score

BETA_SQUARED = 1.2**2
SIGNATURE = "rouge-l|beta:1.2|best-precision-and-recall"


def common_subsequence(first: Tokens, second: Tokens) -> int:
    """Length of the longest common subsequence.

    One bit stands for each word of `second`; a word of `first` updates all of them with a few
    operations on one whole number ("Bit-parallel LCS-length computation revisited", 2004).

    Args:
        first: words.
        second: words.

    Returns:
        Number of words, 0 without a common one.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(second):
        places[word] = places.get(word, 0) | 1 << place
    full = (1 << len(second)) - 1
    # A zero bit is a place where the subsequence grew.
    row = full
    for word in first:
        match = row & places.get(word, 0)
        row = ((row + match) | (row - match)) & full
    return len(second) - row.bit_count()


def rouge_l_of(hypothesis: Tokens, references: Sequence[Tokens]) -> float:
    """ROUGE-L of one item.

    Args:
        hypothesis: words of the output.
        references: words of each reference, at least one.

    Returns:
        0 to 1; 0 where output and references share no word.
    """
    common = [common_subsequence(hypothesis, words) for words in references]
    precision = max(common) / max(1, len(hypothesis))
    recall = max(
        shared / max(1, len(words)) for shared, words in zip(common, references, strict=True)
    )
    if precision == 0.0:
        return 0.0
    return (1 + BETA_SQUARED) * precision * recall / (recall + BETA_SQUARED * precision)


def rouge_l(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> TextScore:
    """ROUGE-L of a set: the mean over its items.

    Args:
        hypotheses: words of one output an item.
        references: for each item the words of its references, one or several.

    Returns:
        Value 0 to 1, None without items.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: other numbers of items, or an item without a reference.
    """
    check_items(hypotheses, references)
    items = [rouge_l_of(*item) for item in zip(hypotheses, references, strict=True)]
    return mean_score(items, signature=SIGNATURE)
