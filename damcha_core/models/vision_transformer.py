"""A vision Transformer that names the class of a picture.

Shape suffixes: B batch, C channels, S picture side, P patches, D width, L classes.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from damcha_core.attention.parameter_groups import parameter_groups
from damcha_core.models.patches import PatchEmbedding
from damcha_core.models.transformer import TransformerPC


class VisionTransformer(nn.Module):
    """Patch embedding, a Transformer stack, the mean over patches and a linear classifier.

    There is no class token ("Better plain ViT baselines for ImageNet-1k", arXiv 2205.01580).

    Args:
        image_size: side S of the pictures in pixels.
        patch_size: side of a patch in pixels.
        channels: colour channels C.
        n_classes: number of classes L.
        transformer: the stack.
    """

    def __init__(
        self,
        image_size: int,
        *,
        patch_size: int,
        channels: int,
        n_classes: int,
        transformer: TransformerPC,
    ) -> None:
        super().__init__()
        self.embedding = PatchEmbedding(
            image_size, patch_size=patch_size, channels=channels, d_model=transformer.d_model
        )
        self.transformer = transformer
        self.head = nn.Linear(transformer.d_model, n_classes)

    def forward(self, images_BCSS: Tensor) -> Tensor:
        """Class scores (logits) [B, L] of pictures in [0, 1]."""
        token_BPD = self.transformer(self.embedding(images_BCSS))
        return self.head(token_BPD.mean(dim=1))

    def parameter_groups(self, *, lr: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
        """Optimiser groups with each parameter's own learning rate and decay (docs/method.md)."""
        return parameter_groups(self, lr=lr, weight_decay=weight_decay)
