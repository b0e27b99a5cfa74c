"""The learning rates that a tuning tries, and those to try next."""

from __future__ import annotations

from collections.abc import Sequence

GRID = (1e-3, 2e-3, 4e-3, 8e-3)
"""The rates that are tried unless others are named."""
DIGITS = 4
"""Significant digits of a rate that continues a grid."""


def written(rates: Sequence[float]) -> str:
    """Rates as `--grid` takes them."""
    return ",".join(map(repr, rates))


def widened(grid: Sequence[float], chosen: Sequence[float]) -> list[float]:
    """A grid with one more rate beyond each end at which a rate was chosen.

    Args:
        grid: at least two rates, ascending.
        chosen: the best rates, all of the grid.

    Returns:
        The grid in the steps that it has at that end, each a factor; ascending.
    """
    wide = list(grid)
    if grid[0] in chosen:
        wide.insert(0, _rounded(grid[0] * grid[0] / grid[1]))
    if grid[-1] in chosen:
        wide.append(_rounded(grid[-1] * grid[-1] / grid[-2]))
    return wide


def _rounded(rate: float) -> float:
    return float(f"{rate:.{DIGITS}g}")
