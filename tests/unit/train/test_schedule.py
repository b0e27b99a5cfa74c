"""The learning-rate factor: warm-up, cosine, floor, and their edges."""

from __future__ import annotations

import itertools
import math

import pytest

from damcha_core.train.schedule import lr_factor


def factors(warmup: int, horizon: int, floor: float, n: int) -> list[float]:
    return [
        lr_factor(update, warmup_steps=warmup, horizon_steps=horizon, min_lr_ratio=floor)
        for update in range(n)
    ]


def test_warm_up_grows_linearly_and_is_above_zero_at_once():
    assert factors(4, 20, 0.0, 5) == [0.25, 0.5, 0.75, 1.0, 1.0]


def test_without_warm_up_the_first_update_has_the_peak():
    assert factors(0, 10, 0.1, 1) == [1.0]


def test_the_cosine_follows_its_formula_to_the_floor():
    warmup, horizon, floor = 3, 13, 0.2
    values = factors(warmup, horizon, floor, horizon + 1)
    for update in range(warmup, horizon + 1):
        share = (update - warmup) / (horizon - warmup)
        expected = floor + (1 - floor) * (1 + math.cos(math.pi * share)) / 2
        assert values[update] == pytest.approx(expected, rel=1e-15)
    assert values[(warmup + horizon) // 2] == pytest.approx((1 + floor) / 2)


@pytest.mark.parametrize("update", [10, 11, 1000])
def test_past_the_horizon_the_floor_stays(update):
    assert lr_factor(update, warmup_steps=2, horizon_steps=10, min_lr_ratio=0.3) == pytest.approx(
        0.3, rel=1e-15
    )


@pytest.mark.parametrize(("warmup", "horizon"), [(6, 6), (9, 6), (4000, 30)])
def test_warm_up_as_long_as_the_schedule_divides_by_nothing(warmup, horizon):
    values = factors(warmup, horizon, 0.1, max(warmup, horizon) + 2)
    assert values[:horizon] == [(u + 1) / warmup for u in range(horizon)]
    assert set(values[horizon:]) == {0.1}  # added epochs run at the floor, warm or not
    assert values[-1] == pytest.approx(0.1)


@pytest.mark.parametrize("warmup", [0, 1])
def test_one_step_in_all_has_the_peak(warmup):
    assert factors(warmup, 1, 0.0, 1) == [1.0]


@pytest.mark.parametrize("floor", [0.0, 0.01, 1.0])
def test_factors_never_rise_after_the_warm_up_nor_leave_their_range(floor):
    values = factors(5, 30, floor, 60)
    assert all(0 < value <= 1 for value in values[:5])
    assert all(floor <= value <= 1 for value in values[5:])
    assert all(later <= earlier for earlier, later in itertools.pairwise(values[5:]))
