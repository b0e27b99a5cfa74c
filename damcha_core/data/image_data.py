"""What every image data set looks like once it is loaded.

Letters: C channels, S image side, n pictures.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import torch
from torch import Tensor

from damcha_core.data.augment import Augment


@dataclass(frozen=True)
class ImageSplit:
    """Pictures of one split, all in memory.

    Args:
        images: uint8 (n, C, S, S), 0 to peak.
        labels: int64 (n,), class numbers; None where pictures have no class.
        peak: the value that stands for 1.0.
        names: one file name a picture, fit to be printed; None where there are no files.
    """

    images: Tensor
    labels: Tensor | None = None
    peak: int = 255
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        assert self.images.dtype == torch.uint8
        assert self.images.ndim == 4
        assert self.images.shape[2] == self.images.shape[3]
        assert self.labels is None or self.labels.shape == (len(self.images),)
        assert self.names is None or len(self.names) == len(self.images)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def image_size(self) -> int:
        """Side of the pictures in pixels."""
        return self.images.shape[2]

    @property
    def content_hash(self) -> str:
        """sha256 of shape, peak, pictures and labels; the names of files have no part in it."""
        digest = hashlib.sha256(f"{tuple(self.images.shape)} {self.peak}\n".encode())
        digest.update(self.images.contiguous().numpy().data)
        if self.labels is not None:
            digest.update(self.labels.numpy().astype("<i8").data)
        return digest.hexdigest()


@dataclass(frozen=True)
class ImageData:
    """A data set: three splits and what belongs to all of them.

    Args:
        train, valid, test: the splits; none is empty.
        class_names: names of the classes by number; empty where there are none.
        augment: how training pictures may be changed.
        notices: plain lines to show the user, such as skipped files.
    """

    train: ImageSplit
    valid: ImageSplit
    test: ImageSplit
    class_names: tuple[str, ...] = ()
    augment: Augment = field(default_factory=Augment)
    notices: tuple[str, ...] = ()
