"""Cutting pictures into patches: order of the numbers, inverse, refusals."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from damcha_core.errors import ShapeError
from damcha_core.models.patches import PatchEmbedding, patchify, unpatchify


@given(
    batch=st.integers(0, 3),
    channels=st.integers(1, 4),
    patch=st.integers(1, 5),
    grid=st.integers(1, 4),
)
def test_unpatchify_undoes_patchify(batch, channels, patch, grid) -> None:
    images = torch.rand(batch, channels, patch * grid, patch * grid)
    patches = patchify(images, patch)
    assert patches.shape == (batch, grid * grid, patch * patch * channels)
    assert torch.equal(unpatchify(patches, patch, channels), images)


def test_patches_run_row_by_row_and_numbers_over_row_column_channel() -> None:
    # The value of a pixel names it: 100 * channel + 10 * row + column.
    channel, row, column = torch.meshgrid(*map(torch.arange, (2, 4, 4)), indexing="ij")
    patches = patchify((100 * channel + 10 * row + column)[None], 2)
    assert patches[0].tolist() == [
        [0, 100, 1, 101, 10, 110, 11, 111],
        [2, 102, 3, 103, 12, 112, 13, 113],
        [20, 120, 21, 121, 30, 130, 31, 131],
        [22, 122, 23, 123, 32, 132, 33, 133],
    ]


@pytest.mark.parametrize(("height", "width"), [(6, 8), (8, 6), (7, 7)])
def test_pictures_that_do_not_tile_are_refused(height, width) -> None:
    with pytest.raises(ShapeError, match=f"{height} x {width}.*multiple of 2"):
        patchify(torch.zeros(1, 3, height, width), 2)


@pytest.mark.parametrize(("n_patches", "numbers"), [(8, 12), (9, 11), (9, 24)])
def test_patches_of_no_picture_are_refused(n_patches, numbers) -> None:
    with pytest.raises(ShapeError, match=f"{n_patches} patches of {numbers} numbers"):
        unpatchify(torch.zeros(1, n_patches, numbers), 2, 3)


def test_an_embedding_scales_to_both_sides_of_zero_and_adds_places() -> None:
    embedding = PatchEmbedding(6, patch_size=2, channels=3, d_model=7)
    assert embedding.n_patches == 9
    with torch.no_grad():
        embedding.projection.weight.copy_(torch.eye(7, 12))
        embedding.projection.bias.zero_()
    images = torch.rand(2, 3, 6, 6)
    expected = patchify(images, 2)[..., :7] * 2 - 1
    torch.testing.assert_close(embedding.project(images), expected)
    torch.testing.assert_close(embedding(images), expected + embedding.position)


def test_a_patch_that_does_not_divide_the_picture_is_refused() -> None:
    with pytest.raises(ShapeError, match="patch_size 5 does not divide image_size 32"):
        PatchEmbedding(32, patch_size=5, channels=3, d_model=8)
