"""Dynamically composable multi-head attention one query at a time.

Shapes: B batch, N tokens, D width, H heads, K head width, S hidden width of a stream.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from damcha_core.attention.dcmha import ComposedAttention
from damcha_core.attention.reference.mha import visible_tokens

RANK = 2
EPS = 1e-6


def dcmha_reference(
    layer: ComposedAttention,
    x_BND: Tensor,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """out_t = concat_i(sum_s p'_i(t, s) v_i(s)) W_O, p' = Compose(softmax(Compose(scores))).

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
    width = layer.d_model // layer.n_heads
    w_q, w_k, w_v = layer.qkv.weight.double().view(3, layer.n_heads, width, layer.d_model)
    rows = []
    for b in range(x_BND.shape[0]):
        for t in range(x_BND.shape[1]):
            query_D = x_BND[b, t]
            seen = visible_tokens(key_mask, b, t, x_BND.shape[1], is_causal)
            composed = []
            for s in seen:
                key_D = x_BND[b, s]
                scores_H = ((w_q @ query_D) * (w_k @ key_D)).sum(1) / math.sqrt(width)
                composed.append(compose(layer, scores_H, query_D, key_D, streams=(0, 1)))
            out_HK = query_D.new_zeros(layer.n_heads, width)
            if seen:
                weights = torch.softmax(torch.stack(composed), dim=0)
                for n, s in enumerate(seen):
                    key_D = x_BND[b, s]
                    p_H = compose(layer, weights[n], query_D, key_D, streams=(2, 3))
                    out_HK = out_HK + p_H[:, None] * (w_v @ key_D)
            rows.append(out_HK.flatten() @ layer.out.weight.double().T)
    return torch.stack(rows).view_as(x_BND)


def compose(
    layer: ComposedAttention,
    a_H: Tensor,
    query_D: Tensor,
    key_D: Tensor,
    streams: tuple[int, int],
) -> Tensor:
    """a + what the query and the key add to it: sum_r w2_r (w1_r . a) + g a, each with its own."""
    out_H = a_H
    for token_D, stream in zip((query_D, key_D), streams, strict=True):
        hidden_S = functional.gelu(token_D @ layer.dw1[:, stream].double())
        for r in range(RANK):
            w1_H = hidden_S @ layer.qkw[stream, :, r].double()
            w1_H = w1_H / torch.sqrt((w1_H * w1_H).mean() + EPS)
            w2_H = hidden_S @ layer.qkw[stream, :, RANK + r].double()
            out_H = out_H + w2_H * (w1_H @ a_H)
        own = slice(stream * layer.n_heads, (stream + 1) * layer.n_heads)
        out_H = out_H + torch.tanh(token_D @ layer.dd[:, own].double()) * a_H
    return out_H
