"""From the masks of other libraries to those of the catalogue's contract.

Shapes: B batch, H heads, N tokens; a leading axis may be 1 where nothing depends on it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from damcha_core.errors import UsageError


def open_places(mask: Tensor, *, true_means_open: bool, place: str) -> Tensor:
    """Where attention is allowed.

    Args:
        mask: bool, or what is added to the scores: 0 where allowed, minus infinity elsewhere.
        true_means_open: what True stands for; torch.nn.MultiheadAttention blocks there,
            scaled_dot_product_attention allows.
        place: name of the replaced attention, for the error.

    Returns:
        bool of the same shape, True = allowed.

    Raises:
        UsageError: it adds something else to the scores.
    """
    if mask.dtype == torch.bool:
        return mask if true_means_open else ~mask
    is_open = mask == 0
    if not bool((is_open | (mask == -math.inf)).all()):
        raise UsageError(
            f"{place}: a mask that is added to the scores may hold 0 and minus infinity alone; "
            "the attentions of the catalogue take no biases and no large negative numbers"
        )
    return is_open


def contract_masks(
    open_BHNN: Tensor | None, key_mask_BN: Tensor | None, *, is_causal: bool, place: str
) -> tuple[Tensor | None, bool]:
    """The masks of `AttentionLayer` that say the same.

    Args:
        open_BHNN: which token may attend to which, True = allowed. None: no such mask.
        key_mask_BN: True = real token. None: every token is real.
        is_causal: whether tokens see only earlier ones beside what the masks say.
        place: name of the replaced attention, for the error.

    Returns:
        key_mask, bool (B or 1, N) or None, and is_causal.

    Raises:
        UsageError: the mask hides other tokens than masked ones and later ones.
    """
    if open_BHNN is None:
        return key_mask_BN, is_causal
    n_tokens = open_BHNN.shape[-1]
    earlier_NN = open_BHNN.new_ones(n_tokens, n_tokens).tril()
    if is_causal:
        open_BHNN = open_BHNN & earlier_NN
    # Every token sees itself unless it is masked, so the diagonal is the mask of the keys.
    real_BN = open_BHNN[:, 0].diagonal(dim1=-2, dim2=-1)
    hides_later = not same_for_real(open_BHNN, real_BN, torch.ones_like(earlier_NN))
    if hides_later and not same_for_real(open_BHNN, real_BN, earlier_NN):
        raise UsageError(
            f"{place}: the attention mask is neither causal nor a mask of tokens; the attentions "
            "of the catalogue know these two kinds and both together"
        )
    if key_mask_BN is not None:
        return key_mask_BN & real_BN, hides_later
    return (None if bool(real_BN.all()) else real_BN), hides_later


def same_for_real(open_BHNN: Tensor, real_BN: Tensor, pattern_NN: Tensor) -> bool:
    """Whether every real token, in every head, sees the real tokens of a pattern and no others.

    Which real tokens a masked one sees does not matter: its output carries no meaning. Masked
    tokens are seen by none, or they would not be masked.
    """
    expected_B1NN = (real_BN.unsqueeze(-2) & pattern_NN).unsqueeze(1)
    free_B1NN = (~real_BN.unsqueeze(-1) & real_BN.unsqueeze(-2)).unsqueeze(1)
    return bool(((open_BHNN == expected_B1NN) | free_B1NN).all())
