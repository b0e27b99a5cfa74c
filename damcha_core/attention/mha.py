"""Standard multi-head attention ("Attention Is All You Need", 2017, arXiv:1706.03762).

Shapes: B batch, N tokens, D width, H heads, K head width.
"""

from __future__ import annotations

from torch import Tensor

from damcha_core.attention.cache import AttentionCache, KeyValueCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer, merge_heads
from damcha_core.attention.masking import masked_attention
from damcha_core.attention.projections import input_projection, output_projection
from damcha_core.attention.stack import AttentionStack


class MultiHeadAttention(AttentionLayer):
    """out = concat_i(softmax(Q_i K_i^T / sqrt(K)) V_i) W_O + b_O, with Q, K, V linear in x.

    Parameters, initial values and result are those of torch.nn.MultiheadAttention; the masks are
    those of `AttentionLayer`.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
    """

    cache_class = KeyValueCache

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
        # One chunk a projection, not one array of three: its gradient is put together in one copy.
        q_BHNK, k_BHNK, v_BHNK = map(self.split_heads, self.qkv(x_BND).chunk(3, dim=-1))
        if isinstance(cache, KeyValueCache):
            k_BHNK, v_BHNK, key_mask = cache.append(k_BHNK, v_BHNK, key_mask)
        heads_BHNK = masked_attention(
            q_BHNK,
            k_BHNK,
            v_BHNK,
            key_mask=key_mask,
            is_causal=is_causal,
            dropout=self.dropout if self.training else 0.0,
        )
        out_BND: Tensor = self.out(merge_heads(heads_BHNK))
        return out_BND


def build_mha(d_model: int, n_heads: int, n_layers: int, *, dropout: float = 0.0) -> AttentionStack:
    """The attentions of a stack of n_layers blocks; they share nothing.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        n_layers: number of layers, at least 0.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
    """
    layers = [MultiHeadAttention(d_model, n_heads, dropout=dropout) for _ in range(n_layers)]
    return AttentionStack(layers=layers, shared=None)
