"""Random shift and mirroring of training pictures.

Letters: B batch, C channels, S image side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

N_DRAWS = 3
"""Random draws a picture needs: shift down, shift right, mirror."""


@dataclass(frozen=True)
class Augment:
    """How training pictures of a data set may be changed.

    Args:
        max_shift: largest shift in pixels, each way and each direction alike likely; 0 for none.
        flip: mirror left and right in half of the cases.
        padding: what moves in at the border: "reflect" mirrors the picture, "constant" is black.

    Raises:
        ValueError: max_shift is negative.
    """

    max_shift: int = 0
    flip: bool = False
    padding: Literal["reflect", "constant"] = "reflect"

    def __post_init__(self) -> None:
        if self.max_shift < 0:
            raise ValueError(f"max_shift must be at least 0 pixels, not {self.max_shift}")

    @property
    def changes_nothing(self) -> bool:
        """Whether pictures pass unchanged."""
        return self.max_shift == 0 and not self.flip

    def __call__(self, images_BCSS: Tensor, draws_B3: NDArray[np.uint64]) -> Tensor:
        """Shift and mirror each picture as its own draws say.

        Args:
            images_BCSS: pictures of any dtype.
            draws_B3: three raw 64-bit draws a picture.

        Returns:
            New pictures of the same shape and dtype.

        Raises:
            ValueError: max_shift reaches the side of the pictures.
        """
        from torchvision.transforms.v2 import functional  # takes seconds to import

        if self.max_shift:
            images_BCSS = self._shifted(images_BCSS, draws_B3)
        if self.flip:
            flip_B = torch.from_numpy((draws_B3[:, 2] & 1).astype(np.bool_))
            mirrored_BCSS = functional.horizontal_flip(images_BCSS)
            images_BCSS = torch.where(flip_B[:, None, None, None], mirrored_BCSS, images_BCSS)
        return images_BCSS

    def _shifted(self, images_BCSS: Tensor, draws_B3: NDArray[np.uint64]) -> Tensor:
        from torchvision.transforms.v2 import functional

        n_images, _, side, _ = images_BCSS.shape
        if self.max_shift >= side:
            raise ValueError(f"max_shift {self.max_shift} must be below the image side {side}")
        padded = functional.pad(images_BCSS, [self.max_shift], padding_mode=self.padding)
        # Every crop is a view here; the indexing below copies one crop a picture.
        crops = padded.unfold(2, side, 1).unfold(3, side, 1)
        offsets = torch.from_numpy((draws_B3[:, :2] % (2 * self.max_shift + 1)).astype(np.int64))
        shifted: Tensor = crops[torch.arange(n_images), :, offsets[:, 0], offsets[:, 1]]
        return shifted
