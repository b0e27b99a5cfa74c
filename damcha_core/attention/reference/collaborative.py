"""Collaborative attention one query at a time.

Shapes: B batch, N tokens, D width, H heads, K head width, S shared width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from damcha_core.attention.collaborative import CollaborativeAttention
from damcha_core.attention.reference.mha import visible_tokens, weighted_sum


def collaborative_reference(
    layer: CollaborativeAttention,
    x_BND: Tensor,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """out_t = concat_i(sum_s p_i(t, s) v_i(s)) W_O + b_O.

    p_i = softmax((sum_c a_i[c] q_t[c] k_s[c] + w_i . x_s) / sqrt(S/H)), q and k shared by the
    heads.

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
    w_q, w_k = layer.query.weight.double(), layer.key.weight.double()
    w_v, b_v = layer.value.weight.double(), layer.value.bias.double()
    mixing_HS, content_HD = layer.mixing_HS.double(), layer.content_bias_HD.double()
    width = layer.d_model // layer.n_heads
    rows = []
    for b in range(x_BND.shape[0]):
        for t in range(x_BND.shape[1]):
            seen = visible_tokens(key_mask, b, t, x_BND.shape[1], is_causal)
            query_S = w_q @ x_BND[b, t]
            heads = []
            for i in range(layer.n_heads):
                own = slice(i * width, (i + 1) * width)
                scores = []
                for s in seen:
                    key_S = w_k @ x_BND[b, s]
                    score = (mixing_HS[i] * query_S * key_S).sum() + content_HD[i] @ x_BND[b, s]
                    scores.append(score / math.sqrt(layer.shared_dim / layer.n_heads))
                values = [w_v[own] @ x_BND[b, s] + b_v[own] for s in seen]
                heads.append(weighted_sum(scores, values, like=b_v[own]))
            rows.append(torch.cat(heads) @ layer.out.weight.double().T + layer.out.bias.double())
    return torch.stack(rows).view_as(x_BND)
