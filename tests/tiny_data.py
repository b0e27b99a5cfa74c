"""Small data sets of random pictures, in the layouts that the loaders read."""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

VARIABLE = "DAMCHA_TEST_DATA"
BATCH_FILES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
N_TRAIN, N_VALID = 45, 5
"""Training and validation pictures of tiny_root."""


def write_cifar10(root: Path, *, n_each: int = 10, seed: int = 5) -> None:
    """CIFAR-10's python layout with other pictures, for data.verify = false.

    Args:
        root: the data root.
        n_each: pictures in each of the six files.
        seed: of the pictures.
    """
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    chance = np.random.Generator(np.random.Philox(seed))
    for name in BATCH_FILES:
        batch = {
            b"data": smooth_pictures(chance, n_each, 32).reshape(n_each, -1),
            b"labels": [i % 10 for i in range(n_each)],
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))


def write_pictures(root: Path, *, side: int = 16, n_each: int = 12, seed: int = 6) -> None:
    """Folders train, valid and test of two classes of PNG files.

    Args:
        root: the data root.
        side: of the pictures, in pixels; data.image_size of the same value leaves them as they are.
        n_each: pictures of a class in train; a quarter of that elsewhere.
        seed: of the pictures.
    """
    chance = np.random.Generator(np.random.Philox(seed))
    for split, n in (("train", n_each), ("valid", n_each // 4), ("test", n_each // 4)):
        for name in ("left", "right"):
            folder = root / "images" / split / name
            folder.mkdir(parents=True)
            for i, picture_CSS in enumerate(smooth_pictures(chance, n, side)):
                Image.fromarray(picture_CSS.transpose(1, 2, 0)).save(folder / f"{i:02d}.png")


def smooth_pictures(chance: np.random.Generator, n: int, side: int) -> np.ndarray:
    """Bytes (n, 3, side, side) of colour gradients; the same on every machine."""
    # Raw draws and whole numbers alone: NumPy keeps these stable between its versions.
    draws = chance.bit_generator.random_raw(n * 9).reshape(n, 3, 3, 1, 1) % np.uint64(256)
    offset, down, right = (draws[:, :, i].astype(np.int64) for i in range(3))
    row, column = np.mgrid[:side, :side]
    return ((offset + down * row // side + right * column // side) % 256).astype(np.uint8)


def tiny_root() -> Path:
    """Data root with a CIFAR-10 of 60 pictures, made once for this process and its children."""
    if VARIABLE not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="damcha-tests-"))
        write_cifar10(folder)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[VARIABLE] = str(folder)
    return Path(os.environ[VARIABLE])
