"""Medians, ranges and paired ratios."""

from __future__ import annotations

import numpy as np
import pytest

from damcha_core.profiling.profile_record import Range
from damcha_core.profiling.spread import paired_ratios, quantile, spread


def test_quantiles_are_numpys() -> None:
    values = [3.0, 1.0, 7.5, 2.0, 9.0, 4.0, 4.0]
    for share in (0.0, 0.2, 0.33, 0.5, 0.8, 1.0):
        assert quantile(values, share) == pytest.approx(np.quantile(values, share))


def test_one_value_is_its_own_spread() -> None:
    assert spread([2.5]) == Range(median=2.5, p20=2.5, p80=2.5)


def test_a_paired_ratio_does_not_see_a_change_that_hits_both() -> None:
    """Twice as slow in half of the rounds: the ratio of medians is 1.5, that of pairs is 3."""
    base = [1.0, 2.0, 2.0, 1.0, 2.0]
    assert paired_ratios([3 * value for value in base], base) == Range(median=3, p20=3, p80=3)


def test_pairs_have_to_be_complete() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_ratios([1.0], [1.0, 2.0])


def test_ranges_that_touch_overlap() -> None:
    one = Range(median=2, p20=1, p80=3)
    assert one.overlaps(Range(median=3, p20=3, p80=4))
    assert not one.overlaps(Range(median=5, p20=3.1, p80=6))
    assert not Range(median=5, p20=3.1, p80=6).overlaps(one)
