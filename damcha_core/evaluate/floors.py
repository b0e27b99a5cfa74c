"""Predictions that need no learning, printed beside every reconstruction score.

- `mean_training_picture`: the mean of the training pictures, whatever the picture.
- `visible_mean`: each channel's mean over the visible pixels of the same picture.
- `harmonic_fill`: hidden pixels solve the discrete Laplace equation. Each equals the mean of its
  neighbours above, below, left and right that lie in the picture (reflecting borders), visible
  pixels hold their values.

The last two are undefined where a picture has no visible pixel; the mean training picture stands
in there. Legend: B batch, C channels, S image side, X systems (one a picture and channel).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from damcha_core.errors import ShapeError
from damcha_core.evaluate.picture_sums import as_float64, halve, picture_sums

Array = npt.NDArray[np.float64]

FLOOR_NAMES = ("mean_training_picture", "visible_mean", "harmonic_fill")

TOLERANCE = 1e-10
"""Norm of the harmonic fill's residual, relative to the right-hand side of its equations."""

# Values of one array held at a time, small enough for the processor's cache.
CHUNK_VALUES = 1 << 15
COUNT_CHUNK = 1024


def mean_picture(images_BCSS: Tensor, peak: int) -> Tensor:
    """Mean of the training pictures, exact up to one rounding and so independent of their order.

    Args:
        images_BCSS: at least one picture of whole numbers, such as uint8.
        peak: the number that means 1.0.

    Returns:
        (C, S, S) float64 in [0, 1].

    Raises:
        ValueError: there is no picture to average.
    """
    if len(images_BCSS) == 0:
        raise ValueError("There is no training picture to take the mean of.")
    total_CSS = torch.zeros(images_BCSS.shape[1:], dtype=torch.int64)
    for chunk_BCSS in torch.split(images_BCSS, COUNT_CHUNK):
        total_CSS += chunk_BCSS.cpu().sum(dim=0, dtype=torch.int64)
    return total_CSS.to(torch.float64) / (peak * len(images_BCSS))


def floor_predictions(
    images_BCSS: Tensor, hidden_B1SS: Tensor, mean_picture_CSS: Tensor
) -> dict[str, Tensor]:
    """The three reference predictions of a batch.

    Args:
        images_BCSS: originals in [0, 1]; the values of hidden pixels change nothing.
        hidden_B1SS: bool, True where the pixel is hidden.
        mean_picture_CSS: mean of the training pictures, in [0, 1].

    Returns:
        For each name of FLOOR_NAMES (B, C, S, S) float64 on the CPU. A picture with nothing
        visible gets the mean training picture under all three.

    Raises:
        ShapeError: pictures, mask and mean picture do not fit each other.
        TypeError: pictures of integers, or a mask that is not bool.
    """
    shape = tuple(images_BCSS.shape)
    if len(shape) != 4 or tuple(hidden_B1SS.shape) != (shape[0], 1, *shape[2:]):
        raise ShapeError(
            f"Pictures {shape} and hidden pixels {tuple(hidden_B1SS.shape)} do not fit: "
            "(batch, channels, side, side) and (batch, 1, side, side)."
        )
    if tuple(mean_picture_CSS.shape) != shape[1:]:
        raise ShapeError(
            f"The mean picture is {tuple(mean_picture_CSS.shape)}, the pictures {shape[1:]}."
        )
    if hidden_B1SS.dtype != torch.bool:
        raise TypeError(f"The mask of hidden pixels must be bool, not {hidden_B1SS.dtype}.")
    hidden_B1SS = hidden_B1SS.cpu()
    images_BCSS = torch.where(hidden_B1SS, 0.0, as_float64(images_BCSS))
    mean_BCSS = as_float64(mean_picture_CSS).expand(shape)
    nothing_B111 = hidden_B1SS.flatten(1).all(dim=1).view(-1, 1, 1, 1)
    means_BC11 = visible_means(images_BCSS, hidden_B1SS)
    fill_BCSS = harmonic_fill(images_BCSS, hidden_B1SS)
    return {
        "mean_training_picture": mean_BCSS.clone(),
        "visible_mean": torch.where(nothing_B111, mean_BCSS, means_BC11.expand(shape)),
        "harmonic_fill": torch.where(nothing_B111, mean_BCSS, fill_BCSS),
    }


def visible_means(images_BCSS: Tensor, hidden_B1SS: Tensor) -> Tensor:
    """Mean of the visible pixels of each channel, 0 where nothing is visible.

    Args:
        images_BCSS: float64.
        hidden_B1SS: bool, True where the pixel is hidden.

    Returns:
        (B, C, 1, 1) float64.
    """
    n_visible_B = (~hidden_B1SS).flatten(1).sum(dim=1).clamp(min=1)
    sums_X = picture_sums(torch.where(hidden_B1SS, 0.0, images_BCSS).flatten(0, 1))
    return sums_X.view(*images_BCSS.shape[:2], 1, 1) / n_visible_B.view(-1, 1, 1, 1)


