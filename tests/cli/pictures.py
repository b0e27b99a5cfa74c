"""Picture files for tests, and cutting the panels out of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDE, PATCH = 8, 2
"""Of the digits: sixteen patches of 2 x 2 pixels."""


def noise(seed: int, side: int = SIDE) -> np.ndarray:
    """Random bytes (side, side)."""
    return np.random.default_rng(seed).integers(0, 256, (side, side), dtype=np.uint8)


def save_grey(path: Path, pixels: np.ndarray) -> Path:
    """Write a grey picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def panels(record: dict[str, Any], picture: int) -> dict[str, np.ndarray]:
    """The three panels of a picture, one value a pixel of the picture (side, side, 3)."""
    with Image.open(record["grid"]) as file:
        grid = file.convert("RGB")
    cut = {}
    for title, box in record["pictures"][picture]["panels"].items():
        drawn = np.asarray(grid.crop(tuple(box))).astype(int)
        scale = drawn.shape[0] // SIDE
        assert drawn.shape == (SIDE * scale, SIDE * scale, 3)
        cut[title] = drawn.reshape(SIDE, scale, SIDE, scale, 3)
        if title != "masked":
            assert (np.ptp(cut[title], axis=(1, 3)) == 0).all(), "a pixel is drawn in one colour"
        cut[title] = cut[title].mean(axis=(1, 3)) if title == "masked" else cut[title][:, 0, :, 0]
    return cut


def hidden_pixels(record: dict[str, Any], picture: int) -> np.ndarray:
    """Which pixels of a picture are hidden (side, side): those that are hatched in the grid."""
    with Image.open(record["grid"]) as file:
        grid = file.convert("RGB")
    drawn = np.asarray(grid.crop(tuple(record["pictures"][picture]["panels"]["masked"])))
    scale = drawn.shape[0] // SIDE
    cells = drawn.reshape(SIDE, scale, SIDE, scale, 3)
    # A hatched cell holds two greys, any other one a single colour.
    return (np.ptp(cells, axis=(1, 3)) > 0).any(-1)
