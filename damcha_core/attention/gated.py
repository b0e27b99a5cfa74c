"""Gated attention (NeurIPS 2025, arXiv:2505.06708).

"Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free".

Shapes: B batch, N tokens, D width, H heads, K head width, M queries; X is 1 or K.
"""

from __future__ import annotations

import torch
from torch import Tensor

from damcha_core.attention.cache import AttentionCache, KeyValueCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer, merge_heads
from damcha_core.attention.masking import masked_attention
from damcha_core.attention.projections import input_projection, output_projection
from damcha_core.attention.stack import AttentionStack

GATES = ("headwise", "elementwise")


class GatedAttention(AttentionLayer):
    """Multi-head attention whose head outputs pass a sigmoid gate.

    out = concat_i(sigmoid(x G_i) * p_i V_i) W_O without biases, p_i as in multi-head attention.
    The gates read the tokens that the queries read and start as the queries do, because published
    code makes both in one projection. Normalised queries and keys are another matter and are off.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        gate: "headwise" for one gate a head of a token, "elementwise" for one a feature.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).

    Raises:
        ValueError: the gate is neither, or a size is not valid.
    """

    cache_class = KeyValueCache

    def __init__(
        self, d_model: int, n_heads: int, *, gate: str = "headwise", dropout: float = 0.0
    ) -> None:
        super().__init__(d_model, n_heads, dropout=dropout)
        if gate not in GATES:
            raise ValueError(f"gate must be one of {', '.join(GATES)}, got {gate!r}")
        self.gate_name = gate
        n_gates = n_heads if gate == "headwise" else d_model
        self.qkv = input_projection(d_model, n_parts=3, bias=False)
        self.gate = input_projection(d_model, n_parts=1, width=n_gates, bias=False)
        self.out = output_projection(d_model, bias=False)

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
        heads_BHMK = masked_attention(
            q_BHMK,
            k_BHNK,
            v_BHNK,
            key_mask=key_mask,
            is_causal=is_causal,
            dropout=self.dropout if self.training else 0.0,
        )
        # (B, M, H) or (B, M, D): both are H heads side by side, of width 1 or K.
        gates_BMHX = torch.sigmoid(self.gate(x_BND)).unflatten(-1, (self.n_heads, -1))
        out_BMD: Tensor = self.out(merge_heads(heads_BHMK * gates_BMHX.transpose(1, 2)))
        return out_BMD

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gate={self.gate_name}"


def build_gated(
    d_model: int, n_heads: int, n_layers: int, *, dropout: float = 0.0, gate: str = "headwise"
) -> AttentionStack:
    """The attentions of a stack of n_layers blocks; they share nothing.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        n_layers: number of layers, at least 0.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
        gate: "headwise" for one gate a head of a token, "elementwise" for one a feature.

    Raises:
        ValueError: the gate is neither, or a size is not valid.
    """
    layers = [GatedAttention(d_model, n_heads, gate=gate, dropout=dropout) for _ in range(n_layers)]
    return AttentionStack(layers=layers, shared=None)
