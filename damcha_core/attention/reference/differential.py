"""Differential attention one query at a time.

Shapes: B batch, N tokens, D width, K head width, T = 2K.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from damcha_core.attention.differential import DifferentialAttention
from damcha_core.attention.reference.mha import visible_tokens, weighted_sum

EPS = 1e-5


def differential_reference(
    layer: DifferentialAttention,
    x_BND: Tensor,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """out_t = concat_j((1 - lambda_0) g * o_j / rms(o_j)) W_O, o_j = sum_s P_j(t, s) v_j(s).

    P_j = softmax(q_2j k_2j / sqrt(K)) - lambda softmax(q_2j+1 k_2j+1 / sqrt(K)).

    Args:
        layer: holder of the weights and of lambda_0.
        x_BND: tokens.
        key_mask: bool (B, N), True = real token. None: every token is real.
        is_causal: True lets token t see the tokens s <= t alone.

    Returns:
        Tensor (B, N, D), float64, differentiable in x and the weights. A row whose query is a
        masked token is as undefined as the token is.
    """
    x_BND = x_BND.double()
    w_q, w_k, w_v = layer.qkv.weight.double().chunk(3)
    first = torch.exp(layer.lambda_q1.double() @ layer.lambda_k1.double())
    second = torch.exp(layer.lambda_q2.double() @ layer.lambda_k2.double())
    lam = first - second + layer.lambda_init
    width = layer.d_model // layer.n_heads
    rows = []
    for b in range(x_BND.shape[0]):
        for t in range(x_BND.shape[1]):
            seen = visible_tokens(key_mask, b, t, x_BND.shape[1], is_causal)
            pairs = []
            for j in range(layer.n_heads // 2):
                whole = slice(2 * j * width, 2 * (j + 1) * width)
                values = [w_v[whole] @ x_BND[b, s] for s in seen]
                sums = []
                for i in (2 * j, 2 * j + 1):
                    own = slice(i * width, (i + 1) * width)
                    query_K = w_q[own] @ x_BND[b, t]
                    scores = [query_K @ (w_k[own] @ x_BND[b, s]) / math.sqrt(width) for s in seen]
                    sums.append(weighted_sum(scores, values, like=x_BND[b, t, whole]))
                o_T = sums[0] - lam * sums[1]
                o_T = o_T / torch.sqrt((o_T * o_T).mean() + EPS)
                pairs.append((1.0 - layer.lambda_init) * layer.norm_gain.double() * o_T)
            rows.append(torch.cat(pairs) @ layer.out.weight.double().T)
    return torch.stack(rows).view_as(x_BND)
