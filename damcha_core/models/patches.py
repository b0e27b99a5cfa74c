"""Cutting pictures into patches and putting them together again.

Shape suffixes: B batch, C channels, S picture side, P patches, E numbers a patch
(patch_size * patch_size * C). Patches run row by row; inside a patch the numbers run over
(row, column, channel).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from damcha_core.errors import ShapeError


def patchify(images_BCSS: Tensor, patch_size: int) -> Tensor:
    """Cut square pictures into patches.

    Args:
        images_BCSS: pictures, S a multiple of patch_size.
        patch_size: side of a patch in pixels.

    Returns:
        Patches [B, P, E] with P = (S / patch_size) ** 2.

    Raises:
        ShapeError: the pictures are not square, or not a multiple of patch_size wide.
    """
    batch, channels, height, width = images_BCSS.shape
    if height != width or height % patch_size:
        raise ShapeError(
            f"pictures are {height} x {width}; patches of {patch_size} need a square picture "
            f"whose side is a multiple of {patch_size}"
        )
    grid = height // patch_size
    cells = images_BCSS.reshape(batch, channels, grid, patch_size, grid, patch_size)
    return cells.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def unpatchify(patches_BPE: Tensor, patch_size: int, channels: int) -> Tensor:
    """Put patches together; the inverse of patchify.

    Args:
        patches_BPE: patches, P a square number.
        patch_size: side of a patch in pixels.
        channels: colour channels C of the picture.

    Returns:
        Pictures [B, C, S, S].

    Raises:
        ShapeError: P is no square number, or E is not patch_size ** 2 * channels.
    """
    batch, n_patches, numbers = patches_BPE.shape
    grid = round(n_patches**0.5)
    if grid * grid != n_patches or numbers != patch_size * patch_size * channels:
        raise ShapeError(
            f"{n_patches} patches of {numbers} numbers are no square picture of "
            f"{patch_size} x {patch_size} patches with {channels} channels"
        )
    cells = patches_BPE.reshape(batch, grid, grid, patch_size, patch_size, channels)
    side = grid * patch_size
    return cells.permute(0, 5, 1, 3, 2, 4).reshape(batch, channels, side, side)


class PatchEmbedding(nn.Module):
    """Tokens from pictures: patches, scaled to [-1, 1], through one linear map, plus positions.

    Args:
        image_size: side S of the pictures in pixels.
        patch_size: side of a patch in pixels; it divides image_size.
        channels: colour channels C.
        d_model: width D of the tokens.

    Raises:
        ShapeError: patch_size does not divide image_size.
    """

    def __init__(self, image_size: int, *, patch_size: int, channels: int, d_model: int) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ShapeError(f"patch_size {patch_size} does not divide image_size {image_size}")
        self.patch_size = patch_size
        self.n_patches = (image_size // patch_size) ** 2
        self.projection = nn.Linear(patch_size * patch_size * channels, d_model)
        # std 0.02 as in the ViT paper's released code: small beside a normalised token.
        self.position = nn.Parameter(torch.empty(1, self.n_patches, d_model))
        nn.init.normal_(self.position, std=0.02)

    def undecayed_parameters(self) -> set[str]:
        """Names of own parameters that weight decay leaves alone."""
        return {"position"}

    def project(self, images_BCSS: Tensor) -> Tensor:
        """Patch tokens [B, P, D] without positions, from pictures in [0, 1]."""
        return self.projection(patchify(images_BCSS, self.patch_size) * 2.0 - 1.0)

    def forward(self, images_BCSS: Tensor) -> Tensor:
        """Patch tokens [B, P, D] with positions, from pictures in [0, 1]."""
        return self.project(images_BCSS) + self.position
