"""Softmax attention under the masks of the contract, on torch's fused kernels.

Shapes: B batch, H heads, N tokens, K head width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def masked_attention(
    q_BHNK: Tensor,
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
        q_BHNK: queries.
        k_BHNK: keys; finite, also where masked.
        v_BHNK: values; finite, also where masked.
        key_mask: bool (B, N), True = real token. None: every token is real.
        is_causal: True lets query t see the keys s <= t alone.
        dropout: probability with which a weight is dropped; 0 outside training.

    Returns:
        Tensor (B, H, N, K); zeros for a query that may see no key.
    """
    if key_mask is None:
        return functional.scaled_dot_product_attention(
            q_BHNK, k_BHNK, v_BHNK, dropout_p=dropout, is_causal=is_causal
        )
    allowed_B1NN = key_mask[:, None, None, :]
    if is_causal:
        n = key_mask.shape[1]
        allowed_B1NN = (
            allowed_B1NN & torch.ones(n, n, dtype=torch.bool, device=q_BHNK.device).tril()
        )
    sees_any_B1N1 = allowed_B1NN.any(-1, keepdim=True)
    out_BHNK = functional.scaled_dot_product_attention(
        q_BHNK, k_BHNK, v_BHNK, attn_mask=allowed_B1NN | ~sees_any_B1N1, dropout_p=dropout
    )
    return torch.where(sees_any_B1N1, out_BHNK, out_BHNK.new_zeros(()))
