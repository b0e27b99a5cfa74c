"""The rates that come after those of a grid."""

from __future__ import annotations

import pytest

from damcha_core.experiments.rate_grid import GRID, widened, written


@pytest.mark.parametrize(
    ("grid", "chosen", "wide"),
    [
        (GRID, [8e-3], [1e-3, 2e-3, 4e-3, 8e-3, 16e-3]),
        (GRID, [1e-3, 8e-3, 2e-3], [5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 16e-3]),
        (GRID, [2e-3], list(GRID)),
        ((3e-4, 1e-3, 3e-3), [3e-4, 3e-3], [9e-5, 3e-4, 1e-3, 3e-3, 9e-3]),
    ],
)
def test_a_grid_goes_on_in_its_own_steps(grid, chosen, wide):
    assert widened(grid, chosen) == wide


def test_a_grid_is_written_as_the_command_line_takes_it():
    assert written(widened(GRID, [8e-3])) == "0.001,0.002,0.004,0.008,0.016"
