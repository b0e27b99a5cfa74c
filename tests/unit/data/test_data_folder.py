"""A folder of pictures becomes three splits; odd files are skipped, named and counted."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from PIL import Image

from damcha_core.data import folder as folder_module
from damcha_core.data.folder import load_folder
from damcha_core.errors import DataError


def colour_of(name):
    return tuple(np.frombuffer(os.fsencode(name)[-6:].rjust(6, b"x"), np.uint8)[:3].tolist())


def add(folder, *names):
    """Pictures of one colour each, a function of their name."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 9), colour_of(path.name)).save(path, format="png")


def numbers(n):
    return [f"{i:03d}.png" for i in range(n)]


def parts(data):
    return {"train": data.train, "valid": data.valid, "test": data.test}


def names_of(data):
    return {split: list(part.names) for split, part in parts(data).items()}


def test_split_folders_are_used_as_they_are(tmp_path):
    add(tmp_path / "train", *numbers(3))
    add(tmp_path / "valid", "deep/er/v.png")
    add(tmp_path / "test", "t.png")
    add(tmp_path, "loose.png")
    data = load_folder(root=tmp_path, image_size=8)
    assert names_of(data) == {
        "train": ["train/000.png", "train/001.png", "train/002.png"],
        "valid": ["valid/deep/er/v.png"],
        "test": ["test/t.png"],
    }
    assert data.train.labels is None
    assert data.class_names == ()
    assert (data.augment.max_shift, data.augment.flip) == (1, True)
    assert load_folder(root=tmp_path, image_size=32).augment.max_shift == 4


def test_pictures_stay_with_their_names(tmp_path):
    add(tmp_path / "images", *numbers(40), "same/001.png")
    (tmp_path / "images" / "010.png").write_bytes(b"broken")
    data = load_folder(root=tmp_path, image_size=8)
    assert sum(len(part) for part in parts(data).values()) == 40
    for part in parts(data).values():
        for image, name in zip(part.images, part.names, strict=True):
            assert image[:, 4, 4].tolist() == list(colour_of(name.split("/")[-1]))


def test_missing_valid_is_a_tenth_of_train(tmp_path):
    add(tmp_path / "train", *numbers(60))
    add(tmp_path / "test", "t.png")
    data = load_folder(root=tmp_path, image_size=4)
    assert len(data.train) + len(data.valid) == 60
    assert 1 <= len(data.valid) <= 15
    assert names_of(data)["test"] == ["test/t.png"]


def test_three_pictures_train(tmp_path):
    add(tmp_path, *numbers(3))
    data = load_folder(root=tmp_path, image_size=4)
    assert [len(part) for part in parts(data).values()] == [1, 1, 1]


