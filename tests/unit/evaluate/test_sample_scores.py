"""The table of per-sample values."""

from __future__ import annotations

import pytest

from damcha_core.evaluate.sample_scores import SampleScores


def test_rows_come_back_in_the_order_of_their_ids() -> None:
    table = SampleScores(("a", "b"))
    table.add([7, 2], {"a": [0.7, 0.2], "b": [None, 1.0]})
    table.add([5], {"a": [0.5], "b": [3.0]})
    assert table.ids() == [2, 5, 7]
    assert len(table) == 3
    assert table.column("a") == [0.2, 0.5, 0.7]
    assert table.mean("b") == (2.0, 2)


def test_mean_does_not_depend_on_the_order_even_under_cancellation() -> None:
    values = [1e16, 1.0, -1e16, 1e-3]
    forward, backward = SampleScores(("v",)), SampleScores(("v",))
    forward.add(range(4), {"v": values})
    backward.add([3, 2, 1, 0], {"v": values[::-1]})
    assert forward.mean("v") == backward.mean("v") == (1.001 / 4, 4)


def test_pooled_weighs_samples_by_their_counts() -> None:
    table = SampleScores(("sum", "count"))
    table.add([0, 1, 2], {"sum": [1.0, 9.0, 0.0], "count": [1, 9, 0]})
    assert table.pooled("sum", "count") == (1.0, 10)


def test_nothing_to_average_is_none() -> None:
    table = SampleScores(("sum", "count"))
    assert table.mean("sum") == table.pooled("sum", "count") == (None, 0)
    table.add([0], {"sum": [0.0], "count": [0]})
    assert table.pooled("sum", "count") == (None, 0)


def test_a_sample_cannot_count_twice() -> None:
    table = SampleScores(("v",))
    table.add([4], {"v": [1.0]})
    with pytest.raises(ValueError, match="Sample 4 was scored twice"):
        table.add([4], {"v": [1.0]})
