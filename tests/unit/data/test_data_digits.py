"""Facts of the built-in digits, and that the shipped file is what its script builds."""

from __future__ import annotations

import runpy
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch

from damcha_core.data.digits import load_digits
from damcha_core.errors import DataError

SCRIPT = Path(__file__).parents[3] / "scripts" / "build_digits.py"


def test_sizes_classes_and_range():
    data = load_digits()
    parts = (data.train, data.valid, data.test)
    assert [len(part) for part in parts] == [1297, 250, 250]
    assert all(part.images.shape[1:] == (1, 8, 8) for part in parts)
    assert all(part.peak == 16 for part in parts)
    assert max(int(part.images.max()) for part in parts) == 16
    assert min(int(part.images.min()) for part in parts) == 0
    assert data.class_names == tuple("0123456789")
    assert torch.cat([part.labels for part in parts]).bincount().tolist() == [
        *(178, 182, 177, 183, 181),
        *(182, 181, 179, 174, 180),
    ]
    for part in (data.valid, data.test):
        assert part.labels.bincount().tolist() == [25] * 10


def test_splits_share_no_picture():
    data = load_digits()
    train = {bytes(image.numpy().tobytes()) for image in data.train.images}
    for part in (data.valid, data.test):
        assert not any(image.numpy().tobytes() in train for image in part.images)


def test_augmentation_belongs_to_classification_alone():
    assert load_digits().augment.changes_nothing
    shifted = load_digits(classes=True).augment
    assert (shifted.max_shift, shifted.flip) == (1, False)


def test_another_size_is_refused():
    with pytest.raises(DataError, match=r"data\.image_size = 8"):
        load_digits(image_size=32)


def test_licence_is_shipped():
    text = files("damcha_core.data").joinpath("LICENSE-digits.txt").read_text(encoding="utf-8")
    assert "CC BY 4.0" in text
    assert "Alpaydin" in text


def test_file_is_what_the_script_builds(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is needed to build the digits again")
    runpy.run_path(str(SCRIPT))["build"](tmp_path / "digits.npz")
    shipped = files("damcha_core.data").joinpath("digits.npz")
    with shipped.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        old = dict(arrays)
    with np.load(tmp_path / "digits.npz", allow_pickle=False) as arrays:
        new = dict(arrays)
    assert sorted(old) == sorted(new) == ["images", "labels", "split"]
    assert all(np.array_equal(old[name], new[name]) for name in old)
    assert all(array.dtype == np.uint8 for array in old.values())
