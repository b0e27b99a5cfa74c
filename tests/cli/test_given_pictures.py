"""`damcha reconstruct RUN IMAGES`: pictures of any kind, and files that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import damcha
from pictures import noise, panels, save_grey
from PIL import Image


def reconstruct(run: Path, *images: object) -> dict:
    return damcha("reconstruct", run, *images, "--out", "grid.png", "--json").json()


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "CMYK", "I;16", "1", "LA"])
def test_pictures_of_any_mode_become_the_runs_grey(mode, digits_run) -> None:
    pixels = np.where(noise(0) > 127, 255, 0).astype(np.uint8)
    grey = Image.fromarray(pixels)
    if mode == "I;16":
        picture = Image.fromarray(pixels.astype(np.uint16) * 257)
    else:
        picture = grey.convert("RGB").convert(mode) if mode in ("P", "CMYK") else grey.convert(mode)
    path = Path("picture.tif" if mode == "CMYK" else "picture.png")
    picture.save(path)
    record = reconstruct(digits_run, path)
    assert record["pictures"][0]["name"] == path.name
    assert np.abs(panels(record, 0)["original"] - pixels[..., None]).max() <= 1


@pytest.mark.parametrize(("colour", "grey"), [("black", 0), ("white", 255), ("red", 76)])
def test_plain_pictures_keep_their_brightness(colour, grey, digits_run) -> None:
    Image.new("RGB", (20, 30), colour).save("plain.png")
    shown = panels(reconstruct(digits_run, "plain.png"), 0)["original"]
    assert np.abs(shown - grey).max() <= 1


def test_bad_files_are_named_and_the_others_restored_as_without_them(digits_run) -> None:
    good = [save_grey(Path(f"good {i}.png"), noise(i)) for i in range(2)]
    Path("empty.png").touch()
    Path("text.png").write_text("hello", encoding="utf-8")
    Path("half.png").write_bytes(good[0].read_bytes()[:60])
    Path("folder").mkdir()
    bad = ["empty.png", "text.png", "half.png", "folder", "missing.png"]
    answer = damcha("reconstruct", digits_run, *bad, *good, "--out", "grid.png", "--json")
    lines = answer.err.splitlines()
    assert len(lines) == len(bad)
    for line, name in zip(lines, bad, strict=True):
        assert line.startswith(f"note: skipped {name}: ")
    assert answer.json() == reconstruct(digits_run, *good)


def test_without_one_good_file_nothing_is_drawn(digits_run) -> None:
    Path("empty.png").touch()
    answer = damcha("reconstruct", digits_run, "empty.png", "missing.png", "--out", "grid.png")
    answer.refused(3, "empty.png", "missing.png", most_lines=3)
    assert not Path("grid.png").exists()


def test_files_of_the_same_name_are_told_apart(digits_run) -> None:
    paths = [save_grey(Path(folder) / "same.png", noise(i)) for i, folder in enumerate("ab")]
    other = save_grey(Path("a/other.png"), noise(2))
    names = [p["name"] for p in reconstruct(digits_run, *paths, other)["pictures"]]
    assert names == ["a/same.png", "b/same.png", "other.png"]


def test_odd_file_names_are_shown_as_they_are(digits_run) -> None:
    name = "[bold]x[ ü 😀 'q'.png"
    path = save_grey(Path(name), noise(0))
    assert name in damcha("reconstruct", digits_run, path, "--out", "grid.png").done().out
    assert reconstruct(digits_run, path)["pictures"][0]["name"] == name


def test_a_file_name_that_is_no_text_is_escaped(digits_run) -> None:
    path = save_grey(Path("plain.png"), noise(0)).rename("bytes \udcff.png")
    name = reconstruct(digits_run, path)["pictures"][0]["name"]
    assert name.startswith("bytes ")
    assert name.isprintable()


def test_a_picture_depends_on_no_other_picture(digits_run) -> None:
    paths = [save_grey(Path(f"{i}.png"), noise(i)) for i in range(3)]
    together = reconstruct(digits_run, *paths)["pictures"]
    for path, expected in zip(paths, together, strict=True):
        alone = reconstruct(digits_run, path)["pictures"][0]
        scores = [k for k in alone if k != "panels"]
        assert {k: alone[k] for k in scores} == {k: expected[k] for k in scores}


def test_pictures_beside_a_split_are_refused(digits_run) -> None:
    save_grey(Path("a.png"), noise(0))
    answer = damcha("reconstruct", digits_run, "a.png", "--split", "test", "--out", "grid.png")
    answer.refused(2, "picture files or --split", most_lines=1)


def test_the_report_calls_them_given_pictures(digits_run) -> None:
    save_grey(Path("a.png"), noise(0))
    answer = damcha("reconstruct", digits_run, "a.png", "--out", "grid.png").done()
    assert "digits, given pictures" in answer.out
