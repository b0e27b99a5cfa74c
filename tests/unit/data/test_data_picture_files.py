"""Splits by name: stable, shares as promised, and nobody empty where it can be helped."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from damcha_core.data.picture_files import (
    PictureFile,
    carve_splits,
    find_files,
    picture_folder,
    split_folders,
)
from damcha_core.errors import DataError
from damcha_core.files import name_position, printable_name

BOTH = ("valid", "test")


def named(*names):
    return [PictureFile(Path(name), name) for name in names]


def numbered(n, folder=""):
    return named(*(f"{folder}{i:04d}.png" for i in range(n)))


def test_position_is_that_of_sha256():
    # printf a.png | sha256sum begins with 7f071235805f
    assert name_position("a.png") == pytest.approx(int("7f071235805f", 16) / 2**48, abs=1e-12)
    assert 0 <= name_position("\udcff") < 1


def test_shares_are_about_eighty_ten_ten():
    counts = Counter(carve_splits(numbered(5000), BOTH, by_class=False))
    assert abs(counts["valid"] / 5000 - 0.1) < 0.015
    assert abs(counts["test"] / 5000 - 0.1) < 0.015
    counts = Counter(carve_splits(numbered(5000), ("valid",), by_class=False))
    assert abs(counts["valid"] / 5000 - 0.1) < 0.015
    assert counts["test"] == 0
    assert set(carve_splits(numbered(50), (), by_class=False)) == {"train"}


def test_a_file_keeps_its_split_when_others_go():
    files = numbered(500)
    whole = dict(zip(files, carve_splits(files, BOTH, by_class=False), strict=True))
    for part in (files[::2], files[100:300], files[::-1]):
        assert carve_splits(part, BOTH, by_class=False) == [whole[file] for file in part]


@pytest.mark.parametrize("n", range(3, 40))
def test_three_pictures_are_enough(n):
    counts = Counter(carve_splits(numbered(n), BOTH, by_class=False))
    assert set(counts) == {"train", "valid", "test"}
    assert len(set(carve_splits(numbered(n), ("valid",), by_class=False))) == 2


def test_two_pictures_train_and_one_is_held_out():
    assert Counter(carve_splits(numbered(2), BOTH, by_class=False))["train"] == 1
    assert carve_splits(numbered(1), BOTH, by_class=False) == ["train"]
    assert carve_splits([], BOTH, by_class=False) == []


@pytest.mark.parametrize("per_class", [1, 2, 3, 8])
def test_every_class_is_trained(per_class):
    files = [file for name in "abcdefgh" for file in numbered(per_class, f"{name}/")]
    splits = carve_splits(files, BOTH, by_class=True)
    trained = {
        file.class_name for file, split in zip(files, splits, strict=True) if split == "train"
    }
    assert trained == set("abcdefgh")
    if per_class > 1:
        assert {"valid", "test"} <= set(splits)


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")


def test_files_are_found_at_any_depth_but_not_hidden_ones(tmp_path):
    touch(tmp_path, "b.png", "a/x.png", "a/b/c/y.txt", ".DS_Store", ".git/z.png", "ä ö/ß.png")
    os.mkfifo(tmp_path / "pipe.png")
    found = find_files(tmp_path)
    assert [file.name for file in found] == ["a/b/c/y.txt", "a/x.png", "b.png", "ä ö/ß.png"]
    assert [file.class_name for file in found] == ["a", "a", "", "ä ö"]


def test_links_are_followed_once(tmp_path):
    touch(tmp_path, "real/x.png", "elsewhere/y.png")
    folder = tmp_path / "real"
    (folder / "loop").symlink_to(folder)
    (folder / "more").symlink_to(tmp_path / "elsewhere")
    (folder / "gone.png").symlink_to(tmp_path / "nothing")
    assert [file.name for file in find_files(folder)] == ["more/y.png", "x.png"]


def test_images_folder_is_preferred(tmp_path):
    assert picture_folder(tmp_path) == tmp_path
    (tmp_path / "images").mkdir()
    assert picture_folder(tmp_path) == tmp_path / "images"


@pytest.mark.parametrize("valid", ["valid", "val", "validation"])
def test_split_folders(tmp_path, valid):
    assert split_folders(tmp_path) == {"train": tmp_path}
    for name in ("train", valid, "test"):
        (tmp_path / name).mkdir()
    assert split_folders(tmp_path) == {
        "train": tmp_path / "train",
        "valid": tmp_path / valid,
        "test": tmp_path / "test",
    }


def test_split_folders_that_make_no_sense_are_refused(tmp_path):
    (tmp_path / "test").mkdir()
    with pytest.raises(DataError, match="folder test but no folder train"):
        split_folders(tmp_path)
    for name in ("train", "val", "valid"):
        (tmp_path / name).mkdir()
    with pytest.raises(DataError, match="valid, val: keep one"):
        split_folders(tmp_path)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("müde.png", "müde.png"),
        ("a b", "a b"),
        ("\udcff", r"\xff"),
        ("a\nb", r"a\nb"),
        ("\x1b[31m", r"\x1b[31m"),
    ],
)
def test_names_are_shown_without_bytes_that_do_harm(name, shown):
    assert printable_name(name) == shown
