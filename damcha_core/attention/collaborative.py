"""Collaborative attention (2020, arXiv:2006.16362).

"Multi-Head Attention: Collaborate Instead of Concatenate".

Shapes: B batch, N tokens, D width, H heads, K head width, M queries, L = H M, S shared width,
E width inside the kernel.
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
from damcha_core.attention.score_softmax import masked_softmax
from damcha_core.attention.stack import AttentionStack
from damcha_core.catalog.collaborative import kernel_width


class CollaborativeAttention(AttentionLayer):
    """One key and query space for all heads, in which each head weighs the features.

    s_i(t, s) = (sum_c a_i[c] q_t[c] k_s[c] + w_i . x_s) / sqrt(S/H), with q and k linear in x
    without biases, of width S; values and output are those of multi-head attention. Head i starts
    with weight 1 on its own S/H features and 0 elsewhere, and with w_i = 0, so that a fresh layer
    with S = D is multi-head attention. Weights and content biases are not decayed, as a static
    metric and a bias are not.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        shared_dim: width S of the shared space, at least 1; 0: D. It need not be a multiple of H.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).

    Raises:
        ValueError: a size is not valid.
    """

    cache_class = KeyValueCache

    def __init__(
        self, d_model: int, n_heads: int, *, shared_dim: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__(d_model, n_heads, dropout=dropout)
        if shared_dim < 0:
            raise ValueError(f"shared_dim must be at least 1, or 0 for d_model, got {shared_dim}")
        self.shared_dim = shared_dim or d_model
        self.query = input_projection(d_model, n_parts=1, width=self.shared_dim, bias=False)
        self.key = input_projection(d_model, n_parts=1, width=self.shared_dim, bias=False)
        self.value = input_projection(d_model, n_parts=1)
        self.mixing_HS = nn.Parameter(block_indicator(n_heads, self.shared_dim))
        self.content_bias_HD = nn.Parameter(torch.zeros(n_heads, d_model))
        self.out = output_projection(d_model)

    def undecayed_parameters(self) -> tuple[str, ...]:
        """The heads' weights of the features, and the content biases."""
        return ("mixing_HS", "content_bias_HD")

    def attend(
        self,
        x_BND: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
        carry: Carry | None,
        cache: AttentionCache | None,
    ) -> Tensor:
        q_B1MS, k_B1NS = self.query(x_BND).unsqueeze(1), self.key(x_BND).unsqueeze(1)
        v_BHNK = self.split_heads(self.value(x_BND))
        bias_BHN1 = functional.linear(x_BND, self.content_bias_HD).mT.unsqueeze(-1)
        if isinstance(cache, KeyValueCache):
            kept_BHNE = torch.cat([v_BHNK, bias_BHN1], -1)
            k_B1NS, kept_BHNE, key_mask = cache.append(k_B1NS, kept_BHNE, key_mask)
            v_BHNK, bias_BHN1 = kept_BHNE.split([self.d_head, 1], -1)
        if q_B1MS.shape[2] < k_B1NS.shape[2]:
            heads_BHMK = self.step(q_B1MS, k_B1NS, v_BHNK, bias_BHN1, key_mask)
        else:
            heads_BHME = masked_attention(
                *self.kernel_inputs(q_B1MS, k_B1NS, v_BHNK, bias_BHN1),
                key_mask=key_mask,
                is_causal=is_causal,
                dropout=self.dropout if self.training else 0.0,
            )
            heads_BHMK = heads_BHME[..., : self.d_head]
        out_BMD: Tensor = self.out(merge_heads(heads_BHMK))
        return out_BMD

    def kernel_inputs(
        self, q_B1MS: Tensor, k_B1NS: Tensor, v_BHNK: Tensor, bias_BHN1: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one width E for the fused kernel.

        The content bias of a key is one more feature of it, which every query meets with 1. Zeros
        fill up to E: kernels want one width for all three and fall back to explicit scores
        otherwise.
        """
        width = kernel_width(self.shared_dim, self.d_head)
        # masked_attention divides by sqrt(E); the formula by sqrt(S/H).
        scale = math.sqrt(width * self.n_heads / self.shared_dim)
        mixed_BHMS = (q_B1MS * (self.mixing_HS * scale)[:, None, :]).to(q_B1MS.dtype)
        q_BHME = functional.pad(mixed_BHMS, (0, 1), value=1.0)
        k_BHNS = k_B1NS.expand(-1, self.n_heads, -1, -1)
        k_BHNE = torch.cat([k_BHNS, (bias_BHN1 * scale).to(k_BHNS.dtype)], -1)
        q_BHME, k_BHNE, v_BHNE = (
            functional.pad(part, (0, width - part.shape[-1])) for part in (q_BHME, k_BHNE, v_BHNK)
        )
        return q_BHME, k_BHNE, v_BHNE

    def step(
        self,
        q_B1MS: Tensor,
        k_B1NS: Tensor,
        v_BHNK: Tensor,
        bias_BHN1: Tensor,
        key_mask: Tensor | None,
    ) -> Tensor:
        """Head outputs (B, H, M, K) of the last M tokens, from the kept keys as they are.

        The kernel would need a copy of every kept key for each head, at every step.
        """
        mixed_BHMS = q_B1MS * self.mixing_HS[:, None, :].to(q_B1MS.dtype)
        scores_BLN = mixed_BHMS.flatten(1, 2) @ k_B1NS.squeeze(1).mT
        scores_BHMN = scores_BLN.unflatten(1, mixed_BHMS.shape[1:3]) + bias_BHN1.mT
        scores_BHMN = scores_BHMN / math.sqrt(self.shared_dim / self.n_heads)
        weights_BHMN = masked_softmax(scores_BHMN, key_mask=key_mask, is_causal=True)
        return weights_BHMN.to(v_BHNK.dtype) @ v_BHNK

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, shared_dim={self.shared_dim}"


def block_indicator(n_heads: int, shared_dim: int) -> Tensor:
    """1 where feature c of the shared space belongs to head i, floor(c H / S) = i, 0 elsewhere."""
    owner_S = torch.arange(shared_dim) * n_heads // shared_dim
    return (owner_S == torch.arange(n_heads)[:, None]).to(torch.get_default_dtype())


def build_collaborative(
    d_model: int, n_heads: int, n_layers: int, *, dropout: float = 0.0, shared_dim: int = 0
) -> AttentionStack:
    """The attentions of a stack of n_layers blocks; they share nothing.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        n_layers: number of layers, at least 0.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
        shared_dim: width S of the key and query space of all heads; 0: D.

    Raises:
        ValueError: a size is not valid.
    """
    layers = [
        CollaborativeAttention(d_model, n_heads, shared_dim=shared_dim, dropout=dropout)
        for _ in range(n_layers)
    ]
    return AttentionStack(layers=layers, shared=None)
