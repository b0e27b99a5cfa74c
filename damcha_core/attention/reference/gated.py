"""Gated attention one query at a time.

Shapes: B batch, N tokens, D width, K head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from damcha_core.attention.gated import GatedAttention
from damcha_core.attention.reference.mha import visible_tokens, weighted_sum


def gated_reference(
    layer: GatedAttention,
    x_BND: Tensor,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """out_t = concat_i(g_i(t) * sum_s p_i(t, s) v_i(s)) W_O, g_i = sigmoid(x_t G_i).

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
    w_gate = layer.gate.weight.double()
    width = layer.d_model // layer.n_heads
    rows = []
    for b in range(x_BND.shape[0]):
        for t in range(x_BND.shape[1]):
            seen = visible_tokens(key_mask, b, t, x_BND.shape[1], is_causal)
            gates = [1.0 / (1.0 + torch.exp(-(row @ x_BND[b, t]))) for row in w_gate]
            heads = []
            for i in range(layer.n_heads):
                own = slice(i * width, (i + 1) * width)
                query_K = w_q[own] @ x_BND[b, t]
                values = [w_v[own] @ x_BND[b, s] for s in seen]
                scores = [query_K @ (w_k[own] @ x_BND[b, s]) / math.sqrt(width) for s in seen]
                gate = gates[i] if layer.gate_name == "headwise" else torch.stack(gates[own])
                heads.append(gate * weighted_sum(scores, values, like=query_K))
            rows.append(torch.cat(heads) @ layer.out.weight.double().T)
    return torch.stack(rows).view_as(x_BND)
