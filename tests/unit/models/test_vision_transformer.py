"""The vision Transformer: shapes, and that every pixel counts."""

from __future__ import annotations

import pytest
import torch

from damcha_core import TransformerPC, VisionTransformer
from damcha_core.errors import ShapeError


def build(name: str = "damcha", channels: int = 3) -> VisionTransformer:
    stack = TransformerPC(15, 5, 20, 2, attention=name, mlp_hidden=(7, 11), is_causal=False)
    return VisionTransformer(6, patch_size=2, channels=channels, n_classes=11, transformer=stack)


@pytest.mark.parametrize("name", ["damcha", "mha"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_become_one_score_a_class(name, channels) -> None:
    assert build(name, channels)(torch.rand(7, channels, 6, 6)).shape == (7, 11)


def test_every_patch_moves_the_scores_of_its_own_picture_alone(redraw) -> None:
    model, images = redraw(build()), torch.rand(2, 3, 6, 6)
    out = model(images)
    for row in range(0, 6, 2):
        for column in range(0, 6, 2):
            other = images.clone()
            other[0, :, row : row + 2, column : column + 2] = torch.rand(3, 2, 2)
            moved = model(other)
            assert (moved[0] != out[0]).all()
            assert torch.equal(moved[1], out[1])


def test_patches_have_places(redraw) -> None:
    model, images = redraw(build()), torch.rand(1, 3, 6, 6)
    assert not torch.allclose(model(images), model(images.flip(-1)))


def test_there_is_no_class_token_but_a_mean_over_patches() -> None:
    model, images = build(), torch.rand(2, 3, 6, 6)
    tokens = model.transformer(model.embedding(images))
    assert tokens.shape == (2, 9, 15)
    torch.testing.assert_close(model(images), model.head(tokens.mean(1)))


def test_pictures_of_another_size_are_refused() -> None:
    with pytest.raises(ShapeError, match="4 x 6"):
        build()(torch.rand(2, 3, 4, 6))
