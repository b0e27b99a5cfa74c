"""Scores of masked reconstruction against golden batches, and what may not change them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from damcha_core.errors import NonFiniteError, ShapeError
from damcha_core.evaluate.image_quality import psnr_of_mse, psnr_per_image, ssim_per_image
from damcha_core.evaluate.reconstruction_scores import ReconstructionScores, hidden_pixels

Decode = Callable[[dict[str, Any]], Tensor]
GOLDEN_BATCHES = ["patch4_ratio0.75", "patch2_ratio0.75", "patch4_uneven_ratios"]
SSIM = "ssim_gauss11_population_cropped"


@pytest.fixture(params=GOLDEN_BATCHES)
def batch(
    request: pytest.FixtureRequest, golden: dict[str, Any], decode: Decode, unit_picture: Decode
) -> dict[str, Any]:
    case = golden["masked_reconstruction"][request.param]
    return {
        **case,
        "images": unit_picture(case["images_nhwc_uint8"]),
        "predicted": decode(case["pred_nchw_float32"]),
        "hidden": decode(case["mask_n_by_patches_1_is_masked"]).bool(),
    }


def scored(batch: dict[str, Any], groups: Iterable[list[int]] | None = None) -> Any:
    scores = ReconstructionScores(batch["patch"])
    for ids in groups or [list(range(len(batch["images"])))]:
        scores.update(ids, batch["images"][ids], batch["predicted"][ids], batch["hidden"][ids])
    return scores


def test_golden_errors_on_hidden_pixels(batch: dict[str, Any]) -> None:
    scores = scored(batch)
    got, each = scores.compute(), scores.per_image()
    n_hidden = sum(batch["n_masked"]) * batch["patch"] ** 2 * 3
    for name, golden_name in (
        ("masked_mse", "mse_masked"),
        ("masked_mean_absolute_error", "mae_masked"),
    ):
        assert got[name].value == pytest.approx(batch[f"{golden_name}_pooled"], abs=1e-9)
        assert got[name].n == n_hidden
        assert each[name] == pytest.approx(batch[f"{golden_name}_per_image"], abs=1e-9)
        mean = math.fsum(each[name]) / len(each[name])
        assert mean == pytest.approx(batch[f"{golden_name}_mean_over_images"], abs=1e-9)
    listed = batch["psnr_masked_only_per_image_db"]
    assert list(map(psnr_of_mse, each["masked_mse"])) == pytest.approx(listed, abs=1e-9)
    pooled = psnr_of_mse(got["masked_mse"].value)
    assert pooled == pytest.approx(batch["psnr_masked_pooled_db"], abs=1e-9)
    halves = batch["mse_masked_pooled_in_half_half_normalised_space"]
    assert 4 * got["masked_mse"].value == pytest.approx(halves, abs=1e-9)


def test_golden_composite(batch: dict[str, Any]) -> None:
    scores = scored(batch)
    got, each = scores.compute(), scores.per_image()
    psnr, ssim = batch["psnr_composite_clipped_per_image_db"], batch[f"{SSIM}_composite_clipped"]
    assert each["psnr"] == pytest.approx(psnr, abs=1e-9)
    assert each["ssim"] == pytest.approx(ssim, abs=1e-7)
    assert got["psnr"].value == pytest.approx(sum(psnr) / len(psnr), abs=1e-9)
    assert got["ssim"].value == pytest.approx(sum(ssim) / len(ssim), abs=1e-7)
    # The composite's error is the hidden pixels' error times the share of hidden pixels.
    shares = [count / batch["grid"] ** 2 for count in batch["n_masked"]]
    masked = [db + 10 * math.log10(share) for db, share in zip(psnr, shares, strict=True)]
    assert each["masked_psnr"] == pytest.approx(masked, abs=1e-9)
    assert got["masked_psnr"].value == pytest.approx(sum(masked) / len(masked), abs=1e-9)
    assert got["masked_psnr"].n == got["psnr"].n == got["ssim"].n == 6
    assert (scores.n_identical, scores.window) == (0, 11)


def test_golden_unclipped_composite_and_raw_prediction(batch: dict[str, Any]) -> None:
    images, predicted = batch["images"], batch["predicted"].double()
    pixels = hidden_pixels(batch["hidden"], batch["patch"], 32)
    composite = torch.where(pixels, predicted, images)
    for picture, psnr, ssim, mse in (
        (composite, "psnr_composite", f"{SSIM}_composite", "mse_all_pixels_composite"),
        (
            predicted,
            "psnr_raw_prediction",
            f"{SSIM}_raw_prediction",
            "mse_all_pixels_raw_prediction",
        ),
    ):
        listed = batch[f"{psnr}_per_image_db"]
        assert psnr_per_image(images, picture).tolist() == pytest.approx(listed, abs=1e-9)
        assert ssim_per_image(images, picture).tolist() == pytest.approx(batch[ssim], abs=1e-7)
        assert (picture - images).square().mean().item() == pytest.approx(batch[mse], abs=1e-9)
    mean = psnr_per_image(images, composite).mean().item()
    assert mean == pytest.approx(batch["psnr_composite_mean_db"], abs=1e-9)
    error = (composite - images).abs().mean().item()
    assert error == pytest.approx(batch["mae_all_pixels_composite"], abs=1e-9)


def random_batch(n: int = 24, patch: int = 2, side: int = 8, channels: int = 1) -> dict[str, Any]:
    rng = torch.Generator().manual_seed(3)
    shape = (n, channels, side, side)
    return {
        "patch": patch,
        "images": torch.rand(shape, generator=rng),
        "predicted": torch.rand(shape, generator=rng) * 1.4 - 0.2,
        "hidden": torch.rand(n, (side // patch) ** 2, generator=rng) < 0.6,
    }


@pytest.mark.parametrize("channels", [1, 3])
def test_same_bits_for_every_batch_size_and_order(channels: int) -> None:
    batch = random_batch(channels=channels)
    together = scored(batch)
    shuffled = torch.randperm(24, generator=torch.Generator().manual_seed(1)).tolist()
    for ids in (list(range(24)), shuffled):
        for size in (1, 7, 24):
            other = scored(batch, [ids[at : at + size] for at in range(0, 24, size)])
            assert other.compute() == together.compute()
            assert other.per_image() == together.per_image()
            assert other.ids() == list(range(24))


def test_predictions_of_visible_patches_change_nothing() -> None:
    batch = random_batch()
    visible = ~hidden_pixels(batch["hidden"], 2, 8)
    for odd in (math.nan, math.inf, 7.0):
        other = {**batch, "predicted": batch["predicted"].masked_fill(visible, odd)}
        assert scored(other).compute() == scored(batch).compute()


def test_clipping_touches_psnr_and_ssim_but_not_the_pooled_errors() -> None:
    batch = random_batch()
    raw = scored(batch).compute()
    clipped = scored({**batch, "predicted": batch["predicted"].clamp(0, 1)}).compute()
    for name in ("masked_psnr", "psnr", "ssim"):
        assert raw[name] == clipped[name]
    assert raw["masked_mse"].value > clipped["masked_mse"].value
    assert raw["masked_mean_absolute_error"].value > clipped["masked_mean_absolute_error"].value


def test_nothing_hidden_leaves_masked_metrics_undefined() -> None:
    batch = random_batch()
    batch["hidden"] = torch.zeros_like(batch["hidden"])
    scores = scored(batch)
    got = scores.compute()
    for name in ("masked_mse", "masked_mean_absolute_error", "masked_psnr"):
        assert got[name] == (None, 0)
        assert scores.per_image()[name] == [None] * 24
    assert got["psnr"] == (100.0, 24)
    assert got["ssim"] == (1.0, 24)
    assert scores.n_identical == 24


def test_everything_hidden_scores_the_whole_prediction() -> None:
    batch = random_batch(channels=3)
    batch["hidden"] = torch.ones_like(batch["hidden"])
    got = scored(batch).compute()
    error = (batch["predicted"].double() - batch["images"].double()).square().mean().item()
    assert got["masked_mse"].value == pytest.approx(error, rel=1e-12)
    assert got["masked_mse"].n == batch["images"].numel()
    assert got["masked_psnr"].value == pytest.approx(got["psnr"].value, abs=1e-12)


def test_perfect_restorations_are_capped_and_counted() -> None:
    batch = random_batch()
    batch["predicted"][:5] = batch["images"][:5]
    scores = scored(batch)
    assert scores.n_identical == 5
    assert scores.per_image()["masked_psnr"][:5] == [100.0] * 5


def test_before_the_first_batch() -> None:
    scores = ReconstructionScores(4)
    assert set(scores.compute().values()) == {(None, 0)}
    assert (scores.window, scores.n_identical, scores.ids()) == (0, 0, [])


def test_small_pictures_get_a_smaller_window() -> None:
    assert scored(random_batch()).window == 7


def test_patches_are_numbered_row_by_row() -> None:
    hidden = torch.zeros(1, 6 * 6, dtype=torch.bool)
    hidden[0, 6 * 2 + 5] = True
    pixels = hidden_pixels(hidden, 2, 12)
    assert pixels.shape == (1, 1, 12, 12)
    assert pixels.nonzero()[:, 2:].tolist() == [[4, 10], [4, 11], [5, 10], [5, 11]]


@pytest.mark.parametrize(("n_patches", "patch", "side"), [(15, 2, 8), (16, 3, 8), (4, 8, 4)])
def test_masks_that_do_not_tile_the_picture_are_refused(
    n_patches: int, patch: int, side: int
) -> None:
    with pytest.raises(ShapeError, match="does not fit"):
        hidden_pixels(torch.zeros(1, n_patches, dtype=torch.bool), patch, side)


def test_masks_that_are_not_bool_are_refused() -> None:
    with pytest.raises(TypeError, match="must be bool"):
        hidden_pixels(torch.zeros(1, 16), 2, 8)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_predictions_that_are_not_finite_name_the_picture(odd: float) -> None:
    batch = random_batch()
    batch["hidden"][3] = True
    batch["predicted"][3, 0, 5, 5] = odd
    scores = ReconstructionScores(2)
    ids = list(range(100, 124))
    with pytest.raises(NonFiniteError, match=r"picture 103 .*1 of 24"):
        scores.update(ids, batch["images"], batch["predicted"], batch["hidden"])
    assert scores.ids() == []


def test_batches_that_do_not_fit_are_refused() -> None:
    batch = random_batch()
    images, predicted, hidden = batch["images"], batch["predicted"], batch["hidden"]
    ids = list(range(24))
    scores = ReconstructionScores(2)
    with pytest.raises(ShapeError, match="23 ids, 24 pictures and 24 masks"):
        scores.update(ids[1:], images, predicted, hidden)
    with pytest.raises(ShapeError, match="differ in shape"):
        scores.update(ids, images, predicted[:, :, :4], hidden)
    with pytest.raises(ShapeError, match="must all be square, not 8 x 4"):
        scores.update(ids, images[..., :4], predicted[..., :4], hidden)
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        scores.update(ids, images * 255, predicted, hidden)
    with pytest.raises(TypeError, match="floating point"):
        scores.update(ids, images.to(torch.uint8), predicted, hidden)
    scores.update(ids, images, predicted, hidden)
    with pytest.raises(ValueError, match="Sample 0 was scored twice"):
        scores.update(ids, images, predicted, hidden)
    with pytest.raises(ShapeError, match="must all be of side 8"):
        scores.update([99], images[:1, :, :4, :4], predicted[:1, :, :4, :4], hidden[:1, :4])