def harmonic_fill(images_BCSS: Tensor, hidden_B1SS: Tensor) -> Tensor:
    """Pictures whose hidden pixels solve the Laplace equation; see `floor_predictions`.

    Args:
        images_BCSS: float64.
        hidden_B1SS: bool, True where the pixel is hidden.

    Returns:
        (B, C, S, S) float64, visible pixels unchanged; 0 where nothing is visible.
    """
    n_chunk = max(1, CHUNK_VALUES // max(1, images_BCSS[:1].numel()))
    filled_BCSS = torch.where(hidden_B1SS, visible_means(images_BCSS, hidden_B1SS), images_BCSS)
    for start in range(0, len(images_BCSS), n_chunk):
        chunk_BCSS = filled_BCSS[start : start + n_chunk]
        hidden_BCSS = hidden_B1SS[start : start + n_chunk].expand(chunk_BCSS.shape)
        # Systems last: every shift and sum below then runs over long stretches of memory.
        values_SSX = chunk_BCSS.permute(2, 3, 0, 1).flatten(2).contiguous()
        hidden_SSX = hidden_BCSS.permute(2, 3, 0, 1).flatten(2).to(torch.float64)
        relax(values_SSX.numpy(), hidden_SSX.numpy())
        chunk_BCSS.copy_(
            values_SSX.view(*chunk_BCSS.shape[2:], *chunk_BCSS.shape[:2]).permute(2, 3, 0, 1)
        )
    return filled_BCSS


def subtract_neighbours(result_SSX: Array, values_SSX: Array) -> Array:
    """Take the up to four neighbours of each pixel from the result, in place.

    Args:
        result_SSX: changed.
        values_SSX: whose neighbours are taken.

    Returns:
        `result_SSX`.
    """
    result_SSX[1:] -= values_SSX[:-1]
    result_SSX[:-1] -= values_SSX[1:]
    result_SSX[:, 1:] -= values_SSX[:, :-1]
    result_SSX[:, :-1] -= values_SSX[:, 1:]
    return result_SSX


def inner_products(left_SSX: Array, right_SSX: Array, scratch_SSX: Array) -> Array:
    """Sum of the products of each system, by halving as in `picture_sums`.

    Args:
        left_SSX: one factor.
        right_SSX: the other.
        scratch_SSX: overwritten.

    Returns:
        (X).
    """
    np.multiply(left_SSX, right_SSX, out=scratch_SSX)
    return halve(scratch_SSX.reshape(-1, scratch_SSX.shape[-1]))


def relax(values_SSX: Array, hidden_SSX: Array) -> None:
    """Solve the Laplace equation in place by conjugate gradients.

    The unknowns are the hidden pixels, the matrix has the number of neighbours on its diagonal
    and -1 for each hidden neighbour, the right-hand side is the sum of the visible neighbours.
    Each system stops at its own tolerance and is not touched again, so that the others of its
    batch, which may need more steps, do not change it. In NumPy, whose calls on small arrays
    cost a fraction of torch's; every operation rounds elementwise.

    Args:
        values_SSX: visible pixels right and hidden ones a first guess.
        hidden_SSX: 1 where the pixel is hidden and 0 elsewhere.
    """
    # Two arrays for every product of the loop: fresh ones would cost more than the arithmetic.
    image_SSX, scratch_SSX = np.empty_like(values_SSX), np.empty_like(values_SSX)
    nothing_SSX = np.zeros_like(values_SSX)
    degree_SSX = -subtract_neighbours(nothing_SSX.copy(), np.ones_like(values_SSX)) * hidden_SSX
    sides_SSX = subtract_neighbours(nothing_SSX, values_SSX * (1 - hidden_SSX)) * hidden_SSX
    bound_X = TOLERANCE**2 * inner_products(sides_SSX, sides_SSX, scratch_SSX)
    residual_SSX = -subtract_neighbours(values_SSX * degree_SSX, values_SSX) * hidden_SSX
    direction_SSX = residual_SSX.copy()
    square_X = inner_products(residual_SSX, residual_SSX, scratch_SSX)
    running_X = square_X > bound_X
    steps_left = 10 * hidden_SSX.size
    while running_X.any():
        assert steps_left > 0, "conjugate gradients of a positive definite system must converge"
        steps_left -= 1
        np.multiply(direction_SSX, degree_SSX, out=image_SSX)
        subtract_neighbours(image_SSX, direction_SSX)
        image_SSX *= hidden_SSX
        curvature_X = inner_products(direction_SSX, image_SSX, scratch_SSX)
        step_X = quotient(square_X, curvature_X, running_X)
        values_SSX += np.multiply(direction_SSX, step_X, out=scratch_SSX)
        residual_SSX -= np.multiply(image_SSX, step_X, out=image_SSX)
        next_X = inner_products(residual_SSX, residual_SSX, scratch_SSX)
        direction_SSX *= quotient(next_X, square_X, running_X)
        direction_SSX += residual_SSX
        square_X = next_X
        running_X &= next_X > bound_X


def quotient(dividend_X: Array, divisor_X: Array, where_X: npt.NDArray[np.bool_]) -> Array:
    """The quotient where it is wanted and 0 elsewhere."""
    return np.divide(dividend_X, divisor_X, out=np.zeros_like(dividend_X), where=where_X)
