"""Talking-heads attention ("Talking-Heads Attention", 2020, arXiv:2003.02436).

Shapes: B batch, N tokens, D width, H heads, K head width, M queries.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from damcha_core.attention.cache import AttentionCache, KeyValueCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer, merge_heads
from damcha_core.attention.projections import input_projection, output_projection
from damcha_core.attention.score_softmax import masked_softmax
from damcha_core.attention.stack import AttentionStack


class TalkingHeadsAttention(AttentionLayer):
    """Heads that mix their scores before the softmax and their weights after it.

    s_i = Q_i K_i^T / sqrt(K), p_o = softmax(sum_i L_oi s_i), p'_o = sum_i W_oi p_i,
    out = concat_o(p'_o V_o) W_O + b_O. Masks act between the first mixing and the softmax. A row
    of p' need not sum to 1. Both mixings start as the identity, so that a fresh layer is
    multi-head attention; published code starts them at random, or adds them to the identity.
    Like a static metric they are not decayed. Dropout acts on p'.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        dropout: probability with which a mixed weight is dropped in training, in [0, 1).
    """

    cache_class = KeyValueCache

    def __init__(self, d_model: int, n_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(d_model, n_heads, dropout=dropout)
        self.qkv = input_projection(d_model, n_parts=3, bias=False)
        self.score_mixing_HH = nn.Parameter(torch.eye(n_heads))
        self.weight_mixing_HH = nn.Parameter(torch.eye(n_heads))
        self.out = output_projection(d_model)

    def undecayed_parameters(self) -> tuple[str, ...]:
        """Both mixings: decay would draw them from the identity to no attention at all."""
        return ("score_mixing_HH", "weight_mixing_HH")

    def attend(
        self,
        x_BND: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
        carry: Carry | None,
        cache: AttentionCache | None,
    ) -> Tensor:
        q_BHMK, k_BHNK, v_BHNK = (self.split_heads(part) for part in self.qkv(x_BND).chunk(3, -1))
        if isinstance(cache, KeyValueCache):
            k_BHNK, v_BHNK, key_mask = cache.append(k_BHNK, v_BHNK, key_mask)
        scores_BHMN = q_BHMK / math.sqrt(self.d_head) @ k_BHNK.mT
        weights_BHMN = masked_softmax(
            mix_heads(self.score_mixing_HH, scores_BHMN), key_mask=key_mask, is_causal=is_causal
        )
        weights_BHMN = mix_heads(self.weight_mixing_HH, weights_BHMN.to(v_BHNK.dtype))
        weights_BHMN = functional.dropout(weights_BHMN, self.dropout, self.training)
        out_BMD: Tensor = self.out(merge_heads(weights_BHMN @ v_BHNK))
        return out_BMD


def mix_heads(mixing_HH: Tensor, a_BHMN: Tensor) -> Tensor:
    """a'_o = sum_i mixing_oi a_i, as one matrix product for each sequence."""
    n_batch, n_heads = a_BHMN.shape[:2]
    mixed_BHMN = torch.bmm(mixing_HH.expand(n_batch, n_heads, n_heads), a_BHMN.flatten(2))
    return mixed_BHMN.view(a_BHMN.shape)


def build_talking_heads(
    d_model: int, n_heads: int, n_layers: int, *, dropout: float = 0.0
) -> AttentionStack:
    """The attentions of a stack of n_layers blocks; they share nothing.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        n_layers: number of layers, at least 0.
        dropout: probability with which a mixed weight is dropped in training, in [0, 1).
    """
    layers = [TalkingHeadsAttention(d_model, n_heads, dropout=dropout) for _ in range(n_layers)]
    return AttentionStack(layers=layers, shared=None)
