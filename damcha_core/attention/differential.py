"""Differential attention ("Differential Transformer", ICLR 2025, arXiv:2410.05258).

Shapes: B batch, N tokens, D width, H heads, K head width, M queries, J pairs of heads, T = 2K.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from damcha_core.attention.cache import AttentionCache, KeyValueCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer, merge_heads
from damcha_core.attention.masking import masked_attention
from damcha_core.attention.projections import input_projection, output_projection
from damcha_core.attention.stack import AttentionStack

NORM_EPS = 1e-5
LAMBDA_STD = 0.1


class DifferentialAttention(AttentionLayer):
    """Pairs of heads whose attention weights are subtracted from each other.

    P_j = softmax(Q_2j K_2j^T / sqrt(K)) - lambda softmax(Q_2j+1 K_2j+1^T / sqrt(K)),
    o_j = (1 - lambda_0) g * RMSNorm(P_j V_j), out = concat_j(o_j) W_O without biases,
    lambda = exp(lq_1 . lk_1) - exp(lq_2 . lk_2) + lambda_0, lambda_0 = 0.8 - 0.6 exp(-0.3 l) for
    the layer number l from zero. Queries and keys are those of H heads; a pair j, the heads 2j
    and 2j + 1, has one value of width 2K, so the layer is as large as multi-head attention of the
    same n_heads. The published code passes half this number as its number of heads.

    The published code has no dropout; here it acts on both softmaxes, as in other versions.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H as of multi-head attention, even, at least 2.
        layer_index: number l of the layer in its stack, from zero.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).

    Raises:
        ValueError: n_heads is odd, or another size is not valid.
    """

    cache_class = KeyValueCache

    def __init__(
        self, d_model: int, n_heads: int, *, layer_index: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__(d_model, n_heads, dropout=dropout)
        if n_heads % 2:
            raise ValueError(
                "differential attention takes its heads in pairs, so n_heads must be even, "
                f"got {n_heads}"
            )
        if layer_index < 0:
            raise ValueError(f"layer_index must be at least 0, got {layer_index}")
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * layer_index)
        self.qkv = input_projection(d_model, n_parts=3, bias=False)
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (
            nn.Parameter(torch.empty(self.d_head).normal_(std=LAMBDA_STD)) for _ in range(4)
        )
        self.norm_gain = nn.Parameter(torch.ones(2 * self.d_head))
        self.out = output_projection(d_model, bias=False)

    def attend(
        self,
        x_BND: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
        carry: Carry | None,
        cache: AttentionCache | None,
    ) -> Tensor:
        # The two halves of the value of pair j stand where the values of the heads 2j, 2j + 1 do.
        q_BHMK, k_BHNK, v_BHNK = (self.split_heads(part) for part in self.qkv(x_BND).chunk(3, -1))
        if isinstance(cache, KeyValueCache):
            k_BHNK, v_BHNK, key_mask = cache.append(k_BHNK, v_BHNK, key_mask)
        both_BHMT = self.attend_heads(q_BHMK, k_BHNK, v_BHNK, key_mask, is_causal)
        wide = torch.promote_types(both_BHMT.dtype, torch.float32)
        plus_BJMT, minus_BJMT = both_BHMT[:, 0::2].to(wide), both_BHMT[:, 1::2].to(wide)
        pairs_BJMT = functional.rms_norm(
            plus_BJMT - self.weight_of_second().to(wide) * minus_BJMT,
            (2 * self.d_head,),
            (self.norm_gain * (1.0 - self.lambda_init)).to(wide),
            NORM_EPS,
        )
        out_BMD: Tensor = self.out(merge_heads(pairs_BJMT.to(v_BHNK.dtype)))
        return out_BMD

    def attend_heads(
        self,
        q_BHMK: Tensor,
        k_BHNK: Tensor,
        v_BHNK: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        """Each head's weighted sum of the value of its pair, (B, H, M, T).

        One call for each half of the value, because fused kernels want values as wide as keys.
        With dropout one call for all of it, lest a weight be dropped for one half alone.
        """
        dropout = self.dropout if self.training else 0.0
        halves_BJNK = (v_BHNK[:, 0::2], v_BHNK[:, 1::2])
        values = (torch.cat(halves_BJNK, -1),) if dropout else halves_BJNK
        return torch.cat(
            [
                masked_attention(
                    q_BHMK,
                    k_BHNK,
                    # Each pair's value for both of its heads.
                    value.unsqueeze(2).expand(-1, -1, 2, -1, -1).flatten(1, 2),
                    key_mask=key_mask,
                    is_causal=is_causal,
                    dropout=dropout,
                )
                for value in values
            ],
            -1,
        )

    def weight_of_second(self) -> Tensor:
        """lambda, one number for the layer, float32 or wider."""
        wide = torch.promote_types(self.lambda_q1.dtype, torch.float32)
        first, second = (
            (q_K.to(wide) * k_K.to(wide)).sum().exp()
            for q_K, k_K in ((self.lambda_q1, self.lambda_k1), (self.lambda_q2, self.lambda_k2))
        )
        return first - second + self.lambda_init

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, lambda_init={self.lambda_init:.4f}"


def build_differential(
    d_model: int, n_heads: int, n_layers: int, *, dropout: float = 0.0
) -> AttentionStack:
    """The attentions of a stack of n_layers blocks, each with its own lambda_0.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H as of multi-head attention, even, at least 2.
        n_layers: number of layers, at least 0.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).

    Raises:
        ValueError: n_heads is odd, or another size is not valid.
    """
    layers = [
        DifferentialAttention(d_model, n_heads, layer_index=index, dropout=dropout)
        for index in range(n_layers)
    ]
    return AttentionStack(layers=layers, shared=None)
