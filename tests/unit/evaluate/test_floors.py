"""The predictions that need no learning."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from damcha_core.errors import ShapeError
from damcha_core.evaluate import floors
from damcha_core.evaluate.floors import FLOOR_NAMES, floor_predictions, mean_picture
from damcha_core.evaluate.reconstruction_scores import hidden_pixels


def masked_batch(
    n: int, *, channels: int = 3, side: int = 16, patch: int = 4, seed: int = 0, n_hidden: int = 12
) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    images = torch.rand(n, channels, side, side, generator=rng)
    n_patches = (side // patch) ** 2
    hidden = torch.stack([torch.randperm(n_patches, generator=rng) < n_hidden for _ in range(n)])
    return images, hidden_pixels(hidden, patch, side)


def dense_fill(picture: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Every hidden pixel minus the mean of its neighbours is 0, by elimination."""
    height, width = picture.shape
    matrix, sides = np.eye(height * width), picture.flatten()
    for y, x in zip(*np.nonzero(hidden), strict=True):
        near = [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
        near = [(v, u) for v, u in near if 0 <= v < height and 0 <= u < width]
        sides[y * width + x] = 0.0
        for v, u in near:
            matrix[y * width + x, v * width + u] = -1 / len(near)
    return np.linalg.solve(matrix, sides).reshape(height, width)


@pytest.mark.parametrize(("patch", "n_hidden"), [(4, 12), (4, 15), (4, 1), (2, 48), (8, 3)])
def test_harmonic_fill_equals_a_dense_solve(patch: int, n_hidden: int) -> None:
    images, hidden = masked_batch(3, channels=2, patch=patch, n_hidden=n_hidden)
    got = floor_predictions(images, hidden, images[0])["harmonic_fill"]
    for picture in range(3):
        for channel in range(2):
            exact = images[picture, channel].double().numpy()
            expected = dense_fill(exact, hidden[picture, 0].numpy())
            np.testing.assert_allclose(got[picture, channel].numpy(), expected, atol=1e-8)


def test_one_visible_corner_fills_the_picture_with_its_values() -> None:
    images = torch.full((1, 1, 16, 16), 0.25)
    hidden = torch.ones(1, 1, 16, 16, dtype=torch.bool)
    hidden[..., 0, 0] = False
    got = floor_predictions(images, hidden, torch.zeros(1, 16, 16))["harmonic_fill"]
    np.testing.assert_allclose(got.numpy(), 0.25, atol=1e-9)


def test_a_ramp_between_two_visible_edges_is_filled_exactly() -> None:
    ramp = torch.linspace(0, 1, 16).expand(1, 3, 16, 16)
    hidden = torch.ones(1, 1, 16, 16, dtype=torch.bool)
    hidden[..., [0, -1]] = False
    got = floor_predictions(ramp, hidden, torch.zeros(3, 16, 16))["harmonic_fill"]
    np.testing.assert_allclose(got.numpy(), ramp.numpy(), atol=1e-7)


@given(st.integers(0, 10_000), st.integers(1, 15), st.sampled_from([1, 3]))
@settings(max_examples=20, deadline=None)
def test_fills_stay_within_the_visible_values(seed: int, n_hidden: int, channels: int) -> None:
    images, hidden = masked_batch(2, channels=channels, seed=seed, n_hidden=n_hidden)
    got = floor_predictions(images, hidden, images[0])
    fill = got["harmonic_fill"]
    visible = ~hidden.expand(images.shape)
    assert torch.equal(fill[visible], images.double()[visible])
    low = images.masked_fill(~visible, 2.0).amin(dim=(2, 3), keepdim=True)
    high = images.masked_fill(~visible, -2.0).amax(dim=(2, 3), keepdim=True)
    assert bool(((fill >= low - 1e-8) & (fill <= high + 1e-8)).all())
    means = got["visible_mean"]
    assert bool(((means >= low - 1e-12) & (means <= high + 1e-12)).all())


@pytest.mark.parametrize("chunk_values", [1 << 9, 1 << 15])
def test_same_bits_for_every_batch_size_and_order(
    monkeypatch: pytest.MonkeyPatch, chunk_values: int
) -> None:
    images, hidden = masked_batch(20)
    # Pictures that need no step, few and many steps share a batch.
    hidden[3], hidden[4] = False, True
    hidden[5] = True
    hidden[5, :, 0, 0] = False
    images[6] = 0.5
    together = floor_predictions(images, hidden, images[0])
    monkeypatch.setattr(floors, "CHUNK_VALUES", chunk_values)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(5))
    for size in (1, 7, 20):
        parts = [
            floor_predictions(images[ids], hidden[ids], images[0]) for ids in order.split(size)
        ]
        for name in FLOOR_NAMES:
            assert torch.equal(torch.cat([part[name] for part in parts]), together[name][order])


