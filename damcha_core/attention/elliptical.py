"""Elliptical attention ("Elliptical Attention", NeurIPS 2024, arXiv:2406.13770).

Shapes: B batch, N tokens, D width, H heads, K head width, M queries; 1 or M where the metric may
depend on the query (X).
"""

from __future__ import annotations

import torch
from torch import Tensor

from damcha_core.attention.cache import AttentionCache, KeyValueCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer, keep_real, merge_heads
from damcha_core.attention.masking import masked_attention
from damcha_core.attention.pooling import prefix_sum
from damcha_core.attention.projections import input_projection, output_projection
from damcha_core.attention.stack import AttentionStack
from damcha_core.errors import ShapeError


class EllipticalCache(KeyValueCache):
    """Keys, values, and the change of the values summed over the tokens so far.

    Attributes:
        change_B1D: that sum, float32 or wider; None before the first step and in a first layer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.change_B1D: Tensor | None = None


class EllipticalAttention(AttentionLayer):
    """Multi-head attention under a diagonal metric that the values themselves give.

    p_i = softmax(Q_i diag(m_i) K_i^T / sqrt(K)), m_i = c_i / max(c_i),
    c_i = sum over tokens of |V_i - V_i of the layer before|. It has no parameters beside those of
    multi-head attention, and no gradient goes through m. The first layer, which has none before
    it, is plain. Every layer of a stack needs the same heads.

    Two repairs of the published code: the sum takes the real tokens alone, and in a causal layer
    those up to the query alone, so that m depends on the query. Where no feature changed, the
    maximum is taken to be 1. 1/sqrt(K) is kept, as in the published vision code.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
    """

    uses_carry = True
    cache_class = EllipticalCache

    def __init__(self, d_model: int, n_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(d_model, n_heads, dropout=dropout)
        self.qkv = input_projection(d_model, n_parts=3)
        self.out = output_projection(d_model)

    def attend(
        self,
        x_BND: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
        carry: Carry | None,
        cache: AttentionCache | None,
    ) -> Tensor:
        q_BHMK, k_BHNK, v_BHNK = (self.split_heads(part) for part in self.qkv(x_BND).chunk(3, -1))
        before_BHNK = None if carry is None else carry.values_BHNK
        if carry is not None:
            carry.values_BHNK = v_BHNK
        kept = cache if isinstance(cache, EllipticalCache) else None
        if before_BHNK is not None:
            change_BXD = self.summed_change(v_BHNK, before_BHNK, key_mask, is_causal, kept)
            q_BHMK = q_BHMK * self.metric(change_BXD).to(q_BHMK.dtype)
        if kept is not None:
            k_BHNK, v_BHNK, key_mask = kept.append(k_BHNK, v_BHNK, key_mask)
        heads_BHMK = masked_attention(
            q_BHMK,
            k_BHNK,
            v_BHNK,
            key_mask=key_mask,
            is_causal=is_causal,
            dropout=self.dropout if self.training else 0.0,
        )
        out_BMD: Tensor = self.out(merge_heads(heads_BHMK))
        return out_BMD

    @torch.no_grad()
    def summed_change(
        self,
        v_BHNK: Tensor,
        before_BHNK: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
        cache: EllipticalCache | None = None,
    ) -> Tensor:
        """c of all heads side by side, without a gradient: |V - V before| summed over real tokens.

        Args:
            v_BHNK: values of this layer.
            before_BHNK: values of the layer before, for the same tokens.
            key_mask: bool (B, N) for these tokens. None: every token is real.
            is_causal: True for a sum up to each token, False for one over all.
            cache: where the sum over earlier tokens is kept.

        Returns:
            Tensor (B, 1, D), causal (B, N, D), float32 or wider.

        Raises:
            ShapeError: the layer before has other heads.
        """
        if before_BHNK.shape != v_BHNK.shape:
            raise ShapeError(
                f"the values of the layer before have the shape {tuple(before_BHNK.shape)} of "
                f"(batch, heads, tokens, head width), those of this layer {tuple(v_BHNK.shape)}"
            )
        wide = torch.promote_types(v_BHNK.dtype, torch.float32)
        change_BND = merge_heads((v_BHNK.to(wide) - before_BHNK.to(wide)).abs())
        if key_mask is not None:
            change_BND = keep_real(change_BND, key_mask)
        if not is_causal:
            return change_BND.sum(1, keepdim=True)
        summed_BND = prefix_sum(change_BND)
        if cache is not None:
            if cache.change_B1D is not None:
                summed_BND = summed_BND + cache.change_B1D
            cache.change_B1D = summed_BND[:, -1:].clone()
        return summed_BND

    def metric(self, change_BXD: Tensor) -> Tensor:
        """The diagonals m (B, H, X, K): c over its maximum, so at most 1."""
        change_BHXK = self.split_heads(change_BXD)
        most_BHX1 = change_BHXK.amax(-1, keepdim=True)
        return change_BHXK / torch.where(most_BHX1 == 0, torch.ones_like(most_BHX1), most_BHX1)


def build_elliptical(
    d_model: int, n_heads: int, n_layers: int, *, dropout: float = 0.0
) -> AttentionStack:
    """The attentions of a stack of n_layers blocks; the stack carries values between them.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        n_layers: number of layers, at least 0.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
    """
    layers = [EllipticalAttention(d_model, n_heads, dropout=dropout) for _ in range(n_layers)]
    return AttentionStack(layers=layers, shared=None)
