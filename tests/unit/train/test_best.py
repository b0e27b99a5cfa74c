"""The best score: ties, directions, waiting."""

from __future__ import annotations

import math

import pytest

from damcha_core.train.best import Best


@pytest.mark.parametrize(("better", "sign"), [("higher", 1.0), ("lower", -1.0)])
def test_a_better_value_counts_in_its_direction(better: str, sign: float) -> None:
    best = Best()
    taken = [best.update(sign * value, step, better=better) for step, value in enumerate([1, 3, 2])]
    assert taken == [True, True, False]
    assert (best.value, best.step, best.waited) == (sign * 3, 1, 1)


def test_of_equal_values_the_lower_loss_is_kept_and_the_waiting_goes_on() -> None:
    best = Best()
    losses = [6.0, 5.5, 5.7, 5.0]
    taken = [best.update(0.0, s, better="higher", loss=loss) for s, loss in enumerate(losses)]
    assert taken == [True, True, False, True]
    assert (best.step, best.loss, best.waited) == (3, 5.0, 3)
    assert best.update(0.1, 4, better="higher", loss=9.0)
    assert (best.value, best.loss, best.waited) == (0.1, 9.0, 0)


def test_without_losses_the_first_of_equal_values_stays() -> None:
    best = Best()
    assert best.update(1.0, 1, better="higher")
    assert not best.update(1.0, 2, better="higher")
    assert not best.update(1.0, 3, better="higher", loss=0.1)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_no_number_never_counts(value: float | None) -> None:
    best = Best()
    assert not best.update(value, 1, better="lower", loss=1.0)
    assert (best.value, best.loss, best.waited) == (None, None, 1)
