"""Builds damcha_core/data/digits.npz from scikit-learn's copy of the UCI digits.

    python scripts/build_digits.py [FILE]

scikit-learn is needed for this alone. The split is drawn within each class: 25 pictures of each
digit for valid, 25 for test, the other 1,297 for train.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

PER_CLASS = 25
SEED = 1998
DEFAULT_FILE = Path(__file__).parents[1] / "damcha_core" / "data" / "digits.npz"


def build(path: Path) -> None:
    """Write images uint8 [1797, 8, 8] (0 to 16), labels uint8 and split uint8 (0, 1, 2)."""
    source = load_digits()
    images = source.images.astype(np.uint8)
    labels = source.target.astype(np.uint8)
    split = np.zeros(len(labels), dtype=np.uint8)
    random = np.random.RandomState(SEED)  # its stream is frozen between NumPy versions
    for digit in range(10):
        ids = random.permutation(np.flatnonzero(labels == digit))
        split[ids[:PER_CLASS]] = 1
        split[ids[PER_CLASS : 2 * PER_CLASS]] = 2
    assert np.array_equal(images, source.images)
    np.savez_compressed(path, images=images, labels=labels, split=split)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FILE)
