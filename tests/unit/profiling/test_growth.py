"""Exponents of laws that are known."""

from __future__ import annotations

import numpy as np
import pytest

from damcha_core.profiling.growth import fit_growth

LENGTHS = [64, 128, 256, 512]


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_a_power_law_is_found_exactly(exponent: float) -> None:
    found = fit_growth(LENGTHS, [7.0 * n**exponent for n in LENGTHS])
    assert found is not None
    assert found.exponent == pytest.approx(exponent, abs=1e-12)
    assert found.r_squared == pytest.approx(1.0)


def test_a_sum_of_two_laws_lies_between_and_fits_as_numpy_says() -> None:
    values = [1000.0 * n + 3.0 * n**2 for n in LENGTHS]
    found = fit_growth(LENGTHS, values)
    assert found is not None
    slope, _ = np.polyfit(np.log(LENGTHS), np.log(values), 1)
    correlation = np.corrcoef(np.log(LENGTHS), np.log(values))[0, 1]
    assert 1 < found.exponent < 2
    assert found.exponent == pytest.approx(slope)
    assert found.r_squared == pytest.approx(correlation**2)
    assert found.r_squared < 1


def test_one_length_has_no_exponent() -> None:
    assert fit_growth([64], [1.0]) is None
    assert fit_growth([], []) is None


def test_lengths_and_values_go_together() -> None:
    with pytest.raises(ValueError, match="2 lengths and 1 values"):
        fit_growth([1, 2], [1.0])
    with pytest.raises(ValueError, match="domain"):
        fit_growth([1, 2], [1.0, 0.0])
