"""What the parity tests share: random weights and golden files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

GOLDEN = Path(__file__).parents[1] / "golden" / "attention"


@dataclass(frozen=True)
class GoldenFile:
    """Stored tensors of one attention and the cases they belong to."""

    cases: list[dict[str, Any]]
    tensors: Mapping[str, Tensor]

    def case(self, prefix: str) -> dict[str, Tensor]:
        """Tensors whose name starts with the prefix and a dot, without it."""
        start = f"{prefix}."
        return {k[len(start) :]: v for k, v in self.tensors.items() if k.startswith(start)}


@pytest.fixture(scope="session")
def golden() -> Callable[[str], GoldenFile]:
    """Reader of a golden file by the name of the attention."""
    read: dict[str, GoldenFile] = {}

    def golden_file(name: str) -> GoldenFile:
        if name not in read:
            cases = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["cases"]
            with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as stored:
                tensors = {key: torch.from_numpy(stored[key]) for key in stored.files}
            read[name] = GoldenFile(cases, tensors)
        return read[name]

    return golden_file


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
