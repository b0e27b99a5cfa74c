"""The pictures that a restoration is made of: files a user gives, or the first of a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from damcha_core.data.image_data import ImageSplit
from damcha_core.data.picture import PictureError, open_rgb
from damcha_core.errors import DataError
from damcha_core.files import printable_name


def open_pictures(
    paths: Sequence[Path], *, image_size: int, channels: int
) -> tuple[ImageSplit, tuple[str, ...]]:
    """Picture files as a split of their own.

    Args:
        paths: the files.
        image_size: side they are brought to, in pixels.
        channels: 3 for RGB, 1 for grey.

    Returns:
        The pictures that could be read, named after their files, and a line for each that could
        not.

    Raises:
        DataError: none could be read.
    """
    images, opened, notices = [], [], []
    for path in paths:
        try:
            if _is_folder(path):
                raise PictureError(path, f"a folder; name its pictures, such as {path / '*.png'}")
            image_CSS = open_rgb(path, image_size)
        except PictureError as error:
            notices.append(f"skipped {error}")
            continue
        images.append(to_grey(image_CSS) if channels == 1 else image_CSS)
        opened.append(path)
    if not images:
        raise DataError("no picture could be read:\n" + "\n".join(notices))
    return ImageSplit(torch.stack(images), names=distinct_names(opened)), tuple(notices)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # not to be entered, or overlong: opening it says so
        return False


def to_grey(image_CSS: torch.Tensor) -> torch.Tensor:
    """A grey picture (1, S, S) from an RGB one."""
    from torchvision.transforms.v2 import functional  # takes seconds to import

    grey_1SS: torch.Tensor = functional.rgb_to_grayscale(image_CSS)
    return grey_1SS


def distinct_names(paths: Sequence[Path]) -> tuple[str, ...]:
    """The files' names; the whole path where two files have the same name."""
    seen = Counter(path.name for path in paths)
    return tuple(printable_name(path.name if seen[path.name] == 1 else path) for path in paths)


def first_pictures(split: ImageSplit, count: int, split_name: str) -> ImageSplit:
    """The first pictures of a split, named after their place in it."""
    count = min(count, len(split))
    names = split.names or tuple(f"{split_name} {i}" for i in range(len(split)))
    return ImageSplit(split.images[:count], peak=split.peak, names=names[:count])
