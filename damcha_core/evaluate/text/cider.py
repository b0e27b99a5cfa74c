"""CIDEr as the caption evaluation of the field computes it, 0 to 10.

"CIDEr: Consensus-based Image Description Evaluation" (arXiv:1411.5726) in the variant of that
code: n-gram counts clipped to the reference's, a Gaussian penalty of the length difference, no
stemming, times 10. Document frequencies come from the references that are scored, so the value
of every item depends on the whole set, and a set of one item scores 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from damcha_core.evaluate.text.caption_bleu import MAX_ORDER, ngram_counts
from damcha_core.evaluate.text.text_score import TextScore, Tokens, check_items, mean_score

SIGMA = 6.0
SCALE = 10.0
SIGNATURE = "cider|df:references|sigma:6|clipped|scale:10"

Ngram = tuple[str, ...]


@dataclass(frozen=True)
class WeightedText:
    """A text as weighted n-grams.

    Attributes:
        weights: for each order, count times inverse document frequency of each n-gram.
        norms: for each order, the Euclidean norm of the weights.
        n_bigrams: the text's length as the penalty counts it.
    """

    weights: tuple[Mapping[Ngram, float], ...]
    norms: tuple[float, ...]
    n_bigrams: int


def document_frequencies(references: Sequence[Sequence[Counter[Ngram]]]) -> Counter[Ngram]:
    """In how many items each n-gram occurs in at least one reference.

    Args:
        references: for each item the n-gram counts of its references.

    Returns:
        Number of items by n-gram.
    """
    frequencies: Counter[Ngram] = Counter()
    for of_item in references:
        frequencies.update(set().union(*of_item))
    return frequencies


def weighted_text(
    counts: Counter[Ngram], frequencies: Mapping[Ngram, int], n_items: int
) -> WeightedText:
    """Weights of the n-grams of one text.

    Args:
        counts: n-gram counts of the text.
        frequencies: see `document_frequencies`.
        n_items: items of the set, at least 1.

    Returns:
        The text as weighted n-grams.
    """
    weights: tuple[dict[Ngram, float], ...] = tuple({} for _ in range(MAX_ORDER))
    log_items = math.log(n_items)
    for ngram, count in counts.items():
        frequency = max(1, frequencies.get(ngram, 0))
        weights[len(ngram) - 1][ngram] = count * (log_items - math.log(frequency))
    norms = tuple(math.sqrt(math.fsum(w * w for w in part.values())) for part in weights)
    n_bigrams = sum(count for ngram, count in counts.items() if len(ngram) == 2)
    return WeightedText(weights, norms, n_bigrams)


def similarity(hypothesis: WeightedText, reference: WeightedText) -> float:
    """Mean over the orders of the clipped cosine, times the length penalty.

    Args:
        hypothesis: the output.
        reference: one of its references.

    Returns:
        0 to 1.
    """
    cosines = []
    for order in range(MAX_ORDER):
        norm = hypothesis.norms[order] * reference.norms[order]
        if norm == 0.0:
            continue
        of_reference = reference.weights[order]
        products = (
            min(weight, of_reference[ngram]) * of_reference[ngram]
            for ngram, weight in hypothesis.weights[order].items()
            if ngram in of_reference
        )
        cosines.append(math.fsum(products) / norm)
    difference = hypothesis.n_bigrams - reference.n_bigrams
    penalty = math.exp(-(difference**2) / (2 * SIGMA**2))
    return math.fsum(cosines) / MAX_ORDER * penalty


def cider(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> TextScore:
    """CIDEr of a set: the mean over its items.

    Args:
        hypotheses: words of one output an item.
        references: for each item the words of its references, one or several.

    Returns:
        Value 0 to 10, None without items. Resampling its items keeps the document frequencies
        of the whole set.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: other numbers of items, or an item without a reference.
    """
    check_items(hypotheses, references)
    counted = [[ngram_counts(words) for words in of_item] for of_item in references]
    frequencies = document_frequencies(counted)
    items = []
    for words, of_item in zip(hypotheses, counted, strict=True):
        output = weighted_text(ngram_counts(words), frequencies, len(counted))
        near = (
            similarity(output, weighted_text(counts, frequencies, len(counted)))
            for counts in of_item
        )
        items.append(SCALE * math.fsum(near) / len(of_item))
    notices = []
    if len(items) == 1:
        notices.append("CIDEr of a single item is 0: it weighs words by how few items have them")
    return mean_score(items, signature=SIGNATURE, notices=notices)
