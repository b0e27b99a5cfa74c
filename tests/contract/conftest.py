"""Layers of the whole catalogue with every parameter far from its initial value."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from damcha_core.attention import AttentionLayer, AttentionStack, Carry, build_attention
from damcha_core.catalog.attentions import attention_row, attention_rows
from damcha_core.catalog.loading import load

HEADS, WIDTH = 5, 30
NAMES = [row.name for row in attention_rows()]


class Model(nn.Module):
    """A residual stack of attentions, as a model registers it."""

    def __init__(self, stack: AttentionStack) -> None:
        super().__init__()
        self.shared = stack.shared
        self.layers = nn.ModuleList(stack.layers)

    def forward(self, x_BND: Tensor, **masks: object) -> Tensor:
        carry = Carry() if any(layer.uses_carry for layer in self.layers) else None
        for layer in self.layers:
            x_BND = x_BND + layer(x_BND, carry=carry, **masks)
        return x_BND


def heads_of(name: str) -> int:
    """Number of heads that suits the row: an odd one, or an even one where heads are paired."""
    return HEADS if HEADS % attention_row(name).head_multiple == 0 else HEADS + 1


def small(name: str) -> dict[str, object]:
    """Options that make a layer of the row small."""
    options = attention_row(name).options
    has_generator = options is not None and "mlp_hidden" in load(options).model_fields
    return {"mlp_hidden": (7, 11)} if has_generator else {}


def redrawn(module: nn.Module, seed: int = 7) -> nn.Module:
    """The module with every parameter from a random draw: at its start a metric may ignore all."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.copy_(drawn * 0.9 / math.sqrt(fan_in))
    return module


class Tally:
    """How many checks each row passed, for the summary of a test session.

    A check is a test that runs once for every row; its parameters beside the row tell it from
    others. The other tests here are those of broken twins and single rows.
    """

    def __init__(self) -> None:
        self.row_and_check: dict[str, tuple[str, str]] = {}
        self.passed: set[str] = set()

    def add(self, item: pytest.Item) -> None:
        """Note what a test of this folder is about."""
        given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        row = given.pop("name", "")
        if row not in NAMES:
            row = ""
        self.row_and_check[item.nodeid] = (row, f"{item.function.__qualname__} {given}")

    def lines(self) -> list[str]:
        """What the summary says."""
        rows_of: dict[str, set[str]] = {}
        for row, check in (self.row_and_check[test] for test in self.passed):
            if row:
                rows_of.setdefault(check, set()).add(row)
        n_rows = max(map(len, rows_of.values()), default=0)
        n_checks = sum(len(rows) == n_rows for rows in rows_of.values())
        others = len(self.passed) - n_rows * n_checks
        return [
            f"attention contract: {n_rows} rows x {n_checks} checks = {n_rows * n_checks} passed, "
            f"and {others} tests of single rows and broken twins"
        ]


TALLY = Tally()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            TALLY.add(item)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed and report.nodeid in TALLY.row_and_check:
        TALLY.passed.add(report.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TALLY.passed:
        for line in TALLY.lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def build() -> Callable[..., Model]:
    """Builder of a redrawn stack by the name of its row."""

    def make(name: str, n_layers: int = 2, dropout: float = 0.0, **options: object) -> Model:
        stack = build_attention(
            name, WIDTH, heads_of(name), n_layers, dropout=dropout, options=small(name) | options
        )
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


def chained(first: AttentionLayer, second: AttentionLayer) -> AttentionLayer:
    """The second layer, fed with what the first one leaves of the same tokens."""
    alone = second.forward

    def forward(x_BND: Tensor, **masks: object) -> Tensor:
        carry = Carry()
        first.to(x_BND.dtype)(x_BND, carry=carry, **masks)
        return alone(x_BND, carry=carry, **masks)

    second.forward = forward
    return second


@pytest.fixture(scope="session")
def chain() -> Callable[[AttentionLayer, AttentionLayer], AttentionLayer]:
    """Feeds a layer with what another one leaves of the same tokens, as in a stack."""
    return chained


@pytest.fixture
def layer(name: str, build) -> AttentionLayer:
    """A layer of the row, redrawn, and so is what it shares or what another hands to it."""
    first, second = build(name).layers
    return chained(first, second) if second.uses_carry else second


@pytest.fixture
def sizes(name: str) -> tuple[int, dict[str, object]]:
    """Number of heads and options of the layers that `build` makes of a row."""
    return heads_of(name), small(name)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(1)
