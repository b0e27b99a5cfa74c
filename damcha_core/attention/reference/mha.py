"""Multi-head attention one query at a time.

Shapes: B batch, N tokens, D width, K head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from damcha_core.attention.mha import MultiHeadAttention


def mha_reference(
    layer: MultiHeadAttention,
    x_BND: Tensor,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """out_t = concat_i(sum_s p_i(t, s) v_i(s)) W_O + b_O, p_i = softmax(q_i k_i^T / sqrt(K)).

    Args:
        layer: holder of the weights.
        x_BND: tokens.
        key_mask: bool (B, N), True = real token. None: every token is real.
        is_causal: True lets token t see the tokens s <= t alone.

    Returns:
        Tensor (B, N, D), float64, differentiable in x and the weights. A row whose query is a
        masked token is as undefined as the token is.
    """
    x_BND = x_BND.double()
    w_q, w_k, w_v = layer.qkv.weight.double().chunk(3)
    b_q, b_k, b_v = layer.qkv.bias.double().chunk(3)
    width = layer.d_model // layer.n_heads
    rows = []
    for b in range(x_BND.shape[0]):
        for t in range(x_BND.shape[1]):
            seen = visible_tokens(key_mask, b, t, x_BND.shape[1], is_causal)
            heads = []
            for i in range(layer.n_heads):
                own = slice(i * width, (i + 1) * width)
                query_K = x_BND[b, t] @ w_q[own].T + b_q[own]
                values = [x_BND[b, s] @ w_v[own].T + b_v[own] for s in seen]
                scores = [
                    query_K @ (x_BND[b, s] @ w_k[own].T + b_k[own]) / math.sqrt(width) for s in seen
                ]
                heads.append(weighted_sum(scores, values, like=query_K))
            rows.append(torch.cat(heads) @ layer.out.weight.double().T + layer.out.bias.double())
    return torch.stack(rows).view_as(x_BND)


def visible_tokens(
    key_mask: Tensor | None, b: int, t: int, n_tokens: int, is_causal: bool
) -> list[int]:
    """Places of the tokens that query t of sequence b may see."""
    last = t if is_causal else n_tokens - 1
    return [s for s in range(last + 1) if key_mask is None or bool(key_mask[b, s])]


def weighted_sum(scores: list[Tensor], values: list[Tensor], like: Tensor) -> Tensor:
    """Values weighted by the softmax of the scores; zeros of a like shape where there are none."""
    if not scores:
        return torch.zeros_like(like)
    weights = torch.softmax(torch.stack(scores), dim=0)
    return sum((w * v for w, v in zip(weights, values, strict=True)), torch.zeros_like(like))
