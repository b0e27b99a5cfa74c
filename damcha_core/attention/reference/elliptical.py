"""Elliptical attention one query at a time.

Shapes: B batch, N tokens, D width, H heads, K head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from damcha_core.attention.elliptical import EllipticalAttention
from damcha_core.attention.reference.mha import visible_tokens, weighted_sum


def elliptical_reference(
    layer: EllipticalAttention,
    x_BND: Tensor,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
    before_BHNK: Tensor | None = None,
) -> Tensor:
    """out_t = concat_i(sum_s p_i(t, s) v_i(s)) W_O + b_O, p_i = softmax(q_i diag(m) k_i / sqrt(K)).

    m = c / max(c), c = the sum of |v_i - v_i before| over the tokens that the query sees.

    Args:
        layer: holder of the weights.
        x_BND: tokens.
        key_mask: bool (B, N), True = real token. None: every token is real.
        is_causal: True lets token t see the tokens s <= t alone.
        before_BHNK: values of the layer before. None: the layer is the first, m = 1.

    Returns:
        Tensor (B, N, D), float64, differentiable in x and the weights, m being a constant. A row
        whose query is a masked token is as undefined as the token is.
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
                values = [w_v[own] @ x_BND[b, s] + b_v[own] for s in seen]
                query_K = w_q[own] @ x_BND[b, t] + b_q[own]
                if before_BHNK is not None:
                    before = [before_BHNK[b, i, s].double() for s in seen]
                    query_K = query_K * reference_metric(values, before, like=query_K)
                scores = [
                    query_K @ (w_k[own] @ x_BND[b, s] + b_k[own]) / math.sqrt(width) for s in seen
                ]
                heads.append(weighted_sum(scores, values, like=query_K))
            rows.append(torch.cat(heads) @ layer.out.weight.double().T + layer.out.bias.double())
    return torch.stack(rows).view_as(x_BND)


def reference_metric(values: list[Tensor], before: list[Tensor], like: Tensor) -> Tensor:
    """The diagonal m (K,) of one head for the tokens that one query sees."""
    change_K = torch.zeros_like(like)
    for now_K, then_K in zip(values, before, strict=True):
        change_K = change_K + (now_K - then_K).detach().abs()
    most = float(change_K.max())
    return change_K / (most or 1.0)
