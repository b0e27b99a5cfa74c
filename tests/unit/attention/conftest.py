"""What the tests of the attention package share."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn


@pytest.fixture(scope="session")
def redraw() -> Callable[[nn.Module, int], None]:
    """Sets every parameter from a random draw, far from any initialisation."""

    def fill(module: nn.Module, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in module.parameters():
                drawn = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
                fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
                parameter.copy_(drawn * 0.9 / math.sqrt(fan_in))

    return fill


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(1)
