"""Means over tokens, the context a metric is generated from.

Shapes: B batch, N tokens, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from damcha_core.attention.layer import keep_real


def token_mean(x_BND: Tensor, key_mask: Tensor | None = None) -> Tensor:
    """Mean of the real tokens of each sequence.

    Args:
        x_BND: tokens, any floating dtype.
        key_mask: bool (B, N), True = real token. None: every token is real.

    Returns:
        Tensor (B, D), float32 or wider; zeros for a sequence without a real token.
    """
    x_BND = _at_least_float32(x_BND)
    if key_mask is None:
        return x_BND.mean(1)
    count_B1 = key_mask.sum(1, keepdim=True).clamp(min=1)
    return keep_real(x_BND, key_mask).sum(1) / count_B1


def prefix_mean(x_BND: Tensor, key_mask: Tensor | None = None) -> Tensor:
    """Mean of the real tokens up to and including each token.

    Row t is computed from the rows up to t alone, so a later token cannot move a bit of it.

    Args:
        x_BND: tokens, any floating dtype.
        key_mask: bool (B, N), True = real token. None: every token is real.

    Returns:
        Tensor (B, N, D), float32 or wider; zeros where no real token has come yet.
    """
    x_BND = _at_least_float32(x_BND)
    if key_mask is None:
        count_BN1 = torch.arange(1, x_BND.shape[1] + 1, device=x_BND.device)[None, :, None]
    else:
        x_BND = keep_real(x_BND, key_mask)
        count_BN1 = key_mask.cumsum(1).clamp(min=1).unsqueeze(-1)
    return prefix_sum(x_BND) / count_BN1


def continued_mean(
    x_BMD: Tensor, key_mask: Tensor | None, sum_BD: Tensor | None, count_B: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`prefix_mean` of the tokens that follow others, from the sum and the count of those.

    Args:
        x_BMD: the tokens that follow, zeros where masked.
        key_mask: bool (B, M), True = real token. None: every token is real.
        sum_BD: sum of the real tokens before; None: there were none.
        count_B: how many these were; None: none.

    Returns:
        Means (B, M, D), float32 or wider; sums (B, M, D) and counts (B, M) up to and including
        each token.
    """
    sum_BMD = prefix_sum(_at_least_float32(x_BMD))
    if key_mask is None:
        key_mask = x_BMD.new_ones(x_BMD.shape[:2], dtype=torch.bool)
    count_BM = key_mask.cumsum(1)
    if sum_BD is not None and count_B is not None:
        sum_BMD, count_BM = sum_BMD + sum_BD.unsqueeze(1), count_BM + count_B.unsqueeze(1)
    return sum_BMD / count_BM.clamp(min=1).unsqueeze(-1), sum_BMD, count_BM


def prefix_sum(x_BND: Tensor) -> Tensor:
    """Running sum over the tokens, with a kernel that the determinism setting allows.

    torch refuses its CUDA cumsum under `use_deterministic_algorithms`; there the sum is built by
    doubling, log2(N) shifted additions, in an order fixed by the position.

    Args:
        x_BND: tokens.

    Returns:
        Tensor (B, N, D): row t is the sum of the rows 0 .. t.
    """
    if x_BND.is_cuda and torch.are_deterministic_algorithms_enabled():
        return doubling_prefix_sum(x_BND)
    return x_BND.cumsum(1)


def doubling_prefix_sum(x_BND: Tensor) -> Tensor:
    """Running sum over the tokens by log2(N) shifted additions, none of them atomic."""
    step = 1
    while step < x_BND.shape[1]:
        x_BND = x_BND + functional.pad(x_BND[:, :-step], (0, 0, step, 0))
        step *= 2
    return x_BND


def _at_least_float32(x_BND: Tensor) -> Tensor:
    return x_BND.to(torch.promote_types(x_BND.dtype, torch.float32))
