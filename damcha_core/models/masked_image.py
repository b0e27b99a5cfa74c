"""A model that paints hidden patches of a picture from the visible ones.

Shape suffixes: B batch, C channels, S picture side, P patches, E numbers a patch, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from damcha_core.attention.parameter_groups import parameter_groups
from damcha_core.errors import ShapeError
from damcha_core.models.patches import PatchEmbedding
from damcha_core.models.transformer import TransformerPC


class MaskedImageModel(nn.Module):
    """Patch embedding, mask tokens, a Transformer stack and a linear pixel head.

    Mask tokens are real tokens: they attend, are attended to and are pooled.

    Args:
        image_size: side S of the pictures in pixels.
        patch_size: side of a patch in pixels.
        channels: colour channels C.
        transformer: the stack; is_causal=True gives the raster-order variant.
    """

    def __init__(
        self, image_size: int, *, patch_size: int, channels: int, transformer: TransformerPC
    ) -> None:
        super().__init__()
        d_model = transformer.d_model
        self.embedding = PatchEmbedding(
            image_size, patch_size=patch_size, channels=channels, d_model=d_model
        )
        self.mask_token = nn.Parameter(torch.empty(d_model))
        nn.init.normal_(self.mask_token, std=0.02)
        self.transformer = transformer
        self.head = nn.Linear(d_model, patch_size * patch_size * channels)

    def undecayed_parameters(self) -> set[str]:
        """Names of own parameters that weight decay leaves alone."""
        return {"mask_token"}

    def forward(self, images_BCSS: Tensor, hidden_BP: Tensor) -> Tensor:
        """Predict every patch.

        Args:
            images_BCSS: pictures in [0, 1]; what lies under hidden patches is never read.
            hidden_BP: bool, True for a hidden patch.

        Returns:
            Patches [B, P, E] on the scale of [0, 1], not clipped.

        Raises:
            TypeError: hidden is not boolean.
            ShapeError: hidden does not fit the pictures.
        """
        if hidden_BP.dtype != torch.bool:
            raise TypeError(f"hidden must be a bool tensor, not {hidden_BP.dtype}")
        if hidden_BP.shape != (images_BCSS.shape[0], self.embedding.n_patches):
            raise ShapeError(
                f"hidden has shape {tuple(hidden_BP.shape)}; expected "
                f"[{images_BCSS.shape[0]}, {self.embedding.n_patches}]"
            )
        visible_BPD = self.embedding.project(images_BCSS)
        token_BPD = torch.where(hidden_BP[..., None], self.mask_token, visible_BPD)
        token_BPD = self.transformer(token_BPD + self.embedding.position)
        # The head works on [-1, 1] like the embedding; the caller gets [0, 1].
        return (self.head(token_BPD) + 1.0) * 0.5

    def parameter_groups(self, *, lr: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
        """Optimiser groups with each parameter's own learning rate and decay (docs/method.md)."""
        return parameter_groups(self, lr=lr, weight_decay=weight_decay)
