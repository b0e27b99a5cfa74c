"""Every sample once an epoch, and the same rest after any interruption."""

from __future__ import annotations

import numpy as np
import pytest

from damcha_core.data.order import batches, epoch_order


@pytest.mark.parametrize("n", [0, 1, 2, 65, 1297])
def test_an_epoch_visits_each_sample_once(n):
    assert sorted(epoch_order(3, 0, n).tolist()) == list(range(n))


def test_order_depends_on_seed_and_epoch():
    orders = [tuple(epoch_order(seed, epoch, 50)) for seed in (0, 1) for epoch in (0, 1)]
    assert len(set(orders)) == 4
    assert np.array_equal(epoch_order(1, 1, 50), epoch_order(1, 1, 50))


@pytest.mark.parametrize(("n", "batch_size"), [(65, 64), (10, 3), (9, 3), (3, 64), (7, 1)])
def test_any_interruption_goes_on_with_the_batches_that_were_left(n, batch_size):
    order = epoch_order(5, 2, n)
    whole = batches(order, 0, batch_size)
    assert [i for batch in whole for i in batch] == order.tolist()
    assert all(batch for batch in whole)
    consumed = 0
    for done, batch in enumerate(whole):
        assert batches(order, consumed, batch_size) == whole[done:]
        consumed += len(batch)
    assert batches(order, consumed, batch_size) == []


def test_ids_are_plain_numbers():
    assert all(type(i) is int for i in batches(epoch_order(0, 0, 5), 0, 5)[0])


@pytest.mark.parametrize(
    ("consumed", "batch_size", "named"),
    [
        (0, 0, "batch_size"),
        (-1, 2, "between 0 and 5"),
        (6, 2, "between 0 and 5"),
        (3, 2, "multiple"),
    ],
)
def test_impossible_positions_are_refused(consumed, batch_size, named):
    with pytest.raises(ValueError, match=named):
        batches(range(5), consumed, batch_size)
