"""A picture file of any kind as a square of RGB.

Letters: C channels (3), S image side.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from damcha_core.errors import DataError
from damcha_core.files import printable_name

MAX_PIXELS = 89_478_485
"""Largest picture that is decoded: a quarter GiB of RGB. Larger ones may be decompression bombs."""

# Common still pictures. Left out on purpose: formats that run another program (EPS), that have
# no signature and so take any file (TGA), or that Pillow can only identify.
_FORMATS = (
    *("AVIF", "BMP", "DDS", "DIB", "GIF", "ICNS", "ICO", "IM", "JPEG", "JPEG2000", "MPO", "MSP"),
    *("PCX", "PNG", "PPM", "PSD", "QOI", "SGI", "SUN", "TIFF", "WEBP", "XBM", "XPM"),
)
_ALPHA_MODES = ("LA", "PA", "RGBA", "RGBa", "La")


class PictureError(DataError):
    """A file that cannot be read as a picture.

    Args:
        path: the file.
        reason: why, in a few words.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"{printable_name(path)}: {reason}")
        self.path = path
        self.reason = reason


def open_rgb(path: str | os.PathLike[str], image_size: int) -> Tensor:
    """Read a picture of any mode and make it a square of RGB.

    The rotation in EXIF is applied; of an animation the first frame is taken; transparency is
    laid on white; grey values wider than 8 bits are scaled (see `grey_to_bytes`). The largest
    centred square is resized to image_size with an antialiasing bicubic filter, which is the
    same as resizing the shorter side and cutting out the centre.

    Args:
        path: the file; its name may hold any bytes.
        image_size: side of the result in pixels.

    Returns:
        uint8 (3, S, S).

    Raises:
        PictureError: the file is missing, not a picture, damaged or larger than MAX_PIXELS.
    """
    with quiet_pillow():
        return decode_rgb(path, image_size)


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Silence Pillow's remarks on odd files: what cannot be decoded is reported by name anyway.

    The filter belongs to the process, so it is set around a pool of threads, not inside them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decode_rgb(path: str | os.PathLike[str], image_size: int) -> Tensor:
    """`open_rgb` for callers that hold `quiet_pillow` themselves.

    Raises:
        PictureError: as `open_rgb`.
    """
    try:
        with Image.open(Path(path), formats=_readable_formats()) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise PictureError(
                    path, f"{width} x {height} pixels, more than the {MAX_PIXELS:,} allowed"
                )
            # JPEG can be decoded at a fraction of its size; twice the target keeps it sharp.
            image.draft(image.mode, (2 * image_size, 2 * image_size))
            rgb = _to_rgb(ImageOps.exif_transpose(image))
        square = _centre_square(rgb, image_size)
    except PictureError:
        raise
    # Decoders meet damaged files with almost any exception.
    except Exception as error:
        raise PictureError(path, _reason(path, error)) from error
    return torch.from_numpy(np.array(square)).permute(2, 0, 1).contiguous()


@cache
def _readable_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _reason(path: str | os.PathLike[str], error: Exception) -> str:
    if isinstance(error, Image.DecompressionBombError):
        return f"more than the {MAX_PIXELS:,} pixels allowed"
    if isinstance(error, UnidentifiedImageError):
        return "empty file" if Path(path).stat().st_size == 0 else "not a picture"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be opened ({error.strerror})"
    text = str(error).splitlines()
    return f"damaged picture ({text[0] if text else type(error).__name__})"


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F" or image.mode.startswith("I"):
        return _numbers_to_rgb(image)
    if image.mode not in _ALPHA_MODES and "transparency" not in image.info:
        return image.convert("RGB")
    if image.mode == "La":
        image = image.convert("LA")  # Pillow has no direct way from premultiplied grey
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image.convert("RGBA"))
    return paper.convert("RGB")


def _numbers_to_rgb(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    grey = grey_to_bytes(values, is_16_bit=image.mode.startswith("I;16"))
    key = image.info.get("transparency")
    if isinstance(key, int):
        grey[values == key] = 255
    return Image.fromarray(grey).convert("RGB")


def grey_to_bytes(values: NDArray[np.generic], *, is_16_bit: bool) -> NDArray[np.uint8]:
    """Grey values of any range as bytes, scaled and never clipped.

    Black is 0. White is 65535 in 16-bit pictures; otherwise it is the first of 1 (floating
    point only), 255 and 65535 that no value exceeds. Values outside of all of these ranges are
    stretched from the smallest to the largest.

    Args:
        values: grey values of any real dtype and shape.
        is_16_bit: white is 65535 whatever the values are.

    Raises:
        ValueError: a value is NaN or infinite.
    """
    numbers = values.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError("holds values that are not finite")
    low, high = float(numbers.min()), float(numbers.max())
    whites = [1.0, 255.0, 65535.0] if np.issubdtype(values.dtype, np.floating) else [255.0, 65535.0]
    if is_16_bit:
        whites = [65535.0]
    white = next((white for white in whites if low >= 0 and high <= white), None)
    if white is not None:
        low, high = 0.0, white
    span = high - low or 1.0
    scaled: NDArray[np.uint8] = np.rint((numbers - low) * (255.0 / span)).astype(np.uint8)
    return scaled


def _centre_square(image: Image.Image, image_size: int) -> Image.Image:
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return image.resize(
        (image_size, image_size),
        Image.Resampling.BICUBIC,
        box=(left, top, left + side, top + side),
        reducing_gap=3.0,
    )
