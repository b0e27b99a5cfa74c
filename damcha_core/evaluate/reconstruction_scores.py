"""Metrics of masked reconstruction over a split.

`masked_mse` and `masked_mean_absolute_error` are pooled over all hidden values of the split (a
value is one channel of one pixel) with the prediction as the model gave it. The other three clip
the prediction to [0, 1] and are means over pictures: `masked_psnr` from the error of a picture's
hidden values, `psnr` and `ssim` from the composite, which is the original with the hidden
patches replaced by the prediction. Pictures are in [0, 1], errors in those units, PSNR in dB.

Legend: B batch, C channels, P patches, S image side.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from damcha_core.errors import NonFiniteError, ShapeError
from damcha_core.evaluate.image_quality import (
    PSNR_CAP_DB,
    check_pair,
    psnr_of_mse,
    psnr_per_image,
    ssim_per_image,
    ssim_window,
)
from damcha_core.evaluate.picture_sums import as_float64, picture_sums
from damcha_core.evaluate.sample_scores import SampleScores, Score, Value


def hidden_pixels(hidden_BP: Tensor, patch_size: int, side: int) -> Tensor:
    """Spread a mask of patches over their pixels; patches are numbered row by row.

    Args:
        hidden_BP: bool, True where the patch is hidden.
        patch_size: patch side in pixels.
        side: picture side in pixels.

    Returns:
        (B, 1, S, S) bool, True where the pixel is hidden.

    Raises:
        TypeError: the mask is not bool.
        ShapeError: the patches do not tile a picture of that side.
    """
    if hidden_BP.dtype != torch.bool:
        raise TypeError(f"The mask of hidden patches must be bool, not {hidden_BP.dtype}.")
    grid = side // patch_size
    if side % patch_size or hidden_BP.ndim != 2 or hidden_BP.shape[1] != grid**2:
        raise ShapeError(
            f"A mask of shape {tuple(hidden_BP.shape)} does not fit pictures of side {side} "
            f"cut into patches of side {patch_size}."
        )
    pixels = hidden_BP.view(-1, 1, grid, grid)
    return pixels.repeat_interleave(patch_size, dim=2).repeat_interleave(patch_size, dim=3)


class ReconstructionScores:
    """Collects the scores of a split, batch by batch.

    Every value is computed for one picture alone and kept by its id, so neither the batch size
    nor the order of the pictures changes a bit of the result.

    Args:
        patch_size: patch side in pixels.
    """

    def __init__(self, patch_size: int) -> None:
        self._patch_size = patch_size
        self._side = 0
        self._table = SampleScores(
            ("squared_sum", "absolute_sum", "n_hidden", "masked_psnr", "psnr", "ssim")
        )

    def update(
        self, ids: Sequence[int], images_BCSS: Tensor, predicted_BCSS: Tensor, hidden_BP: Tensor
    ) -> None:
        """Score a batch of pictures.

        Args:
            ids: the pictures' ids in the split.
            images_BCSS: originals in [0, 1].
            predicted_BCSS: predictions in the same units, unclipped; only hidden patches count.
            hidden_BP: bool, True where the patch is hidden.

        Raises:
            ShapeError: ids, pictures, predictions and mask do not fit each other.
            TypeError: pictures of integers, or a mask that is not bool.
            ValueError: an original outside [0, 1], or a picture that was scored before.
            NonFiniteError: a prediction that is NaN or infinite, or whose error overflows.
        """
        hidden_B1SS = self._checked_pixels(ids, images_BCSS, predicted_BCSS, hidden_BP)
        images_BCSS = as_float64(images_BCSS)
        if not bool(((images_BCSS >= 0) & (images_BCSS <= 1)).all()):
            raise ValueError("Pictures to be scored must be in [0, 1].")
        # Visible pixels carry the original from here on, whatever was predicted for them.
        merged_BCSS = torch.where(hidden_B1SS, as_float64(predicted_BCSS), images_BCSS)
        error_BCSS = merged_BCSS - images_BCSS
        squared = picture_sums(error_BCSS * error_BCSS)
        absolute = picture_sums(error_BCSS.abs())
        self._refuse_non_finite(ids, squared)
        composite_BCSS = merged_BCSS.clamp(0.0, 1.0)
        clipped = picture_sums((composite_BCSS - images_BCSS).square()).tolist()
        per_patch = self._patch_size**2 * images_BCSS.shape[1]
        n_hidden = [int(count) * per_patch for count in hidden_BP.sum(dim=1).tolist()]
        masked_psnr: list[Value] = [
            psnr_of_mse(error / count) if count else None
            for error, count in zip(clipped, n_hidden, strict=True)
        ]
        self._table.add(
            ids,
            {
                "squared_sum": squared.tolist(),
                "absolute_sum": absolute.tolist(),
                "n_hidden": n_hidden,
                "masked_psnr": masked_psnr,
                "psnr": psnr_per_image(images_BCSS, composite_BCSS).tolist(),
                "ssim": ssim_per_image(images_BCSS, composite_BCSS).tolist(),
            },
        )

    def compute(self) -> dict[str, Score]:
        """Metrics of everything scored so far.

        Returns:
            `masked_mse` and `masked_mean_absolute_error` with n the hidden values pooled;
            `masked_psnr` with n the pictures that have something hidden; `psnr` and `ssim` with
            n all pictures. A value is None where its n is 0.
        """
        return {
            "masked_mse": self._table.pooled("squared_sum", "n_hidden"),
            "masked_mean_absolute_error": self._table.pooled("absolute_sum", "n_hidden"),
            "masked_psnr": self._table.mean("masked_psnr"),
            "psnr": self._table.mean("psnr"),
            "ssim": self._table.mean("ssim"),
        }

    def ids(self) -> list[int]:
        """Ids scored so far, ascending: the order of `per_image`."""
        return self._table.ids()

    def per_image(self) -> dict[str, list[Value]]:
        """The five metrics of every picture by itself, in the order of `ids`.

        Returns:
            For each name of `compute` one value a picture, None where it has nothing hidden.
        """
        counts = self._table.column("n_hidden")

        def means(name: str) -> list[Value]:
            pairs = zip(self._table.column(name), counts, strict=True)
            return [
                total / count if total is not None and count else None for total, count in pairs
            ]

        return {
            "masked_mse": means("squared_sum"),
            "masked_mean_absolute_error": means("absolute_sum"),
            "masked_psnr": self._table.column("masked_psnr"),
            "psnr": self._table.column("psnr"),
            "ssim": self._table.column("ssim"),
        }

    def sums(self) -> dict[str, list[Value]]:
        """What the pooled metrics are made of, picture by picture, in the order of `ids`.

        Returns:
            Sums of squared and of absolute errors over the hidden values of a picture, and how
            many these are.
        """
        return {
            "masked_squared_error": self._table.column("squared_sum"),
            "masked_absolute_error": self._table.column("absolute_sum"),
            "hidden_values": self._table.column("n_hidden"),
        }

    @property
    def n_identical(self) -> int:
        """Pictures whose `psnr` is the cap: the composite is the original, or within 1e-10."""
        return sum(value == PSNR_CAP_DB for value in self._table.column("psnr"))

    @property
    def window(self) -> int:
        """Side of the SSIM window in pixels, 0 before the first batch."""
        return ssim_window(self._side) if self._side else 0

    def _checked_pixels(
        self, ids: Sequence[int], images_BCSS: Tensor, predicted_BCSS: Tensor, hidden_BP: Tensor
    ) -> Tensor:
        """Check that the parts of a batch fit, and give the hidden pixels on the CPU."""
        check_pair(images_BCSS, predicted_BCSS)
        n_pictures, _, height, width = images_BCSS.shape
        if height != width or (self._side and height != self._side):
            wanted = f"of side {self._side}" if self._side else "square"
            raise ShapeError(f"Pictures must all be {wanted}, not {height} x {width}.")
        if not len(ids) == n_pictures == len(hidden_BP):
            raise ShapeError(
                f"{len(ids)} ids, {n_pictures} pictures and {len(hidden_BP)} masks do not match."
            )
        pixels = hidden_pixels(hidden_BP.cpu(), self._patch_size, height)
        self._side = height
        return pixels

    @staticmethod
    def _refuse_non_finite(ids: Sequence[int], squared: Tensor) -> None:
        """Name the first picture whose prediction is not a usable number."""
        bad = (~torch.isfinite(squared)).nonzero()
        if len(bad):
            raise NonFiniteError(
                f"The prediction for picture {ids[int(bad[0])]} is not a finite number "
                f"({len(bad)} of {len(ids)} pictures of this batch); the model cannot be scored."
            )
