"""Pictures with their class, for classification.

Letters: B batch, C channels, S image side.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.data import Dataset

from damcha_core.data.augment import Augment
from damcha_core.data.image_batch import image_batch
from damcha_core.data.image_data import ImageSplit
from damcha_core.data.order import SampleKey


class LabelledDataset(Dataset[dict[str, Tensor]]):
    """Batches of pictures and class numbers.

    Args:
        split: the pictures; they must have labels.
        seed: the run's seed.
        training: pictures are augmented, as (seed, epoch, id) says.
        augment: how to change training pictures; None: not at all.

    Raises:
        ValueError: the pictures have no labels.
    """

    def __init__(
        self, split: ImageSplit, *, seed: int, training: bool, augment: Augment | None = None
    ) -> None:
        if split.labels is None:
            raise ValueError("classification needs pictures with labels; these have none")
        self._split = split
        self._labels: Tensor = split.labels
        self._seed = seed
        self._augment = augment if training else None

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, key: SampleKey) -> dict[str, Tensor]:
        """The batch of one key; loaders ask for whole batches instead."""
        return self.__getitems__([key])

    def __getitems__(self, keys: Sequence[SampleKey]) -> dict[str, Tensor]:
        """Collated batch of the keys (epoch, id).

        Returns:
            images: float32 (B, C, S, S) between 0 and 1; labels: int64 (B,); ids: int64 (B,).
        """
        ids_B = torch.tensor([sample for _, sample in keys], dtype=torch.int64)
        return {
            "images": image_batch(self._split, keys, seed=self._seed, augment=self._augment),
            "labels": self._labels[ids_B],
            "ids": ids_B,
        }
