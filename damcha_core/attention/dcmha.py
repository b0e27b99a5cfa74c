"""Dynamically composable multi-head attention (ICML 2024, arXiv:2405.08553).

"Improving Transformers with Dynamically Composable Multi-Head Attention".

Shapes: B batch, N tokens, D width, H heads, K head width, M queries, C composition streams,
R rank, S hidden width of a stream (4H).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from damcha_core.attention.cache import AttentionCache, KeyValueCache, TokenBuffer
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer, merge_heads
from damcha_core.attention.projections import input_projection, output_projection
from damcha_core.attention.score_softmax import masked_softmax
from damcha_core.attention.stack import AttentionStack

RANK = 2
STREAMS = 4
"""Scores by query, scores by key, weights by query, weights by key, in this order."""
NORM_EPS = 1e-6
GATE_STD = 0.05


class ComposedCache(KeyValueCache):
    """Keys, values, and how the tokens so far compose the heads as keys (B, N, 2, H, H)."""

    def __init__(self) -> None:
        super().__init__()
        self.compositions = TokenBuffer(axis=1)


class ComposedAttention(AttentionLayer):
    """Heads that mix scores and weights by matrices generated for each query and each key.

    p = softmax(Compose(Q K^T / sqrt(K))), out = concat_i(Compose(p)_i V_i) W_O without biases,
    where Compose(A)[:, t, s] = (I + C_q(x_t) + C_k(x_s)) A[:, t, s] over the heads,
    C(x) = W_2(x)^T W_1(x) + diag(g(x)), W_1 and W_2 of rank 2 from gelu(x dw1) qkw, W_1 normalised
    over the heads, and g = tanh(x dd). The static composition of the paper is off, as in the
    published settings.

    dw1 and qkw start as in both published versions, dd with standard deviation
    0.05 sqrt(2 / (D + H)) as in the one for torch (that for JAX has 0.005). The published code
    has no dropout; here it acts on the composed weights.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        dropout: probability with which a composed weight is dropped in training, in [0, 1).
    """

    cache_class = ComposedCache

    def __init__(self, d_model: int, n_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(d_model, n_heads, dropout=dropout)
        hidden = 4 * n_heads
        self.qkv = input_projection(d_model, n_parts=3, bias=False)
        self.dw1 = nn.Parameter(torch.empty(d_model, STREAMS, hidden))
        self.qkw = nn.Parameter(torch.empty(STREAMS, hidden, 2 * RANK, n_heads))
        self.dd = nn.Parameter(torch.empty(d_model, STREAMS * n_heads))
        self.out = output_projection(d_model, bias=False)
        nn.init.normal_(self.dw1, std=math.sqrt(2.0 / (d_model + hidden)))
        nn.init.normal_(self.qkw, std=0.01 / (math.sqrt(n_heads) * (n_heads + RANK)))
        nn.init.normal_(self.dd, std=GATE_STD * math.sqrt(2.0 / (d_model + n_heads)))

    def attend(
        self,
        x_BND: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
        carry: Carry | None,
        cache: AttentionCache | None,
    ) -> Tensor:
        q_BHMK, k_BHNK, v_BHNK = (self.split_heads(part) for part in self.qkv(x_BND).chunk(3, -1))
        by_token_BNCHH = self.compositions(x_BND)
        by_query_BM2HH, by_key_BN2HH = by_token_BNCHH[:, :, 0::2], by_token_BNCHH[:, :, 1::2]
        if isinstance(cache, ComposedCache):
            k_BHNK, v_BHNK, key_mask = cache.append(k_BHNK, v_BHNK, key_mask)
            by_key_BN2HH = cache.compositions.append(by_key_BN2HH)
        scores_BHMN = q_BHMK / math.sqrt(self.d_head) @ k_BHNK.mT
        scores_BHMN = compose(scores_BHMN, by_query_BM2HH[:, :, 0], by_key_BN2HH[:, :, 0])
        weights_BHMN = masked_softmax(scores_BHMN, key_mask=key_mask, is_causal=is_causal)
        weights_BHMN = weights_BHMN.to(v_BHNK.dtype)
        weights_BHMN = compose(weights_BHMN, by_query_BM2HH[:, :, 1], by_key_BN2HH[:, :, 1])
        weights_BHMN = functional.dropout(weights_BHMN, self.dropout, self.training)
        out_BMD: Tensor = self.out(merge_heads(weights_BHMN @ v_BHNK))
        return out_BMD

    def compositions(self, x_BND: Tensor) -> Tensor:
        """C(x) of every token in every stream, (B, N, C, H, H), its first axis of heads the new."""
        hidden_BNCS = functional.gelu(torch.einsum("bnd,dcs->bncs", x_BND, self.dw1))
        w_BNCRH = torch.einsum("bncs,csrh->bncrh", hidden_BNCS, self.qkw)
        w1_BNCRH, w2_BNCRH = w_BNCRH.split(RANK, dim=3)
        gate_BNCH = torch.tanh(x_BND @ self.dd).unflatten(-1, (STREAMS, self.n_heads))
        # At the start w_1 is as small as eps, so the norm needs more than half precision.
        wide = torch.promote_types(w1_BNCRH.dtype, torch.float32)
        w1_BNCRH = functional.rms_norm(w1_BNCRH.to(wide), (self.n_heads,), eps=NORM_EPS)
        low_rank_BNCHH = w2_BNCRH.mT @ w1_BNCRH.to(w2_BNCRH.dtype)
        return low_rank_BNCHH + torch.diag_embed(gate_BNCH)


def compose(a_BHMN: Tensor, by_query_BMHH: Tensor, by_key_BNHH: Tensor) -> Tensor:
    """A[:, t, s] + (C_q[t] + C_k[s]) A[:, t, s], a grouped product for queries and one for keys."""
    by_query_BHMN = torch.einsum("bmoi,bimn->bomn", by_query_BMHH, a_BHMN)
    by_key_BHMN = torch.einsum("bnoi,bimn->bomn", by_key_BNHH, a_BHMN)
    return a_BHMN + by_query_BHMN + by_key_BHMN


def build_dcmha(
    d_model: int, n_heads: int, n_layers: int, *, dropout: float = 0.0
) -> AttentionStack:
    """The attentions of a stack of n_layers blocks; they share nothing.

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        n_layers: number of layers, at least 0.
        dropout: probability with which a composed weight is dropped in training, in [0, 1).
    """
    layers = [ComposedAttention(d_model, n_heads, dropout=dropout) for _ in range(n_layers)]
    return AttentionStack(layers=layers, shared=None)
