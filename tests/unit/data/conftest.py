"""A folder in CIFAR-10's python layout, small and made here."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TRAIN_NAMES = [f"data_batch_{i}" for i in range(1, 6)]
CLASS_NAMES = ["airplane", "automobile", "bird", "cat", "deer"]
CLASS_NAMES += ["dog", "frog", "horse", "ship", "truck"]


def batch(n: int, seed: int) -> dict[Any, Any]:
    """Contents of a batch file of n pictures."""
    random = np.random.RandomState(seed)
    return {
        b"batch_label": b"made for a test",
        b"labels": random.randint(0, 10, n).tolist(),
        b"data": random.randint(0, 256, (n, 3072)).astype(np.uint8),
        b"filenames": [f"picture_{i}.png".encode() for i in range(n)],
    }


@pytest.fixture
def cifar_root(tmp_path: Path) -> Path:
    """A data root with five batches of 8 pictures and a test batch of 5, protocol 2."""
    write_cifar(tmp_path)
    return tmp_path


@pytest.fixture
def write_batches() -> Callable[..., None]:
    """The function that writes such a folder: write(root, n=8, protocol=2)."""
    return write_cifar


def write_cifar(root: Path, n: int = 8, protocol: int = 2) -> None:
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for seed, name in enumerate([*TRAIN_NAMES, "test_batch"]):
        size = n if name in TRAIN_NAMES else 5
        (folder / name).write_bytes(pickle.dumps(batch(size, seed), protocol))
    meta = {b"num_cases_per_batch": n, b"label_names": [name.encode() for name in CLASS_NAMES]}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol))
