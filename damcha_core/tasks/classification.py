"""Image classification with a vision Transformer."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from damcha_core.data.labelled_dataset import LabelledDataset
from damcha_core.models.vision_transformer import VisionTransformer
from damcha_core.tasks.image_task import ImageTask
from damcha_core.tasks.task import Batch, LossSum


class ClassificationTask(ImageTask):
    """Cross-entropy over the classes, with train.label_smoothing in training."""

    needs_classes = True

    def build_model(self) -> nn.Module:
        """A fresh VisionTransformer."""
        return VisionTransformer(
            self.facts.image_size,
            patch_size=self.config.model.patch_size,
            channels=self.facts.channels,
            n_classes=len(self.facts.class_names),
            transformer=self.build_transformer(),
        )

    def dataset(self, split: str, *, training: bool) -> LabelledDataset:
        """Pictures with their class: "images", "labels", "ids"."""
        return LabelledDataset(
            self.split(split),
            seed=self.config.run.seed,
            training=training,
            augment=self.data.augment if training else None,
        )

    def items(self, batch: Batch) -> int:
        """Pictures."""
        return len(batch["labels"])

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """Sum of the cross-entropies in nats."""
        total = F.cross_entropy(
            model(batch["images"]),
            batch["labels"],
            reduction="sum",
            label_smoothing=self.config.train.label_smoothing,
        )
        return LossSum(total, self.items(batch))
