"""Talking-heads attention one query at a time.

Shapes: B batch, N tokens, D width, H heads, K head width, S tokens the query sees.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from damcha_core.attention.reference.mha import visible_tokens
from damcha_core.attention.talking_heads import TalkingHeadsAttention


def talking_heads_reference(
    layer: TalkingHeadsAttention,
    x_BND: Tensor,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """out_t = concat_o(sum_s p'_o(t, s) v_o(s)) W_O + b_O, p'_o = sum_i W_oi p_i.

    p_o = softmax(sum_i L_oi q_i k_i^T / sqrt(K)) over the tokens that the query sees.

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
    before_HH, after_HH = layer.score_mixing_HH.double(), layer.weight_mixing_HH.double()
    width = layer.d_model // layer.n_heads
    heads = range(layer.n_heads)
    own = [slice(i * width, (i + 1) * width) for i in heads]
    rows = []
    for b in range(x_BND.shape[0]):
        for t in range(x_BND.shape[1]):
            seen = visible_tokens(key_mask, b, t, x_BND.shape[1], is_causal)
            row_D = torch.zeros_like(x_BND[b, t])
            if seen:
                seen_SD = x_BND[b, seen]
                scores = []
                for i in heads:
                    query_K = w_q[own[i]] @ x_BND[b, t]
                    scores.append(seen_SD @ w_k[own[i]].T @ query_K / math.sqrt(width))
                weights = [torch.softmax(mixed_S, dim=0) for mixed_S in mix(before_HH, scores)]
                mixed = mix(after_HH, weights)
                row_D = torch.cat([mixed[o] @ (seen_SD @ w_v[own[o]].T) for o in heads])
            rows.append(row_D @ layer.out.weight.double().T + layer.out.bias.double())
    return torch.stack(rows).view_as(x_BND)


def mix(mixing_HH: Tensor, heads: list[Tensor]) -> list[Tensor]:
    """New head o: sum over i of mixing_oi times head i."""
    return [
        torch.stack([weight * a_S for weight, a_S in zip(row_H, heads, strict=True)]).sum(0)
        for row_H in mixing_HH
    ]
