"""`damcha reconstruct`: what the grid shows and what the numbers are taken over."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import numpy as np
import pytest
from command_line import damcha
from pictures import PATCH, SIDE, hidden_pixels, noise, panels, save_grey


@pytest.fixture
def record(digits_run) -> dict:
    return damcha("reconstruct", digits_run, "--out", "grid.png", "--json").json()


def test_the_default_grid_is_the_start_of_the_split_in_the_run_folder(own_run) -> None:
    record = damcha("reconstruct", own_run, "--json", "--count", 3).json()
    assert record["grid"] == str(own_run / "samples" / "reconstruction.png")
    assert Path(record["grid"]).is_file()
    assert [picture["name"] for picture in record["pictures"]] == ["valid 0", "valid 1", "valid 2"]


def test_visible_patches_are_the_input_and_hidden_ones_are_hatched(record) -> None:
    from damcha_core.data.digits import load_digits

    split = load_digits(root="").valid
    for i in range(8):
        cut, hidden = panels(record, i), hidden_pixels(record, i)
        original = split.images[i, 0].numpy() * 255.0 / split.peak
        assert np.abs(cut["original"] - original[..., None]).max() <= 1
        visible = ~hidden
        for title in ("masked", "restored"):
            assert np.abs(cut[title] - original[..., None])[visible].max() <= 1
        # Patches are hidden whole, half of them.
        patches = hidden.reshape(SIDE // PATCH, PATCH, SIDE // PATCH, PATCH)
        assert (patches.all((1, 3)) == patches.any((1, 3))).all()
        assert patches.all((1, 3)).sum() == 8


def test_the_numbers_are_those_of_the_panels(record) -> None:
    for i, picture in enumerate(record["pictures"]):
        cut, hidden = panels(record, i), hidden_pixels(record, i)
        error = (cut["restored"][..., 0] - cut["original"][..., 0]) / 255
        # Drawn values are rounded to 1/255 and clipped, the model's error is neither.
        masked = (error[hidden] ** 2).mean()
        assert picture["masked_psnr"] == pytest.approx(-10 * math.log10(masked), abs=0.2)
        assert picture["psnr"] == pytest.approx(-10 * math.log10((error**2).mean()), abs=0.2)
        # Half of the pixels are hidden and the others are right, so the composite has half of it.
        half = 10 * math.log10(2)
        assert picture["psnr"] - picture["masked_psnr"] == pytest.approx(half, abs=1e-9)
        assert picture["masked_mse"] >= masked - 1e-3


def test_the_record_pools_the_pictures_and_states_units(record) -> None:
    pictures, metrics = record["pictures"], record["metrics"]
    for name in ("masked_mse", "masked_mean_absolute_error", "masked_psnr", "psnr", "ssim"):
        mean = sum(picture[name] for picture in pictures) / len(pictures)
        assert metrics[name]["value"] == pytest.approx(mean, rel=1e-9)
    assert metrics["masked_mse"]["n"] == 8 * 8 * PATCH**2
    assert metrics["psnr"]["n"] == 8
    assert [metric["unit"] for metric in metrics.values()] == [
        "squared intensity in [0,1]",
        "intensity in [0,1]",
        "dB",
        "dB",
        "index in [-1,1]",
    ]
    assert len(record["floors"]) == 3
    assert (record["hidden_patches"], record["patches"]) == (8, 16)


def test_the_pictures_of_a_split_are_masked_as_in_an_evaluation(digits_run) -> None:
    split = damcha("reconstruct", digits_run, "--out", "g.png", "--json", "--count", 250).json()
    assert split["metrics"] == damcha("eval", digits_run, "--json").json()["metrics"]
    # All are scored, the first of them drawn.
    assert sum("panels" in picture for picture in split["pictures"]) == 64
    few = damcha("reconstruct", digits_run, "--out", "g.png", "--json", "--count", 2).json()
    assert [p["psnr"] for p in few["pictures"]] == [p["psnr"] for p in split["pictures"][:2]]


def repainted(pixels: np.ndarray, hidden: np.ndarray, seed: int) -> np.ndarray:
    """The picture with something else under its hidden patches."""
    return np.where(hidden, noise(seed), pixels)


def test_what_lies_under_hidden_patches_changes_no_restoration(digits_run) -> None:
    pixels = noise(0)
    first = save_grey(Path("first.png"), pixels)
    command = ("reconstruct", digits_run, "--json", "--out")
    hidden = hidden_pixels(damcha(*command, "a.png", first).json(), 0)
    second = save_grey(Path("second.png"), repainted(pixels, hidden, seed=1))
    alone = [damcha(*command, f"{path.stem}-grid.png", path).json() for path in (first, second)]
    both = damcha(*command, "both.png", first, second).json()
    shown = [panels(alone[0], 0), panels(alone[1], 0), panels(both, 0), panels(both, 1)]
    assert not np.array_equal(shown[0]["original"], shown[1]["original"])
    for other in shown[1:]:
        # Hidden patches come from the model, visible ones are the same in both files.
        assert np.array_equal(other["restored"], shown[0]["restored"])
    control = repainted(pixels, ~hidden, seed=2)
    third = damcha(*command, "c.png", save_grey(Path("third.png"), control)).json()
    assert not np.array_equal(panels(third, 0)["restored"][hidden], shown[0]["restored"][hidden])


@pytest.mark.parametrize(
    ("ratio", "hidden"), [(0, 0), (1, 16), (0.999, 15), (1 / 64, 1), (0.5, 8), (1e-9, 1)]
)
def test_any_mask_ratio_from_0_to_1_gives_finite_numbers(ratio, hidden, digits_run) -> None:
    flags = ("--mask-ratio", ratio, "--out", "g.png", "--count", 2)
    record = damcha("reconstruct", digits_run, *flags, "--json").json()
    assert record["hidden_patches"] == hidden
    assert f"{hidden} of 16 patches hidden" in damcha("reconstruct", digits_run, *flags).done().out
    for i, picture in enumerate(record["pictures"]):
        assert hidden_pixels(record, i).sum() == hidden * PATCH**2
        for name in ("masked_mse", "masked_mean_absolute_error", "masked_psnr"):
            assert (picture[name] is None) == (hidden == 0)
        assert math.isfinite(picture["psnr"])
        assert math.isfinite(picture["ssim"])
    if hidden == 0:
        assert [p["psnr"] for p in record["pictures"]] == [100, 100]
        assert record["details"]["identical_pictures"] == 2


@pytest.mark.parametrize("ratio", [-0.1, 1.5, "nan", "inf", "-inf"])
def test_another_mask_ratio_is_refused_with_the_range(ratio, digits_run) -> None:
    answer = damcha("reconstruct", digits_run, "--mask-ratio", ratio, "--out", "g.png")
    answer.refused(2, "--mask-ratio", "from 0 to 1", most_lines=1)
    assert not Path("g.png").exists()


def test_drawing_needs_no_display(digits_run, monkeypatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    monkeypatch.setenv("DISPLAY", "nowhere:99")
    damcha("reconstruct", digits_run, "--out", "grid.png").done()
    assert Path("grid.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("out", "code", "word"),
    [("g.jpg", 2, ".png"), ("missing/g.png", 7, "missing"), ("folder.png", 7, "folder")],
)
def test_a_grid_that_cannot_be_written_is_refused_first(out, code, word, digits_run, monkeypatch):
    from damcha_core.train.trained_run import TrainedRun

    Path("folder.png").mkdir()
    monkeypatch.setattr(TrainedRun, "reconstruct", None)  # would fail if it came that far
    damcha("reconstruct", digits_run, "--out", out).refused(code, out, word, most_lines=1)


def test_a_read_only_run_still_draws_elsewhere(digits_run, monkeypatch) -> None:
    def read_only(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", read_only)
    answer = damcha("reconstruct", digits_run)
    answer.refused(7, str(digits_run / "samples"), "another --out")
    damcha("eval", digits_run).done()
    damcha("reconstruct", digits_run, "--out", "grid.png").done()


def test_the_report_lists_pictures_and_floors_and_fits_80_columns(digits_run) -> None:
    out = damcha("reconstruct", digits_run, "--out", "grid.png").done().out
    lines = [line for line in out.splitlines() if not line.startswith("run ")]
    assert max(map(len, lines)) <= 80
    for words in ("8 of 16 patches hidden", "grid        grid.png", "valid 7", "harmonic fill"):
        assert words in out
