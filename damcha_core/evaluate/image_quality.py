"""PSNR and SSIM of picture pairs, one value a picture, in float64.

SSIM follows "Image quality assessment: from error visibility to structural similarity" (IEEE
TIP 13(4), 2004): data range 1, a Gaussian window of 11 and sigma 1.5, population covariance,
windows that lie inside the picture only, each channel on its own. No value of one picture depends
on the others of its batch.

Legend: B batch, C channels, S image side, W window positions a side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from damcha_core.errors import ShapeError
from damcha_core.evaluate.picture_sums import as_float64, picture_sums

PSNR_CAP_DB = 100.0
"""PSNR given to identical pictures, and the most that any pair can have, in dB."""

FULL_WINDOW = 11
SIGMA = 1.5
LUMINANCE_CONSTANT = 0.01**2
CONTRAST_CONSTANT = 0.03**2

# Values of one map held at a time; five maps of it and their blurs are alive together.
CHUNK_VALUES = 1 << 18


def psnr_of_mse(mse: float, cap_db: float = PSNR_CAP_DB) -> float:
    """Peak signal-to-noise ratio 10 log10(1 / mse) of values in [0, 1].

    Args:
        mse: mean squared error, at least 0; NaN gives NaN.
        cap_db: upper bound in dB, which is also the value of mse 0.

    Returns:
        PSNR in dB.
    """
    if mse == 0.0:
        return cap_db
    return min(-10.0 * math.log10(mse), cap_db) if math.isfinite(mse) else -mse


def psnr_per_image(
    reference_BCSS: Tensor, test_BCSS: Tensor, cap_db: float = PSNR_CAP_DB
) -> Tensor:
    """PSNR of each pair from one mean squared error over its pixels and channels.

    Args:
        reference_BCSS: pictures in [0, 1].
        test_BCSS: pictures of the same shape; clip them first where the metric says so.
        cap_db: value of identical pairs, in dB; pairs closer than that get it too, so that an
            identical pair is never beaten. `(result == cap_db).sum()` counts them.

    Returns:
        (B) float64 on the CPU, in dB.

    Raises:
        ShapeError: the two are not pictures of one shape.
        TypeError: one of the two holds integers.
    """
    check_pair(reference_BCSS, test_BCSS)
    difference_BCSS = as_float64(reference_BCSS) - as_float64(test_BCSS)
    n_values = difference_BCSS[0].numel() if len(difference_BCSS) else 1
    squared_B = picture_sums(difference_BCSS * difference_BCSS)
    psnr_B = [psnr_of_mse(squared / n_values, cap_db) for squared in squared_B.tolist()]
    return torch.tensor(psnr_B, dtype=torch.float64)


def ssim_window(side: int) -> int:
    """Side of the SSIM window in pixels: 11, or the largest odd one that fits the picture.

    Args:
        side: picture side in pixels, at least 1 (the shorter one if they differ).

    Returns:
        An odd number from 1 to 11. Sigma stays 1.5 whatever the window.

    Raises:
        ValueError: the side is below 1.
    """
    if side < 1:
        raise ValueError(f"A picture must be at least 1 pixel wide, not {side}.")
    return min(FULL_WINDOW, side - 1 + side % 2)


def gaussian_weights(window: int, sigma: float = SIGMA) -> list[float]:
    """Weights exp(-d^2 / (2 sigma^2)) of one direction, scaled to the sum 1.

    Args:
        window: odd number of weights.
        sigma: standard deviation in pixels.

    Returns:
        `window` weights, the largest in the middle.
    """
    half = window // 2
    heights = [math.exp(-((place - half) ** 2) / (2.0 * sigma**2)) for place in range(window)]
    total = math.fsum(heights)
    return [height / total for height in heights]


def window_means(maps: Tensor, weights: Sequence[float]) -> Tensor:
    """Weighted mean of every window that lies inside the maps, rows first and then columns.

    Args:
        maps: (..., S, S) float64.
        weights: odd number of weights, symmetric, sum 1.

    Returns:
        (..., W, W) with W = S - len(weights) + 1.
    """
    half = len(weights) // 2
    for axis in (-2, -1):
        n_places = maps.shape[axis] - 2 * half
        means = maps.narrow(axis, half, n_places) * weights[half]
        for place in range(half):
            far = 2 * half - place
            pair = maps.narrow(axis, place, n_places) + maps.narrow(axis, far, n_places)
            means += pair.mul_(weights[place])
        maps = means
    return maps


def ssim_map(reference_BCSS: Tensor, test_BCSS: Tensor, weights: Sequence[float]) -> Tensor:
    """Structural similarity of every valid window (equation 13 there), data range 1.

    Args:
        reference_BCSS: float64 in [0, 1].
        test_BCSS: float64, same shape.
        weights: of one direction, see `gaussian_weights`.

    Returns:
        (B, C, W, W), each in [-1, 1].
    """
    mean_r = window_means(reference_BCSS, weights)
    mean_t = window_means(test_BCSS, weights)
    square_r, square_t, product = mean_r * mean_r, mean_t * mean_t, mean_r * mean_t
    variance_r = window_means(reference_BCSS * reference_BCSS, weights) - square_r
    variance_t = window_means(test_BCSS * test_BCSS, weights) - square_t
    covariance = window_means(reference_BCSS * test_BCSS, weights) - product
    numerator = (2 * product + LUMINANCE_CONSTANT) * (2 * covariance + CONTRAST_CONSTANT)
    denominator = (square_r + square_t + LUMINANCE_CONSTANT) * (
        variance_r + variance_t + CONTRAST_CONSTANT
    )
    return numerator / denominator


def ssim_per_channel(reference_BCSS: Tensor, test_BCSS: Tensor) -> Tensor:
    """Mean SSIM over the valid windows of each channel.

    Args:
        reference_BCSS: pictures in [0, 1].
        test_BCSS: pictures of the same shape, clipped to [0, 1] by the caller.

    Returns:
        (B, C) float64 on the CPU, in [-1, 1]; exactly 1 for identical channels.

    Raises:
        ShapeError: the two are not pictures of one shape.
        TypeError: one of the two holds integers.
        ValueError: the pictures have no pixels.
    """
    check_pair(reference_BCSS, test_BCSS)
    n_pictures, n_channels, height, width = reference_BCSS.shape
    weights = gaussian_weights(ssim_window(min(height, width)))
    n_chunk = max(1, CHUNK_VALUES // (n_channels * height * width))
    means_BC = torch.empty(n_pictures, n_channels, dtype=torch.float64)
    for start in range(0, n_pictures, n_chunk):
        chunk = slice(start, start + n_chunk)
        map_BCWW = ssim_map(
            as_float64(reference_BCSS[chunk]), as_float64(test_BCSS[chunk]), weights
        )
        sums = picture_sums(map_BCWW.flatten(0, 1))
        means_BC[chunk] = (sums / map_BCWW[0, 0].numel()).view(-1, n_channels)
    return means_BC


def ssim_per_image(reference_BCSS: Tensor, test_BCSS: Tensor) -> Tensor:
    """Mean over the channels of `ssim_per_channel`, with its arguments and errors.

    Args:
        reference_BCSS: pictures in [0, 1].
        test_BCSS: pictures of the same shape, clipped to [0, 1] by the caller.

    Returns:
        (B) float64 on the CPU, in [-1, 1].
    """
    return picture_sums(ssim_per_channel(reference_BCSS, test_BCSS)) / reference_BCSS.shape[1]


def check_pair(reference_BCSS: Tensor, test_BCSS: Tensor) -> None:
    """Refuse two tensors that are not batches of pictures of one shape.

    Args:
        reference_BCSS: four dimensions.
        test_BCSS: the same shape.

    Raises:
        ShapeError: another number of dimensions, no channel, or two shapes.
    """
    shape, other = tuple(reference_BCSS.shape), tuple(test_BCSS.shape)
    if len(shape) != 4 or shape[1] == 0:
        raise ShapeError(f"Pictures must be (batch, channels, side, side), not {shape}.")
    if shape != other:
        raise ShapeError(f"The two batches of pictures differ in shape: {shape} and {other}.")
