"""Streams are a function of purpose and numbers alone."""

from __future__ import annotations

import numpy as np
import pytest

from damcha_core.data.randomness import generator, raw_draws, stream_key, torch_seed


def test_same_purpose_and_numbers_give_the_same_stream():
    first = generator("order", 1, 2).bit_generator.random_raw(50)
    again = generator("order", 1, 2).bit_generator.random_raw(50)
    assert np.array_equal(first, again)


def test_streams_differ_when_anything_differs():
    numbers = [(), (0,), (0, 0), (1,), (1, 0), (0, 1), (2**32,), (1, 2**32), (-1,), (2**63 - 1,)]
    keys = {stream_key(purpose, *row) for purpose in ("order", "augment", "") for row in numbers}
    assert len(keys) == 3 * len(numbers)


def test_stream_is_the_stored_one():
    """Another NumPy, Python or machine must not change the order of an epoch."""
    raw = generator("order", 7, 3).bit_generator.random_raw(3)
    assert raw.tolist() == [11777662432803657874, 3431939889965971051, 11524814659105280384]


def test_draws_of_many_streams_equal_single_generators():
    rows = [(5, 0, 17), (5, 1, 17), (5, 0, 18)]
    draws = raw_draws("augment", rows, 11)
    for row, numbers in zip(draws, rows, strict=True):
        alone = generator("augment", *numbers).bit_generator.random_raw(11)
        assert np.array_equal(row, alone)
    assert raw_draws("augment", [], 11).shape == (0, 11)
    assert raw_draws("augment", rows, 0).shape == (3, 0)


def test_draws_are_uniform():
    shares = raw_draws("check", [(i,) for i in range(2000)], 10) / 2.0**64
    assert abs(shares.mean() - 0.5) < 0.01
    assert abs(shares[:, 0].std() - 12**-0.5) < 0.01


def test_torch_seed_fits_torch():
    seeds = {torch_seed("dropout", 1, step, 0) for step in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_numbers_beyond_64_bits_are_refused(number):
    with pytest.raises(ValueError, match="between"):
        generator("order", number)
