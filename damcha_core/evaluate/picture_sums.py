"""Sums over one picture that no other picture of the batch, thread or device can change.

A library reduction may split a row between threads or vector lanes as the batch size suggests,
and the last bits follow. Everything here is made of elementwise float64 operations, each rounded
once, so that a metric is the same bits for every batch size.

Legend: B batch, C channels, S image side, V values of one picture, X sums.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def as_float64(images: Tensor) -> Tensor:
    """Copy of a floating tensor in float64 on the CPU (some accelerators have no float64).

    Args:
        images: any floating dtype, any device.

    Returns:
        The same values without a gradient history.

    Raises:
        TypeError: the tensor holds integers, so its range is unknown.
    """
    if not images.is_floating_point():
        raise TypeError(
            f"Pictures to be scored must be floating point in [0, 1], not {images.dtype}; "
            "divide by the value that means 1.0 first."
        )
    return images.detach().cpu().to(torch.float64)


def picture_sums(values: Tensor) -> Tensor:
    """Sum of each picture.

    Args:
        values: (B, ...) float64.

    Returns:
        (B) float64, with the rounding error of a pairwise sum.
    """
    if values.numel() == 0:
        return values.new_zeros(values.shape[0])
    values_BV = values.reshape(values.shape[0], -1)
    return torch.from_numpy(halve(values_BV.clone().numpy().T))


def halve(values_VX: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sum of each column: the upper half of the rows is added to the lower until one is left.

    Args:
        values_VX: at least one row; overwritten.

    Returns:
        (X).
    """
    n_left = len(values_VX)
    while n_left > 1:
        half = n_left // 2
        values_VX[:half] += values_VX[n_left - half : n_left]
        n_left -= half
    sums_X: npt.NDArray[np.float64] = values_VX[0].copy()
    return sums_X