def test_values_of_hidden_pixels_change_nothing() -> None:
    images, hidden = masked_batch(4)
    spoilt = images.masked_fill(hidden, float("nan"))
    for name, picture in floor_predictions(images, hidden, images[0]).items():
        assert torch.equal(floor_predictions(spoilt, hidden, images[0])[name], picture)


def test_visible_mean_is_that_of_each_channel() -> None:
    images, hidden = masked_batch(3)
    got = floor_predictions(images, hidden, images[0])["visible_mean"]
    for picture in range(3):
        for channel in range(3):
            seen = images[picture, channel][~hidden[picture, 0]].double().mean().item()
            expected = torch.full((16, 16), seen, dtype=torch.float64)
            torch.testing.assert_close(got[picture, channel], expected, rtol=1e-12, atol=0)


def test_with_nothing_visible_all_three_are_the_mean_training_picture() -> None:
    images, hidden = masked_batch(3)
    hidden[1] = True
    mean = torch.rand(3, 16, 16, dtype=torch.float64)
    got = floor_predictions(images, hidden, mean)
    assert tuple(got) == FLOOR_NAMES
    for name in FLOOR_NAMES:
        assert got[name].dtype == torch.float64
        assert torch.equal(got[name][1], mean)
    assert torch.equal(got["mean_training_picture"], mean.expand(3, 3, 16, 16))


def test_with_nothing_hidden_the_fill_is_the_picture() -> None:
    images, hidden = masked_batch(2)
    got = floor_predictions(images, torch.zeros_like(hidden), images[0])
    assert torch.equal(got["harmonic_fill"], images.double())


def test_an_empty_batch_gives_empty_predictions() -> None:
    images, hidden = masked_batch(1)
    for picture in floor_predictions(images[:0], hidden[:0], images[0]).values():
        assert picture.shape == (0, 3, 16, 16)


def test_mean_picture_is_exact_in_any_order_and_scale() -> None:
    images = torch.randint(0, 256, (2500, 3, 4, 4), dtype=torch.uint8)
    mean = mean_picture(images, 255)
    assert torch.equal(mean, mean_picture(images.flip(0), 255))
    np.testing.assert_allclose(mean.numpy(), images.numpy().mean(axis=0) / 255, rtol=1e-12)
    assert mean_picture(torch.full((3, 1, 2, 2), 16, dtype=torch.uint8), 16).tolist() == [
        [[1.0, 1.0], [1.0, 1.0]]
    ]
    with pytest.raises(ValueError, match="no training picture"):
        mean_picture(images[:0], 255)


def test_arguments_that_do_not_fit_are_refused() -> None:
    images, hidden = masked_batch(2)
    for some_images, some_hidden in (
        (images[0], hidden),
        (images, hidden[:1]),
        (images, hidden.expand(2, 3, 16, 16)),
        (images, hidden[..., :8]),
    ):
        with pytest.raises(ShapeError, match="do not fit"):
            floor_predictions(some_images, some_hidden, images[0])
    with pytest.raises(ShapeError, match="mean picture"):
        floor_predictions(images, hidden, images)
    with pytest.raises(TypeError, match="must be bool"):
        floor_predictions(images, hidden.float(), images[0])
    with pytest.raises(TypeError, match="floating point"):
        floor_predictions(images.to(torch.uint8), hidden, images[0])
