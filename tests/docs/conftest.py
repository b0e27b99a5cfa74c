"""A folder to run the documentation's examples in, with small data sets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_texts import write_wmt

CIFAR_FILES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
PICTURES = 8


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, but for ./data with a few pictures of every kind of data set.

    One thread: the models are so small that more of them cost more than they give.
    """
    random = np.random.default_rng(0)
    write_pictures(tmp_path / "data" / "images", random)
    write_cifar10(tmp_path / "data" / "cifar-10-batches-py", random)
    write_wmt(tmp_path / "data", n_train=40, n_valid=4, n_test=4)
    write_commongen(tmp_path / "data" / "commongen")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAMCHA_DATA", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)


def write_pictures(folder: Path, random: np.random.Generator) -> None:
    """Random pictures, one folder a class."""
    for kind in ("cats", "dogs"):
        (folder / kind).mkdir(parents=True)
        for number in range(PICTURES):
            pixels = random.integers(0, 256, (20, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / kind / f"{number}.png")


def write_commongen(folder: Path) -> None:
    """Three sentences a split, about two sets of concepts, in CommonGen's files."""
    folder.mkdir(parents=True)
    for split, animals in {"train": "dog cat", "dev": "cow pig", "test": "hen fox"}.items():
        first, second = animals.split()
        sets = [f"{first} run", f"{first} run", f"{second} sleep"]
        texts = [f"A {first} runs.", f"The {first} is running.", f"A {second} sleeps."]
        for ending, lines in (("src_alpha", sets), ("tgt", texts)):
            (folder / f"commongen.{split}.{ending}.txt").write_text("\n".join(lines))


def write_cifar10(folder: Path, random: np.random.Generator) -> None:
    """Files in CIFAR-10's python layout with random pictures; data.verify = false reads them."""
    folder.mkdir(parents=True)
    for name in CIFAR_FILES:
        batch = {
            "data": random.integers(0, 256, (PICTURES, 3072), dtype=np.uint8),
            "labels": random.integers(0, 10, PICTURES).tolist(),
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=4))
