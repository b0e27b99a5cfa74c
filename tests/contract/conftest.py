"""Layers of the whole catalogue with every parameter far from its initial value."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from damcha_core.attention import AttentionLayer, AttentionStack, build_attention
from damcha_core.catalog.attentions import attention_row, attention_rows

HEADS, WIDTH = 5, 15
NAMES = [row.name for row in attention_rows()]


class Model(nn.Module):
    """A residual stack of attentions, as a model registers it."""

    def __init__(self, stack: AttentionStack) -> None:
        super().__init__()
        self.shared = stack.shared
        self.layers = nn.ModuleList(stack.layers)

    def forward(self, x_BND: Tensor, **masks: object) -> Tensor:
        for layer in self.layers:
            x_BND = x_BND + layer(x_BND, **masks)
        return x_BND


def redrawn(module: nn.Module, seed: int = 7) -> nn.Module:
    """The module with every parameter from a random draw: at its start a metric may ignore all."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.copy_(drawn * 0.9 / math.sqrt(fan_in))
    return module


@pytest.fixture(scope="session")
def build() -> Callable[..., Model]:
    """Builder of a redrawn stack by the name of its row."""

    def make(name: str, n_layers: int = 2, dropout: float = 0.0, **options: object) -> Model:
        if attention_row(name).options is not None:
            options = {"mlp_hidden": (7, 11)} | options
        stack = build_attention(name, WIDTH, HEADS, n_layers, dropout=dropout, options=options)
        return redrawn(Model(stack))

    return make


@pytest.fixture(scope="session")
def redraw() -> Callable[[nn.Module], nn.Module]:
    """Sets every parameter of a module from a random draw and returns it."""
    return redrawn


@pytest.fixture(params=NAMES)
def name(request) -> str:
    """Every row of the catalogue in turn."""
    return request.param


@pytest.fixture
def layer(name: str, build) -> AttentionLayer:
    """A layer of the row, redrawn; a shared generator is redrawn with it."""
    return build(name).layers[-1]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(1)
