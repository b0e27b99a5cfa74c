"""Pictures with hidden patches, for masked reconstruction.

Letters: B batch, P patches, C channels, S image side.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.data import Dataset

from damcha_core.data.augment import Augment
from damcha_core.data.image_batch import image_batch
from damcha_core.data.image_data import ImageSplit
from damcha_core.data.masking import hidden_count, patch_masks
from damcha_core.data.order import SampleKey
from damcha_core.data.randomness import raw_draws


class ReconstructionDataset(Dataset[dict[str, Tensor]]):
    """Batches of pictures and of the patches to hide in them.

    In training a mask depends on (seed, epoch, id), in evaluation on (seed, id), so that every
    evaluation of a run hides the same patches.

    Args:
        split: the pictures.
        patch_size: side of a patch in pixels; divides the image side.
        mask_ratio: share of hidden patches, between 0 and 1 (see `hidden_count`).
        seed: the run's seed.
        training: masks change from epoch to epoch and pictures are augmented.
        augment: how to change training pictures; None: not at all.

    Raises:
        ValueError: patch_size does not divide the image side.
        ValueError: mask_ratio is not possible (see `hidden_count`).
    """

    def __init__(
        self,
        split: ImageSplit,
        *,
        patch_size: int,
        mask_ratio: float,
        seed: int,
        training: bool,
        augment: Augment | None = None,
    ) -> None:
        if patch_size < 1 or split.image_size % patch_size:
            raise ValueError(
                f"patch_size {patch_size} must divide the image side {split.image_size}"
            )
        self.n_patches = (split.image_size // patch_size) ** 2
        self.n_hidden = hidden_count(self.n_patches, mask_ratio)
        self._split = split
        self._mask_ratio = mask_ratio
        self._seed = seed
        self._training = training
        self._augment = augment if training else None

    def __len__(self) -> int:
        return len(self._split)

    def __getitem__(self, key: SampleKey) -> dict[str, Tensor]:
        """The batch of one key; loaders ask for whole batches instead."""
        return self.__getitems__([key])

    def __getitems__(self, keys: Sequence[SampleKey]) -> dict[str, Tensor]:
        """Collated batch of the keys (epoch, id).

        Returns:
            images: float32 (B, C, S, S) between 0 and 1; hidden: bool (B, P), True = hidden,
            patches row by row; ids: int64 (B,).
        """
        images_BCSS = image_batch(self._split, keys, seed=self._seed, augment=self._augment)
        if self._training:
            rows: list[tuple[int, ...]] = [(self._seed, epoch, sample) for epoch, sample in keys]
            draws_BP = raw_draws("training mask", rows, self.n_patches)
        else:
            rows = [(self._seed, sample) for _, sample in keys]
            draws_BP = raw_draws("evaluation mask", rows, self.n_patches)
        ids_B = torch.tensor([sample for _, sample in keys], dtype=torch.int64)
        return {
            "images": images_BCSS,
            "hidden": patch_masks(draws_BP, self._mask_ratio),
            "ids": ids_B,
        }