def test_bad_files_are_skipped_named_and_counted(tmp_path):
    add(tmp_path / "train", *numbers(5), "cut.png")
    content = (tmp_path / "train" / "cut.png").read_bytes()
    (tmp_path / "train" / "cut.png").write_bytes(content[: len(content) // 2])
    (tmp_path / "train" / "notes.txt").write_text("no picture", encoding="utf-8")
    (tmp_path / "train" / "zero.jpg").write_bytes(b"")
    (tmp_path / "train" / ".DS_Store").write_bytes(b"hidden")
    add(tmp_path / "test", "t.png")
    (tmp_path / "test" / "t.txt").write_text("no picture", encoding="utf-8")
    data = load_folder(root=tmp_path, image_size=8)
    (notice,) = data.notices
    assert notice.startswith("skipped 4 of 10 files")
    assert "train/cut.png (" in notice
    assert "train/notes.txt (not a picture)" in notice
    assert "train/zero.jpg (empty file)" in notice
    assert "test/t.txt (not a picture)" in notice
    assert len(data.train) + len(data.valid) == 5


def test_only_the_first_bad_files_are_named(tmp_path):
    add(tmp_path, *numbers(4))
    for i in range(9):
        (tmp_path / f"text{i}.txt").write_text("no picture", encoding="utf-8")
    (notice,) = load_folder(root=tmp_path, image_size=8).notices
    assert notice.startswith("skipped 9 of 13 files")
    assert notice.count("not a picture") == 5
    assert notice.endswith(", ...")


def test_odd_names(tmp_path):
    folder = tmp_path / "Bilder für alle"
    add(folder, "müde Katze.png", "\udcff\udcfe.png", "c.png")
    data = load_folder(root=folder, image_size=8)
    shown = sorted(name for names in names_of(data).values() for name in names)
    assert shown == [r"\xff\xfe.png", "c.png", "müde Katze.png"]


def test_classes(tmp_path):
    for split, n in {"train": 6, "valid": 2, "test": 1}.items():
        add(tmp_path / split, *(f"{name}/{i}/x.png" for name in "bca" for i in range(n)))
    data = load_folder(root=tmp_path, image_size=4, classes=True)
    assert data.class_names == ("a", "b", "c")
    for part in parts(data).values():
        for label, name in zip(part.labels, part.names, strict=True):
            assert data.class_names[label] == name.split("/")[1]
    assert data.train.labels.dtype == torch.int64
    assert [len(part) for part in parts(data).values()] == [18, 6, 3]


def test_classes_without_splits(tmp_path):
    add(tmp_path, *(f"{name}/{i}.png" for name in ("cat", "dog") for i in range(30)))
    data = load_folder(root=tmp_path, image_size=4, classes=True)
    assert data.class_names == ("cat", "dog")
    assert all(len(part) for part in parts(data).values())


def test_files_outside_of_classes_are_left_out(tmp_path):
    add(tmp_path, *(f"{name}/{i}.png" for name in "ab" for i in range(5)), "loose.png")
    data = load_folder(root=tmp_path, image_size=4, classes=True)
    assert data.notices == ("left out 1 files in no class folder: loose.png",)
    assert sum(len(part) for part in parts(data).values()) == 10


def test_progress_is_told(tmp_path):
    add(tmp_path, *numbers(4))
    told = []
    load_folder(root=tmp_path, image_size=4, notify=lambda *fact: told.append(fact))
    assert told[-1] == ("reading pictures (train)", 4, 4)


def refused(tmp_path, match, **options):
    with pytest.raises(DataError, match=match) as caught:
        load_folder(root=tmp_path, image_size=8, **options)
    assert len(str(caught.value).splitlines()) <= 2
    return str(caught.value)


def test_missing_folder_says_what_runs_today(tmp_path):
    message = refused(tmp_path / "nowhere", "does not exist")
    assert "damcha train --task digits" in message
    assert str(tmp_path / "nowhere") in message
    message = refused(tmp_path, "holds no picture files", classes=True)
    assert "damcha train --task digits-cls" in message


def test_too_few_pictures(tmp_path):
    add(tmp_path, *numbers(2))
    (tmp_path / "x.txt").write_text("no picture", encoding="utf-8")
    message = refused(tmp_path, r"no picture for (valid|test), of 3 files")
    assert "x.txt" in message


def test_nothing_readable(tmp_path):
    (tmp_path / "x.txt").write_text("no picture", encoding="utf-8")
    refused(tmp_path, "no picture for train, of 1 files")


def test_empty_test_folder(tmp_path):
    add(tmp_path / "train", *numbers(9))
    (tmp_path / "test").mkdir()
    refused(tmp_path, "no picture for test, of 9 files")


def test_class_that_train_does_not_have(tmp_path):
    add(tmp_path / "train", *(f"{name}/{i}.png" for name in "ab" for i in range(9)))
    add(tmp_path / "test", "a/x.png", "zebra/x.png")
    refused(tmp_path, r"test has 1 classes that train does not have \(zebra\)", classes=True)


def test_one_class_is_none(tmp_path):
    add(tmp_path, *(f"only/{i}.png" for i in range(9)))
    refused(tmp_path, "at least two classes, there is only only", classes=True)


def test_pictures_without_class_folders(tmp_path):
    add(tmp_path, *numbers(9))
    refused(tmp_path, "needs one folder a class", classes=True)


def test_memory_is_checked_before_decoding(tmp_path, monkeypatch):
    add(tmp_path, *numbers(4))
    monkeypatch.setattr(folder_module, "MAX_BYTES", 4 * 3 * 64 - 1)
    refused(tmp_path, r"data\.image_size = 8 need")
    monkeypatch.setattr(folder_module, "MAX_BYTES", 4 * 3 * 64)
    load_folder(root=tmp_path, image_size=8)
