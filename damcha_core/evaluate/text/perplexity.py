"""Perplexity: exp of the mean negative log-likelihood of the target tokens.

The loss is the plain one (no label smoothing), padding does not count, and every token counts
once whatever batch it came in.

Legend: T tokens that are scored, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from damcha_core.evaluate.text.text_score import FloatArray, ItemSums, TextScore


def token_losses(logits_TV: Tensor, wanted_T: Tensor) -> Tensor:
    """Negative log-likelihood of tokens, in nats, without label smoothing.

    Args:
        logits_TV: scores of all tokens at each place, any floating dtype, any device.
        wanted_T: the token that stands there.

    Returns:
        (T) float64 on the CPU: some accelerators have none, and sums in float32 drift.
    """
    return cross_entropy(logits_TV.detach().cpu().double(), wanted_T.cpu(), reduction="none")


def perplexity_of(total_nll: float, n_tokens: float) -> float | None:
    """Perplexity of a total loss.

    Args:
        total_nll: negative log-likelihood in nats.
        n_tokens: tokens it is the sum over.

    Returns:
        exp(total_nll / n_tokens): infinite where that is too large for a float, None without
        tokens.
    """
    if n_tokens == 0:
        return None
    try:
        return math.exp(total_nll / n_tokens)
    except OverflowError:
        return math.inf


def perplexities(sums_MK: FloatArray) -> FloatArray:
    """`perplexity_of` of many rows (total loss, tokens); NaN without tokens."""
    values = [perplexity_of(*row) for row in sums_MK.tolist()]
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def perplexity(nll: Sequence[float], n_tokens: Sequence[int]) -> TextScore:
    """Perplexity over all tokens of all sequences.

    Args:
        nll: negative log-likelihood of each sequence in nats, summed over its tokens.
        n_tokens: target tokens of each sequence.

    Returns:
        Value from 1 (infinite where too large), None without tokens; n counts tokens, items
        are the perplexities of the sequences.
    """
    rows = list(zip(nll, n_tokens, strict=True))
    rows_NK = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return TextScore(
        # fsum rounds once, so the order of the sequences does not matter.
        value=perplexity_of(math.fsum(nll), sum(n_tokens)),
        n=sum(n_tokens),
        signature="perplexity|nats|unsmoothed",
        items=tuple(perplexity_of(*row) for row in rows),
        sums=ItemSums(rows_NK, perplexities),
    )
