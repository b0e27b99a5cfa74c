"""The built-in data set: 1,797 scanned handwritten digits, 8 x 8 pixels in 17 shades of grey.

Source: Optical Recognition of Handwritten Digits, UCI, 1998
(https://doi.org/10.24432/C50P49), CC BY 4.0; see LICENSE-digits.txt.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from damcha_core.data.augment import Augment
from damcha_core.data.image_data import ImageData, ImageSplit
from damcha_core.data.notify import Notify, no_notice
from damcha_core.errors import DataError

IMAGE_SIZE = 8
PEAK = 16


def load_digits(
    *,
    root: str | Path = "",
    image_size: int = IMAGE_SIZE,
    verify: bool = True,
    classes: bool = False,
    notify: Notify = no_notice,
) -> ImageData:
    """The digits in their fixed split: 1,297 train, 250 valid, 250 test.

    All image loaders take the same arguments; those without a meaning here are not used.

    Args:
        root: not used, the pictures are part of the package.
        image_size: must be 8, the side of the scans.
        verify: not used.
        classes: for classification: training pictures may be shifted by a pixel (never mirrored,
            a mirrored digit is no digit). For reconstruction they stay as they are.
        notify: not used.

    Raises:
        DataError: image_size is not 8.
    """
    if image_size != IMAGE_SIZE:
        raise DataError(f"the digits are 8 x 8 pixels: set data.image_size = 8, not {image_size}")
    resource = files("damcha_core.data").joinpath("digits.npz")
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images = torch.from_numpy(arrays["images"])[:, None]
        labels = torch.from_numpy(arrays["labels"].astype(np.int64))
        split = torch.from_numpy(arrays["split"])

    def part(number: int) -> ImageSplit:
        return ImageSplit(images[split == number], labels[split == number], peak=PEAK)

    return ImageData(
        train=part(0),
        valid=part(1),
        test=part(2),
        class_names=tuple("0123456789"),
        augment=Augment(max_shift=1 if classes else 0, padding="constant"),
    )
