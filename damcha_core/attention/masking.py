"""Softmax attention under the masks of the contract, on torch's fused kernels.

Shapes: B batch, H heads, M queries, N keys, K head width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def masked_attention(
    q_BHMK: Tensor,
    k_BHNK: Tensor,
    v_BHNK: Tensor,
    *,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q k^T / sqrt(K)) v over the keys each query may see.

    What torch's kernels return for a row without any allowed key, NaN, zeros or a NaN gradient,
    differs between versions and devices. So such a row is opened here and its output replaced by
    zeros, which also stops its gradient.

    Args:
        q_BHMK: queries; those of the last M tokens where there are fewer than keys.
        k_BHNK: keys; finite, also where masked.
        v_BHNK: values; finite, also where masked.
        key_mask: bool (B, N), True = real token. None: every token is real.
        is_causal: True lets the query of token t see the keys s <= t alone.
        dropout: probability with which a weight is dropped; 0 outside training.

    Returns:
        Tensor (B, H, M, K); zeros for a query that may see no key.
    """
    n_queries, n_keys = q_BHMK.shape[2], k_BHNK.shape[2]
    if key_mask is None and (not is_causal or n_queries in (1, n_keys)):
        # One query is that of the last token, which sees every key.
        return functional.scaled_dot_product_attention(
            q_BHMK, k_BHNK, v_BHNK, dropout_p=dropout, is_causal=is_causal and n_queries == n_keys
        )
    if key_mask is None:
        return functional.scaled_dot_product_attention(
            q_BHMK,
            k_BHNK,
            v_BHNK,
            attn_mask=earlier_keys(n_queries, n_keys, q_BHMK.device),
            dropout_p=dropout,
        )
    allowed_B1MN = visible_keys(key_mask, n_queries, is_causal)
    sees_any_B1M1 = allowed_B1MN.any(-1, keepdim=True)
    out_BHMK = functional.scaled_dot_product_attention(
        q_BHMK, k_BHNK, v_BHNK, attn_mask=allowed_B1MN | ~sees_any_B1M1, dropout_p=dropout
    )
    return torch.where(sees_any_B1M1, out_BHMK, out_BHMK.new_zeros(()))


def visible_keys(key_mask: Tensor, n_queries: int, is_causal: bool) -> Tensor:
    """Which keys each query may see: bool (B, 1, M, N), or (B, 1, 1, N) when not causal."""
    allowed_B1MN = key_mask[:, None, None, :]
    if is_causal:
        allowed_B1MN = allowed_B1MN & earlier_keys(n_queries, key_mask.shape[1], key_mask.device)
    return allowed_B1MN


def earlier_keys(n_queries: int, n_keys: int, device: torch.device) -> Tensor:
    """Keys up to and including each query's own: bool (M, N), the queries being the last M."""
    ones_MN = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones_MN.tril(n_keys - n_queries)
