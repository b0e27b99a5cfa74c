"""Every sample once an epoch, no batch over its limits, and the same rest after a stop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damcha_core.data.text import token_batches
from damcha_core.data.text.token_batches import (
    KeyBatches,
    bucketed_batches,
    length_sorted_batches,
)


def lengths_of(n, seed=0):
    return np.random.RandomState(seed).randint(5, 120, n).astype(np.int32)


def ids_of(batches):
    return [[i for _, i in batch] for batch in batches]


def bucketed(n_tokens, **options):
    return bucketed_batches(
        np.asarray(n_tokens, dtype=np.int32),
        **{"seed": 0, "epoch": 0, "batch_tokens": 1000, "batch_size": 0, **options},
    )


limits = st.sampled_from([(0, 1), (0, 7), (50, 0), (300, 0), (1000, 4), (10**6, 0), (1, 3)])


@given(
    lengths=st.lists(st.integers(3, 200), max_size=80),
    limit=limits,
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
)
def test_all_samples_once_and_no_batch_over_its_limits(lengths, limit, seed, epoch):
    batch_tokens, batch_size = limit
    n_tokens = np.array(lengths, dtype=np.int32)
    batches = bucketed(
        n_tokens, seed=seed, epoch=epoch, batch_tokens=batch_tokens, batch_size=batch_size
    )
    assert sorted(i for ids in ids_of(batches) for i in ids) == list(range(len(lengths)))
    for batch in batches:
        assert batch
        assert all(e == epoch for e, _ in batch)
        rows = len(batch)
        longest = max(lengths[i] for _, i in batch)
        assert not batch_size or rows <= batch_size
        assert not batch_tokens or rows == 1 or rows * longest <= batch_tokens


def test_batches_are_as_full_as_they_can_be():
    # Sorted: 3 4 4 5 | 6 6 | 9 | 30: one row more would be over 20 tokens each time.
    lengths = [9, 6, 4, 30, 5, 3, 6, 4]
    found = sorted(
        sorted(lengths[i] for i in ids) for ids in ids_of(bucketed(lengths, batch_tokens=20))
    )
    assert found == [[3, 4, 4, 5], [6, 6], [9], [30]]


def test_the_many_sizes_fill_as_one_by_one_would(monkeypatch):
    monkeypatch.setattr(token_batches, "POOL_SIZE", 10**6)
    lengths = lengths_of(3000)
    expected, rows = [], []
    for length in sorted(lengths.tolist()):
        if rows and (len(rows) + 1) * length > 700:
            expected.append(rows)
            rows = []
        rows.append(length)
    expected.append(rows)
    found = [[lengths[i] for i in ids] for ids in ids_of(bucketed(lengths, batch_tokens=700))]
    assert sorted(found) == sorted(expected)


def test_a_function_of_seed_epoch_and_lengths():
    lengths = lengths_of(300)
    orders = {
        str(ids_of(bucketed(lengths, seed=seed, epoch=epoch)))
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(orders) == 4
    assert ids_of(bucketed(lengths, seed=1)) == ids_of(bucketed(lengths.tolist(), seed=1))


def test_the_batches_of_a_seed_stay_what_they_are():
    # The order of an epoch is part of what a run's seed means: a change breaks every resume.
    batches = bucketed([7, 3, 9, 4, 5, 3, 8, 6], seed=3, epoch=1, batch_tokens=18)
    assert ids_of(batches) == [[5, 1, 3], [4, 7], [2], [0, 6]]


def test_the_order_of_batches_is_mixed():
    longest = [int(lengths_of(2000)[ids].max()) for ids in ids_of(bucketed(lengths_of(2000)))]
    assert longest != sorted(longest)
    assert longest[: len(longest) // 2] != sorted(longest)[: len(longest) // 2]


def test_little_is_padding(monkeypatch):
    lengths = lengths_of(5000)
    for pool, least in ((token_batches.POOL_SIZE, 0.9), (500, 0.8)):
        monkeypatch.setattr(token_batches, "POOL_SIZE", pool)
        batches = ids_of(bucketed(lengths, batch_tokens=2000))
        padded = sum(len(ids) * int(lengths[ids].max()) for ids in batches)
        assert lengths.sum() / padded > least


def test_pools_are_filled_from_the_shuffled_epoch(monkeypatch):
    monkeypatch.setattr(token_batches, "POOL_SIZE", 64)
    lengths = np.arange(1000, dtype=np.int32) + 3
    batches = bucketed(lengths, batch_tokens=0, batch_size=64)
    assert sorted(len(ids) for ids in ids_of(batches)) == [1000 % 64, *[64] * 15]
    # A pool of neighbours would span 64 places; one of a shuffled epoch spans nearly all.
    assert all(max(ids) - min(ids) > 500 for ids in ids_of(batches))


@pytest.mark.parametrize(("n", "sizes"), [(3, [3]), (64, [64]), (65, [1, 64]), (0, [])])
def test_few_samples_make_few_batches_and_lose_none(n, sizes):
    batches = bucketed(lengths_of(n), batch_tokens=0, batch_size=64)
    assert sorted(batches.sizes.tolist()) == sizes
    assert batches.n_samples == n


@pytest.mark.parametrize(
    ("batch_tokens", "batch_size"), [(0, 0), (-1, 5), (5, -1), (-1, 0), (-2, -2)]
)
def test_wrong_limits_are_refused(batch_tokens, batch_size):
    with pytest.raises(ValueError, match="batch_tokens and batch_size"):
        bucketed(lengths_of(5), batch_tokens=batch_tokens, batch_size=batch_size)


def test_any_stop_between_batches_goes_on_with_the_rest():
    batches = bucketed(lengths_of(200))
    whole = list(batches)
    consumed = 0
    for done, batch in enumerate(whole):
        rest = batches.after(consumed)
        assert list(rest) == whole[done:]
        assert len(rest) == len(whole) - done
        assert list(rest.after(len(batch))) == whole[done + 1 :]
        consumed += len(batch)
    assert list(batches.after(consumed)) == []
    assert len(batches.after(200)) == 0


@pytest.mark.parametrize("start", [0, 2])
def test_a_stop_inside_a_batch_is_refused(start):
    batches = bucketed(lengths_of(200))[start:]
    first = int(batches.sizes[0])
    assert first > 1
    for inside in (1, first - 1, first + 1):
        with pytest.raises(ValueError, match=r"inside batch [01]$"):
            batches.after(inside)


@pytest.mark.parametrize("consumed", [-1, 201])
def test_a_stop_outside_the_epoch_is_refused(consumed):
    with pytest.raises(ValueError, match="between 0 and 200"):
        bucketed(lengths_of(200)).after(consumed)


def test_batches_are_a_sequence():
    batches = bucketed(lengths_of(200), epoch=5)
    whole = list(batches)
    assert len(batches) == len(whole) == len(batches.sizes)
    assert [len(batch) for batch in whole] == batches.sizes.tolist()
    assert batches[-1] == batches[len(batches) - 1] == whole[-1]
    assert all(type(number) is int for batch in whole for key in batch for number in key)
    assert batches.epoch == batches[1:].epoch == 5
    for wrong in (len(batches), -len(batches) - 1):
        with pytest.raises(IndexError):
            batches[wrong]


@pytest.mark.parametrize(
    "part",
    [slice(None), slice(2, 5), slice(-3, None), slice(3, 3), slice(5, 2), slice(4, 999)],
)
def test_slices_are_batches_too(part):
    batches = bucketed(lengths_of(200))
    assert isinstance(batches[part], KeyBatches)
    assert list(batches[part]) == list(batches)[part]
    assert list(batches[1:][part]) == list(batches)[1:][part]
    assert batches[part].n_samples == sum(map(len, list(batches)[part]))
    with pytest.raises(ValueError, match="step 1"):
        batches[::2]


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200])
def test_evaluation_sees_all_once_the_longest_first(n):
    lengths = lengths_of(n)
    batches = length_sorted_batches(lengths, 64)
    assert batches.epoch == 0
    assert batches.sizes.tolist() == [min(64, n - start) for start in range(0, n, 64)]
    ids = [i for batch in ids_of(batches) for i in batch]
    assert sorted(ids) == list(range(n))
    # Among equals the first comes first.
    assert ids == sorted(range(n), key=lambda i: (-int(lengths[i]), i))


def test_evaluation_without_rows_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        length_sorted_batches(lengths_of(5), 0)


def test_an_epoch_of_a_million_is_two_arrays():
    lengths = lengths_of(1_000_000)
    batches = bucketed(lengths, batch_tokens=25_000)
    held = batches._ids.nbytes + batches._bounds.nbytes
    assert held < 9 * 1_000_000
    assert batches.n_samples == 1_000_000
    assert np.array_equal(np.sort(batches._ids), np.arange(1_000_000))


def test_a_limit_of_tokens_in_evaluation_makes_batches_of_long_texts_smaller() -> None:
    lengths = np.array([3, 50, 7, 7, 20, 120, 1], dtype=np.int32)
    batches = length_sorted_batches(lengths, 4, batch_tokens=60)
    assert [[i for _, i in batch] for batch in batches] == [[5], [1], [4, 2, 3], [0, 6]]
    assert batches.n_samples == 7
    with pytest.raises(ValueError, match="batch_tokens at least 0"):
        length_sorted_batches(lengths, 4, batch_tokens=-1)
