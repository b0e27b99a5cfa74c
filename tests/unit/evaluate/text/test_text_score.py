"""The common form of a text score."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from damcha_core.evaluate.text.text_score import check_items, mean_score, means


def test_mean_leaves_undefined_items_out() -> None:
    score = mean_score([1.0, None, 2.0], signature="s", notices=["n"])
    assert (score.value, score.n, score.items) == (1.5, 2, (1.0, None, 2.0))
    assert (score.signature, score.notices) == ("s", ("n",))
    assert score.interval is None
    assert score.sums is not None
    assert means(score.sums.rows.sum(axis=0)[None]).tolist() == [1.5]


def test_mean_of_nothing_is_undefined() -> None:
    for items in ([], [None, None]):
        score = mean_score(items, signature="s")
        assert (score.value, score.n) == (None, 0)
        assert score.sums is not None
        assert score.sums.rows.shape == (len(items), 2)
    assert math.isnan(means(np.zeros((1, 2)))[0])


def test_mean_does_not_depend_on_the_order() -> None:
    items = [random.Random(1).gauss(0, 10**power) for power in range(-8, 9)]
    value = mean_score(items, signature="s").value
    for seed in range(10):
        random.Random(seed).shuffle(items)
        assert mean_score(items, signature="s").value == value


def test_check_of_items() -> None:
    check_items([], [])
    check_items(["a"], [["b", "c"]])
    with pytest.raises(ValueError, match="1 outputs but references for 2 items"):
        check_items(["a"], [["a"], ["b"]])
    with pytest.raises(ValueError, match="Item 0 has no reference"):
        check_items(["a"], [[]])
    with pytest.raises(TypeError, match="must be a list of texts"):
        check_items(["a"], ["a"])
