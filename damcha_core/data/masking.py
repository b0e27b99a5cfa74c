"""Which patches of a picture are hidden.

Letters: B batch, P patches.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def hidden_count(n_patches: int, mask_ratio: float) -> int:
    """Number of hidden patches: n_patches * mask_ratio, rounded.

    A ratio above 0 hides at least one patch and a ratio below 1 leaves at least one visible;
    0 hides nothing and 1 hides everything.

    Args:
        n_patches: patches of a picture, at least 1.
        mask_ratio: share to hide, between 0 and 1.

    Raises:
        ValueError: mask_ratio is not a number between 0 and 1.
        ValueError: n_patches is below 1.
        ValueError: there is one patch only, which cannot be both hidden and visible.
    """
    if math.isnan(mask_ratio) or not 0.0 <= mask_ratio <= 1.0:
        raise ValueError(f"mask_ratio must lie between 0 and 1, not {mask_ratio}")
    if n_patches < 1:
        raise ValueError(f"a picture must have at least 1 patch, not {n_patches}")
    if mask_ratio in (0.0, 1.0):
        return int(mask_ratio) * n_patches
    if n_patches == 1:
        raise ValueError(
            f"mask_ratio {mask_ratio} needs at least 2 patches a picture; choose a smaller "
            "patch_size, or mask_ratio 0 or 1"
        )
    return min(max(round(n_patches * mask_ratio), 1), n_patches - 1)


def patch_masks(draws_BP: NDArray[np.uint64], mask_ratio: float) -> Tensor:
    """Masks that hide, in each row, the patches with the smallest draws.

    Args:
        draws_BP: independent 64-bit draws, one a patch.
        mask_ratio: share to hide, between 0 and 1.

    Returns:
        Bool (B, P), True = hidden; every row hides `hidden_count` patches.

    Raises:
        ValueError: as `hidden_count`.
    """
    count = hidden_count(draws_BP.shape[1], mask_ratio)
    hidden_BP = np.zeros(draws_BP.shape, dtype=np.bool_)
    ranked_BP = np.argsort(draws_BP, axis=1, kind="stable")
    np.put_along_axis(hidden_BP, ranked_BP[:, :count], True, axis=1)
    return torch.from_numpy(hidden_BP)


def patch_mask(rng: np.random.Generator, n_patches: int, mask_ratio: float) -> Tensor:
    """Mask of one picture, from the next draws of a generator.

    Returns:
        Bool (P,), True = hidden.

    Raises:
        ValueError: as `hidden_count`.
    """
    hidden_count(n_patches, mask_ratio)
    draws_P: NDArray[np.uint64] = rng.bit_generator.random_raw(n_patches)
    return patch_masks(draws_P[None], mask_ratio)[0]
