"""Intervals, Holm's correction and the bootstrap over seeds and items, against other ways."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damcha_core.experiments.results.aggregate import spread
from damcha_core.experiments.results.hierarchical import (
    drawn_means,
    drawn_seeds,
    hierarchical_test,
)
from damcha_core.experiments.results.holm import holm
from damcha_core.experiments.results.student_t import central_share, t_quantile

PRINTED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 29: 2.045, 120: 1.980}
"""Two-sided 95 % points as any table of the distribution has them."""


@pytest.mark.parametrize(("n_degrees", "quantile"), PRINTED.items())
def test_the_quantile_is_that_of_a_printed_table(n_degrees, quantile) -> None:
    assert t_quantile(n_degrees) == pytest.approx(quantile, abs=5e-4)


@pytest.mark.parametrize("n_degrees", [1, 2, 3, 4, 7, 8, 30])
def test_the_share_is_the_integral_of_the_density(n_degrees) -> None:
    t = 1.7
    scale = math.gamma((n_degrees + 1) / 2) / math.gamma(n_degrees / 2)
    scale /= math.sqrt(n_degrees * math.pi)
    places = np.linspace(-t, t, 20001)
    density = scale * (1 + places**2 / n_degrees) ** (-(n_degrees + 1) / 2)
    integral = float(np.sum((density[1:] + density[:-1]) / 2) * (places[1] - places[0]))
    assert central_share(math.atan(t / math.sqrt(n_degrees)), n_degrees) == pytest.approx(
        integral, abs=1e-7
    )


@pytest.mark.parametrize(("n_degrees", "level"), [(0, 0.95), (3, 0.0), (3, 1.0)])
def test_no_quantile_is_made_up(n_degrees, level) -> None:
    with pytest.raises(ValueError, match="no t quantile"):
        t_quantile(n_degrees, level)


def test_the_spread_of_three_seeds_by_hand() -> None:
    found = spread([1.0, 2.0, 6.0])
    assert found is not None
    assert (found.mean, found.n) == (3.0, 3)
    assert found.deviation == pytest.approx(math.sqrt(7.0))
    half = 4.302652730 * math.sqrt(7.0 / 3)
    assert found.interval == pytest.approx((3 - half, 3 + half))


def test_one_seed_has_no_spread_and_none_has_nothing() -> None:
    one = spread([2.5])
    assert one is not None
    assert (one.mean, one.deviation, one.interval, one.n) == (2.5, None, None, 1)
    assert spread([]) is None


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, None, 0.9]) == [1.0, None, 1.0]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([None]) == [None]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_lies_between_none_and_bonferroni(p_values) -> None:
    corrected = holm(p_values)
    for (p_value, own), (other, its) in itertools.product(
        zip(p_values, corrected, strict=True), repeat=2
    ):
        assert own is not None
        assert its is not None
        assert p_value <= own <= min(1.0, p_value * len(p_values)) + 1e-15
        assert own <= its or p_value > other


def test_seeds_are_drawn_evenly_one_fewer_than_there_are() -> None:
    counts = drawn_seeds(3, 30_000)
    assert counts.shape == (30_000, 3)
    assert (counts.sum(axis=1) == 2).all()
    assert counts.mean(axis=0) == pytest.approx([2 / 3] * 3, abs=0.02)
    assert (drawn_seeds(3, 30_000) == counts).all()


def test_without_spread_over_items_the_drawn_means_are_those_of_all_draws_of_seeds() -> None:
    values = np.array([1.0, 2.0, 6.0])
    drawn = drawn_means(np.repeat(values[:, None], 40_000, axis=1))
    exact = [sum(pair) / 2 for pair in itertools.product(values, repeat=2)]
    assert set(np.round(drawn, 12)) == set(exact)
    assert drawn.mean() == pytest.approx(np.mean(exact), abs=0.03)
    # The point of drawing one fewer: the spread is the unbiased one of the mean of three.
    assert drawn.var() == pytest.approx(values.var(ddof=1) / 3, rel=0.02)


def test_with_equal_seeds_the_drawn_means_are_those_of_the_items() -> None:
    of_items = np.array([0.5, 0.1, -0.3])
    assert drawn_means(np.stack([of_items] * 4)) == pytest.approx(of_items)


def test_a_seed_that_is_not_drawn_does_not_count() -> None:
    drawn = drawn_means(np.array([[np.nan] * 500, [1.0] * 500]))
    assert set(drawn[np.isfinite(drawn)]) == {1.0}
    assert 150 < np.isnan(drawn).sum() < 350


def test_the_hierarchical_test_of_a_known_case() -> None:
    n = 999
    zeros = [np.zeros(n)] * 2
    # Seeds differ by 1 and 3, items not at all: half of the means are 1, half 3, d = 2.
    interval, p_value = hierarchical_test(zeros, [np.full(n, 1.0), np.full(n, 3.0)], 2.0)
    assert interval == (1.0, 3.0)
    assert p_value == pytest.approx(1 / (n + 1))
    # Seeds differ by -1 and 3: every mean is as far from d = 1 as 2, which is more than |d|.
    interval, p_value = hierarchical_test(zeros, [np.full(n, -1.0), np.full(n, 3.0)], 1.0)
    assert interval == (-1.0, 3.0)
    assert p_value == 1.0
    assert hierarchical_test(zeros, zeros, 0.0) == ((0.0, 0.0), 1.0)
    assert hierarchical_test([np.full(n, np.nan)] * 2, zeros, 0.0) == (None, None)
