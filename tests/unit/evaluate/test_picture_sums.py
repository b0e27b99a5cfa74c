"""Sums that depend on nothing but the summed values."""

from __future__ import annotations

import math

import pytest
import torch

from damcha_core.evaluate.picture_sums import as_float64, picture_sums


@pytest.mark.parametrize("n_values", [1, 2, 3, 5, 64, 147, 3072, 12_289])
def test_sum_equals_the_correctly_rounded_one(n_values: int) -> None:
    values = torch.randn(4, n_values, dtype=torch.float64)
    kept = values.clone()
    expected = [math.fsum(row) for row in values.tolist()]
    assert picture_sums(values).tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert torch.equal(values, kept)


def test_sum_of_a_picture_is_the_same_bits_alone_and_in_a_batch() -> None:
    values = torch.randn(33, 3, 21, 21, dtype=torch.float64)
    alone = torch.cat([picture_sums(picture[None]) for picture in values])
    assert torch.equal(picture_sums(values), alone)


def test_pictures_without_values_sum_to_zero() -> None:
    assert picture_sums(torch.ones(2, 0, dtype=torch.float64)).tolist() == [0.0, 0.0]
    assert picture_sums(torch.ones(0, 5, dtype=torch.float64)).tolist() == []


def test_integers_are_refused_because_their_range_is_unknown() -> None:
    with pytest.raises(TypeError, match="uint8"):
        as_float64(torch.zeros(1, 1, 2, 2, dtype=torch.uint8))


def test_gradient_history_is_dropped() -> None:
    assert not as_float64(torch.ones(2, requires_grad=True)).requires_grad
