"""The masked image model: hidden patches are never read, and raster order never looks ahead."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from damcha_core import MaskedImageModel, TransformerPC
from damcha_core.errors import ShapeError

SIDE, PATCH, CHANNELS, PATCHES = 6, 2, 3, 9
NAMES = pytest.mark.parametrize("name", ["damcha", "mha", "damcha-unshared"])


def build(name: str, *, is_causal: bool = False) -> MaskedImageModel:
    stack = TransformerPC(15, 5, 20, 2, attention=name, mlp_hidden=(7, 11), is_causal=is_causal)
    return MaskedImageModel(SIDE, patch_size=PATCH, channels=CHANNELS, transformer=stack)


def pictures(n: int = 3) -> Tensor:
    return torch.rand(n, CHANNELS, SIDE, SIDE)


def masks() -> Tensor:
    hidden = torch.zeros(3, PATCHES, dtype=torch.bool)
    hidden[0, [0, 4, 8]] = True
    hidden[1] = True
    return hidden


def repainted(images: Tensor, hidden: Tensor, new: Tensor) -> Tensor:
    """The pictures with something else in the pixels of their hidden patches."""
    grid = hidden.view(-1, 1, SIDE // PATCH, SIDE // PATCH)
    pixels = grid.repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3)
    return torch.where(pixels, new, images)


@NAMES
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("fill", [None, 0.0, 1e30, float("nan")])
def test_what_lies_under_hidden_patches_moves_nothing(name, is_causal, fill, redraw) -> None:
    model, images, hidden = redraw(build(name, is_causal=is_causal)), pictures(), masks()
    new = torch.rand_like(images) if fill is None else torch.full_like(images, fill)
    with torch.no_grad():
        out = model(images, hidden)
        assert out.isfinite().all()
        assert torch.equal(model(repainted(images, hidden, new), hidden), out)


@NAMES
def test_a_visible_patch_and_the_mask_itself_move_every_prediction(name, redraw) -> None:
    model, images, hidden = redraw(build(name)), pictures(1), masks()[:1]
    out = model(images, hidden)
    changed = images.clone()
    changed[:, :, 0:2, 2:4] = torch.rand(1, CHANNELS, 2, 2)  # patch 1, which is visible
    assert (model(changed, hidden) != out).any(-1).all()
    shown = hidden.clone()
    shown[0, 4] = False
    assert (model(images, shown) != out).any(-1).all()


@NAMES
def test_raster_order_leaks_nothing(name, redraw) -> None:
    model, images, hidden = redraw(build(name, is_causal=True)), pictures(), masks()
    with torch.no_grad():
        out = model(images, hidden)
        for t in range(PATCHES):
            later = torch.arange(PATCHES) > t
            other = repainted(images, later.expand(3, -1), torch.rand_like(images))
            flipped = torch.where(later, ~hidden, hidden)
            moved = model(other, flipped)
            assert torch.equal(moved[:, : t + 1], out[:, : t + 1])
            assert (moved != out).any(-1)[:, t + 1 :].all()


def test_predictions_are_patches_on_the_scale_of_the_pictures() -> None:
    model, images, hidden = build("damcha"), pictures(), masks()
    assert model(images, hidden).shape == (3, PATCHES, PATCH * PATCH * CHANNELS)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.zero_()
        # The head works on [-1, 1]: its zero is the middle grey.
        assert torch.equal(
            model(images, hidden), torch.full((3, PATCHES, PATCH * PATCH * CHANNELS), 0.5)
        )


def test_every_parameter_gets_a_gradient_from_the_hidden_patches(redraw) -> None:
    model, images, hidden = redraw(build("damcha")), pictures(), masks()
    model(images, hidden)[hidden].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("kind", [torch.float32, torch.uint8, torch.int64])
def test_a_mask_that_is_not_bool_is_refused(kind) -> None:
    with pytest.raises(TypeError, match="hidden must be a bool tensor"):
        build("mha")(pictures(), masks().to(kind))


@pytest.mark.parametrize("shape", [(3, 8), (2, 9), (9,), (3, 3, 3)])
def test_a_mask_of_another_shape_is_refused(shape) -> None:
    with pytest.raises(ShapeError, match=r"expected \[3, 9\]"):
        build("mha")(pictures(), torch.zeros(shape, dtype=torch.bool))
