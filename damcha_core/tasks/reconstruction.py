"""Masked image reconstruction: paint the hidden patches from the visible ones."""

from __future__ import annotations

import torch
from torch import nn

from damcha_core.data.reconstruction_dataset import ReconstructionDataset
from damcha_core.models.masked_image import MaskedImageModel
from damcha_core.models.patches import patchify
from damcha_core.tasks.image_task import ImageTask
from damcha_core.tasks.task import Batch, LossSum


class ReconstructionTask(ImageTask):
    """Squared error on the hidden pixels alone, pictures in [0, 1].

    Source: "Masked Autoencoders Are Scalable Vision Learners" (arXiv 2111.06377), section 3.
    """

    def build_model(self) -> nn.Module:
        """A fresh MaskedImageModel."""
        return MaskedImageModel(
            self.facts.image_size,
            patch_size=self.config.model.patch_size,
            channels=self.facts.channels,
            transformer=self.build_transformer(),
        )

    def dataset(self, split: str, *, training: bool) -> ReconstructionDataset:
        """Pictures with a patch mask each: "images", "hidden", "ids"."""
        return ReconstructionDataset(
            self.split(split),
            patch_size=self.config.model.patch_size,
            mask_ratio=self.config.data.mask_ratio,
            seed=self.config.run.seed,
            training=training,
            augment=self.data.augment if training else None,
        )

    def items(self, batch: Batch) -> int:
        """Hidden numbers (pixels times channels)."""
        return int(batch["hidden"].sum()) * self.numbers_per_patch

    @property
    def numbers_per_patch(self) -> int:
        """Pixels times channels of one patch."""
        return self.config.model.patch_size**2 * self.facts.channels

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """Sum of squared errors over the hidden numbers."""
        images_BCSS, hidden_BP = batch["images"], batch["hidden"]
        predicted_BPE = model(images_BCSS, hidden_BP)
        error_BPE = predicted_BPE - patchify(images_BCSS, self.config.model.patch_size)
        hidden_error_BPE = torch.where(hidden_BP[..., None], error_BPE, 0.0)
        return LossSum(hidden_error_BPE.square().sum(), self.items(batch))
