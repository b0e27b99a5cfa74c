"""Concept coverage: which of the given concepts an output mentions.

The rule: words are those of `caption_tokens` (lower-cased), cut to their Porter stems on both
sides. A concept is covered if its stem equals the stem of a whole word of the output, so "dogs"
covers "dog" and "category" does not cover "cat". A concept of several words is covered if their
stems stand side by side in the same order. Concepts with equal stems count once. A blank output
covers nothing. Stems join inflections by rule alone: "ran" does not cover "run".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from damcha_core.evaluate.text.caption_tokens import caption_tokens
from damcha_core.evaluate.text.text_score import TextScore, Tokens, mean_score


@dataclass(frozen=True)
class CoverageScores:
    """The two figures of concept coverage.

    Attributes:
        fraction: covered share of an item's concepts, mean over the items.
        all_covered: share of the items whose concepts are all covered.
    """

    fraction: TextScore
    all_covered: TextScore


@functools.cache
def porter_stemmer() -> Callable[[str], str]:
    """NLTK's Porter stemmer in its default mode, each word stemmed once; it needs no data."""
    from nltk.stem.porter import PorterStemmer

    stem: Callable[[str], str] = PorterStemmer().stem
    return functools.lru_cache(maxsize=1 << 16)(stem)


def stemmed(tokens: Tokens) -> tuple[str, ...]:
    """Stems of words, in order."""
    stem = porter_stemmer()
    return tuple(stem(word) for word in tokens)


def has_phrase(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether the words of a phrase stand side by side in a text.

    Args:
        words: the text.
        phrase: at least one word.

    Returns:
        True if they do.
    """
    n_words = len(phrase)
    first_places = range(len(words) - n_words + 1)
    return any(tuple(words[at : at + n_words]) == tuple(phrase) for at in first_places)


def concept_coverage_of(
    hypothesis: Tokens, concepts: Sequence[str], *, stem: bool = True
) -> float | None:
    """Covered share of the concepts of one item.

    Args:
        hypothesis: words of the output, from `caption_tokens`.
        concepts: one or more words each; blank ones are left out.
        stem: False compares the words themselves.

    Returns:
        0 to 1, None without a concept.
    """
    form: Callable[[Tokens], tuple[str, ...]] = stemmed if stem else tuple
    # dict keeps the order and drops repeated concepts.
    phrases = dict.fromkeys(form(caption_tokens(concept)) for concept in concepts)
    phrases.pop((), None)
    if not phrases:
        return None
    words = form(hypothesis)
    return sum(has_phrase(words, phrase) for phrase in phrases) / len(phrases)


def concept_coverage(
    hypotheses: Sequence[Tokens], concepts: Sequence[Sequence[str]], *, stem: bool = True
) -> CoverageScores:
    """Concept coverage of a set.

    Args:
        hypotheses: words of one output an item, from `caption_tokens`.
        concepts: for each item its concepts.
        stem: False compares the words themselves instead of their stems.

    Returns:
        Mean fraction and share of items with all concepts covered, both 0 to 1, None without
        items that have a concept.

    Raises:
        ValueError: other numbers of items.
    """
    if len(hypotheses) != len(concepts):
        raise ValueError(f"{len(hypotheses)} outputs but concepts for {len(concepts)} items.")
    items = [
        concept_coverage_of(*item, stem=stem) for item in zip(hypotheses, concepts, strict=True)
    ]
    rule = "porter" if stem else "exact"
    complete = [None if value is None else float(value == 1.0) for value in items]
    return CoverageScores(
        mean_score(items, signature=f"coverage|words:{rule}"),
        mean_score(complete, signature=f"coverage-all|words:{rule}"),
    )
