"""Models with every parameter far from its start, where a metric ignores its context."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn


def redrawn(module: nn.Module, seed: int = 5, std: float | None = None) -> nn.Module:
    """The module with every parameter from a normal draw.

    Args:
        module: changed in place.
        seed: of the draw.
        std: standard deviation; None: 0.9 / sqrt(fan-in), so that no softmax is one-hot.
    """
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=random)
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.copy_(drawn * (0.9 / math.sqrt(fan_in) if std is None else std))
    return module


@pytest.fixture(scope="session")
def redraw() -> Callable[..., nn.Module]:
    """Sets every parameter of a module from a random draw and returns it."""
    return redrawn


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)
