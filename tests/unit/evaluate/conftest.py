"""Golden values of the image metrics and the pictures they belong to."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics" / "golden_image.json"


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """Cases of golden_image.json by name."""
    cases: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    return cases


@pytest.fixture(scope="session")
def decode() -> Callable[[dict[str, Any]], Tensor]:
    """Turns a stored array into a tensor of its dtype and shape."""

    def decoded(stored: dict[str, Any]) -> Tensor:
        flat = np.frombuffer(base64.b64decode(stored["base64"]), stored["dtype"])
        return torch.from_numpy(flat.reshape(stored["shape"]).copy())

    return decoded


@pytest.fixture(scope="session")
def unit_picture(decode: Callable[[dict[str, Any]], Tensor]) -> Callable[[dict[str, Any]], Tensor]:
    """Turns stored (..., S, S, C) bytes or floats into float64 (B, C, S, S) in [0, 1]."""

    def picture(stored: dict[str, Any]) -> Tensor:
        values = decode(stored)
        values = values.double() / 255 if values.dtype == torch.uint8 else values.double()
        return values.reshape(-1, *values.shape[-3:]).permute(0, 3, 1, 2).contiguous()

    return picture
