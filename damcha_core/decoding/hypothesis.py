"""A finished text of a search, and the score that ranks it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """A text that a search ended.

    Attributes:
        tokens: the text tokens, without the end mark.
        log_probability: natural logarithm of the probability of the tokens and the end mark,
            under the distribution that `TokenRules` describes.
        score: log_probability over the length penalty; the ranking of a search.
        cut: True where the limit ended the text: the end mark was forced and was not the most
            probable token.
        unplaced: places, in the prompt's list of concepts, of those that the text lacks.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    cut: bool = False
    unplaced: tuple[int, ...] = ()


def length_penalty(n_tokens: float, alpha: float) -> float:
    """What a log-probability is divided by: ((5 + n_tokens) / 6) ** alpha.

    Source: "Google's Neural Machine Translation System: Bridging the Gap between Human and
    Machine Translation" (arXiv 1609.08144), equation 14, without the coverage term.

    Args:
        n_tokens: tokens of the text, the end mark included, at least 1.
        alpha: at least 0; 0 gives 1, larger values favour longer texts.

    Returns:
        At least 1.
    """
    return ((5.0 + n_tokens) / 6.0) ** alpha
