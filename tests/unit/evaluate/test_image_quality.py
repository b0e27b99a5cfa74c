"""PSNR and SSIM against golden values, scikit-image, a slow version, and themselves."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.metrics import _structural_similarity as skimage_module
from torch import Tensor

from damcha_core.errors import ShapeError
from damcha_core.evaluate.image_quality import (
    gaussian_weights,
    psnr_of_mse,
    psnr_per_image,
    ssim_per_channel,
    ssim_per_image,
    ssim_window,
)

Picture = Callable[[dict[str, Any]], Tensor]
SSIM = "gauss11_population_cropped"
N_PAIRS = 13


@pytest.mark.parametrize("place", range(N_PAIRS))
def test_golden_pair(golden: dict[str, Any], unit_picture: Picture, place: int) -> None:
    case = golden["pairs"][place]
    reference, test = unit_picture(case["reference"]), unit_picture(case["test"])
    golden_psnr = case["values"]["psnr_db"]
    expected = 100.0 if golden_psnr == "inf" else golden_psnr
    assert psnr_per_image(reference, test).item() == pytest.approx(expected, abs=1e-9)
    assert psnr_of_mse(case["values"]["mse"]) == pytest.approx(expected, abs=1e-9)
    ssim = case["ssim"]
    assert ssim_per_image(reference, test).item() == pytest.approx(ssim[SSIM], abs=1e-7)
    channels = ssim_per_channel(reference, test)[0].tolist()
    assert channels == pytest.approx(ssim[f"per_channel_{SSIM}"], abs=1e-7)
    single = [psnr_per_image(reference[:, [c]], test[:, [c]]).item() for c in range(3)]
    listed = case["values"]["psnr_per_channel_db"]
    assert single == pytest.approx([100.0 if v == "inf" else v for v in listed], abs=1e-9)


def test_golden_means_over_the_pairs(golden: dict[str, Any], unit_picture: Picture) -> None:
    pairs, aggregate = golden["pairs"], golden["aggregate_over_pairs"]
    assert len(pairs) == N_PAIRS == aggregate["n"]
    reference = torch.cat([unit_picture(case["reference"]) for case in pairs])
    test = torch.cat([unit_picture(case["test"]) for case in pairs])
    psnr = psnr_per_image(reference, test)
    capped = aggregate["psnr_db_mean_over_images_capped_at_100"]
    assert psnr.mean().item() == pytest.approx(capped, abs=1e-9)
    assert (psnr == 100).sum().item() == aggregate["n_infinite"] == 2
    finite = aggregate["psnr_db_mean_over_images_finite_only"]
    assert psnr[psnr < 100].mean().item() == pytest.approx(finite, abs=1e-9)
    ssim = ssim_per_image(reference, test).mean().item()
    assert ssim == pytest.approx(aggregate["ssim_mean"][SSIM], abs=1e-7)


@pytest.mark.parametrize("place", range(2))
@pytest.mark.parametrize("kind", ["unclipped", "clipped_to_0_1"])
def test_golden_float_prediction(
    golden: dict[str, Any], unit_picture: Picture, place: int, kind: str
) -> None:
    case = golden["float_predictions"][place]
    reference, test = unit_picture(case["reference"]), unit_picture(case["prediction"])
    if kind == "clipped_to_0_1":
        test = test.clamp(0, 1)
    expected = case[kind]
    assert psnr_per_image(reference, test).item() == pytest.approx(expected["psnr_db"], abs=1e-9)
    assert ssim_per_image(reference, test).item() == pytest.approx(expected["ssim"][SSIM], abs=1e-7)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("side", "window"), [(8, 7), (10, 9), (11, 11), (16, 11), (32, 11)])
def test_ssim_equals_scikit_image(
    monkeypatch: pytest.MonkeyPatch, channels: int, side: int, window: int
) -> None:
    reference, test = random_pairs(3, channels, side)
    assert ssim_window(side) == window
    # scikit-image always blurs 11 pixels wide; its own filter narrowed gives smaller windows.
    narrowed = functools.partial(blur_of_width, skimage_module.gaussian, window)
    monkeypatch.setattr(skimage_module, "gaussian", narrowed)
    expected = [
        skimage_module.structural_similarity(
            a.numpy(),
            b.numpy(),
            win_size=window,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
            data_range=1.0,
            channel_axis=0,
        )
        for a, b in zip(reference, test, strict=True)
    ]
    assert ssim_per_image(reference, test).tolist() == pytest.approx(expected, abs=1e-12)


def blur_of_width(blur: Any, window: int, image: Any, **options: Any) -> Any:
    return blur(image, **{**options, "truncate": (window // 2) / 1.5})


@pytest.mark.parametrize("side", [1, 2, 3, 6, 8, 13])
def test_ssim_equals_a_loop_over_windows(side: int) -> None:
    reference, test = random_pairs(2, 2, side)
    window = ssim_window(side)
    line = np.array(gaussian_weights(window))
    weights = np.outer(line, line)
    for picture in range(2):
        channels = []
        for channel in range(2):
            a, b = reference[picture, channel].numpy(), test[picture, channel].numpy()
            places = range(side - window + 1)
            channels.append(np.mean([ssim_at(a, b, y, x, weights) for y in places for x in places]))
        got = ssim_per_image(reference[[picture]], test[[picture]]).item()
        assert got == pytest.approx(float(np.mean(channels)), abs=1e-12)


def ssim_at(a: Any, b: Any, y: int, x: int, weights: Any) -> float:
    """SSIM of one window from its definition, with covariances about the weighted means."""
    n = len(weights)
    a, b = a[y : y + n, x : x + n], b[y : y + n, x : x + n]
    mean_a, mean_b = (weights * a).sum(), (weights * b).sum()
    var_a, var_b = (weights * (a - mean_a) ** 2).sum(), (weights * (b - mean_b) ** 2).sum()
    cov = (weights * (a - mean_a) * (b - mean_b)).sum()
    top = (2 * mean_a * mean_b + 1e-4) * (2 * cov + 9e-4)
    return float(top / ((mean_a**2 + mean_b**2 + 1e-4) * (var_a + var_b + 9e-4)))


def test_window_is_the_largest_odd_one_up_to_eleven() -> None:
    sides = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 32, 224]
    assert [ssim_window(side) for side in sides] == [1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 11, 11]
    with pytest.raises(ValueError, match="at least 1 pixel"):
        ssim_window(0)


@pytest.mark.parametrize("metric", [psnr_per_image, ssim_per_image])
@pytest.mark.parametrize(("n", "channels", "side"), [(23, 3, 32), (23, 1, 8), (5, 3, 80)])
def test_same_bits_for_every_batch_size_order_and_thread_count(
    metric: Callable[[Tensor, Tensor], Tensor], n: int, channels: int, side: int
) -> None:
    reference, test = (x.float() for x in random_pairs(n, channels, side))
    together = metric(reference, test)
    for size in (1, 7):
        pieces = zip(reference.split(size), test.split(size), strict=True)
        assert torch.equal(torch.cat([metric(a, b) for a, b in pieces]), together)
    order = torch.randperm(n)
    assert torch.equal(metric(reference[order], test[order]), together[order])
    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads + 2)
        assert torch.equal(metric(reference, test), together)
    finally:
        torch.set_num_threads(n_threads)


@given(st.integers(1, 14), st.sampled_from([1, 3]), st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_properties_of_any_pair(side: int, channels: int, seed: int) -> None:
    reference, test = random_pairs(2, channels, side, seed)
    ssim = ssim_per_image(reference, test)
    assert bool(((ssim <= 1) & (ssim >= -1)).all())
    assert torch.equal(ssim, ssim_per_image(test, reference))
    assert torch.equal(psnr_per_image(reference, test), psnr_per_image(test, reference))
    assert ssim_per_image(test, test).tolist() == [1.0, 1.0]
    assert psnr_per_image(test, test).tolist() == [100.0, 100.0]


def test_constant_pictures_have_ssim_exactly_one_with_themselves() -> None:
    for level in (0.0, 0.1, 1 / 3, 1.0):
        picture = torch.full((1, 3, 32, 32), level)
        assert ssim_per_image(picture, picture).item() == 1.0


def test_inverse_checkerboard_has_negative_ssim() -> None:
    places = torch.arange(32)
    board = ((places[:, None] + places) % 2).double().expand(1, 1, 32, 32)
    assert ssim_per_image(board, 1 - board).item() < -0.99


def test_psnr_is_never_better_than_that_of_identical_pictures() -> None:
    assert psnr_of_mse(0.0) == psnr_of_mse(1e-30) == 100.0
    assert psnr_of_mse(0.0, cap_db=60.0) == psnr_of_mse(1e-7, cap_db=60.0) == 60.0
    assert psnr_of_mse(1.0) == 0.0
    assert psnr_of_mse(math.inf) == -math.inf
    assert math.isnan(psnr_of_mse(math.nan))


@pytest.mark.parametrize("metric", [psnr_per_image, ssim_per_image])
def test_tensors_that_are_not_picture_pairs_are_refused(metric: Any) -> None:
    picture = torch.zeros(2, 3, 8, 8)
    with pytest.raises(ShapeError, match="batch, channels, side, side"):
        metric(picture[0], picture[0])
    with pytest.raises(ShapeError, match="batch, channels, side, side"):
        metric(picture[:, :0], picture[:, :0])
    with pytest.raises(ShapeError, match="differ in shape"):
        metric(picture, picture[:1])
    with pytest.raises(TypeError, match="floating point"):
        metric(picture.to(torch.uint8), picture)
    with pytest.raises(TypeError, match="floating point"):
        metric(picture, picture.to(torch.uint8))


def test_empty_batch_and_pictures_without_pixels() -> None:
    empty = torch.zeros(0, 3, 8, 8)
    assert psnr_per_image(empty, empty).shape == ssim_per_image(empty, empty).shape == (0,)
    with pytest.raises(ValueError, match="at least 1 pixel"):
        ssim_per_image(torch.zeros(1, 1, 0, 0), torch.zeros(1, 1, 0, 0))


def random_pairs(n: int, channels: int, side: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    shape = (n, channels, side, side)
    reference = torch.rand(shape, generator=rng, dtype=torch.float64)
    noise = torch.rand(shape, generator=rng, dtype=torch.float64)
    return reference, (0.7 * reference + 0.3 * noise)
