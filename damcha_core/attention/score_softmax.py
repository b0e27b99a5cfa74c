"""Softmax over explicit scores under the masks of the contract, for layers that mix heads.

A layer whose heads exchange scores needs them as a tensor, so torch's fused kernels, which never
form one, cannot serve it. Every other layer goes through `masked_attention`.

Shapes: B batch, H heads, M queries, N keys.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from damcha_core.attention.masking import earlier_keys, visible_keys


def masked_softmax(
    scores_BHMN: Tensor, *, key_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Softmax over the keys that each query may see, exactly 0 for the others.

    A row without any allowed key is opened before the softmax, which would divide by zero there,
    and replaced by zeros behind it, which also stops its gradient.

    Args:
        scores_BHMN: scores after everything that mixes heads before the softmax; the queries are
            those of the last M tokens where there are fewer than keys.
        key_mask: bool (B, N), True = real token. None: every token is real.
        is_causal: True lets the query of token t see the keys s <= t alone.

    Returns:
        Tensor (B, H, M, N), float32 or wider; a row sums to 1, or is all zeros where the query
        may see no key.
    """
    n_queries, n_keys = scores_BHMN.shape[2:]
    wide = torch.promote_types(scores_BHMN.dtype, torch.float32)
    if key_mask is None:
        if is_causal and n_queries > 1:
            later_MN = ~earlier_keys(n_queries, n_keys, scores_BHMN.device)
            scores_BHMN = scores_BHMN.masked_fill(later_MN, -math.inf)
        return torch.softmax(scores_BHMN, -1, dtype=wide)
    allowed_B1MN = visible_keys(key_mask, n_queries, is_causal)
    sees_none_B1M1 = ~allowed_B1MN.any(-1, keepdim=True)
    scores_BHMN = scores_BHMN.masked_fill(~(allowed_B1MN | sees_none_B1M1), -math.inf)
    return torch.softmax(scores_BHMN, -1, dtype=wide).masked_fill(sees_none_B1M1, 0.0)
