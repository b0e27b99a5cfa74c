"""Every row of the catalogue, from one seed."""

from __future__ import annotations

import pytest
import torch
from foreign_models import NAMES


@pytest.fixture(params=NAMES)
def name(request) -> str:
    """Every row of the catalogue in turn."""
    return request.param


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(5)
