"""Which sequences make a batch: those of like length, so that little of it is padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from damcha_core.data.order import SampleKey, epoch_order
from damcha_core.data.randomness import generator

POOL_SIZE = 16_384
"""Samples that are sorted by length together, after the epoch has been shuffled."""


class KeyBatches(Sequence[list[SampleKey]]):
    """Batches of sample keys, made when they are asked for.

    An epoch of millions of samples is two arrays; a batch is a list of (epoch, id).

    Args:
        epoch: the epoch, the same for all.
        ids: sample ids (n,), batch after batch.
        bounds: (number of batches + 1,): batch i is ids[bounds[i]:bounds[i + 1]].
    """

    def __init__(self, epoch: int, ids: NDArray[np.int64], bounds: NDArray[np.int64]) -> None:
        assert ids.ndim == bounds.ndim == 1
        assert len(bounds) >= 1
        self._epoch = epoch
        self._ids = ids
        self._bounds = bounds

    @property
    def epoch(self) -> int:
        """The epoch the batches are of."""
        return self._epoch

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Samples of each batch (number of batches,)."""
        return np.diff(self._bounds)

    @property
    def n_samples(self) -> int:
        """Samples of all batches together."""
        return int(self._bounds[-1] - self._bounds[0])

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, index: int) -> list[SampleKey]: ...
    @overload
    def __getitem__(self, index: slice) -> KeyBatches: ...
    def __getitem__(self, index: int | slice) -> list[SampleKey] | KeyBatches:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError(f"batches are sliced with step 1, not {step}")
            return KeyBatches(self._epoch, self._ids, self._bounds[start : max(start, stop) + 1])
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"batch {index} of {n}")
        index %= n
        ids = self._ids[self._bounds[index] : self._bounds[index + 1]]
        return [(self._epoch, i) for i in ids.tolist()]

    def after(self, consumed: int) -> KeyBatches:
        """What is left when the first batches, of so many samples together, are used up.

        Args:
            consumed: samples already used.

        Raises:
            ValueError: consumed is negative or larger than the number of samples.
            ValueError: consumed lies inside a batch.
        """
        if not 0 <= consumed <= self.n_samples:
            raise ValueError(
                f"consumed must lie between 0 and {self.n_samples}, the samples there are, "
                f"not {consumed}"
            )
        place = int(np.searchsorted(self._bounds, self._bounds[0] + consumed))
        if self._bounds[place] - self._bounds[0] != consumed:
            raise ValueError(f"{consumed} consumed samples end inside batch {place - 1}")
        return self[place:]


def bucketed_batches(
    n_tokens: NDArray[np.integer], *, seed: int, epoch: int, batch_tokens: int, batch_size: int
) -> KeyBatches:
    """Batches of an epoch of training: a function of the seed, the epoch and the lengths alone.

    The epoch's order is cut into pools of 16,384 samples, each pool is sorted by length and cut
    into batches from the shortest on, and the batches of all pools are put into an order of
    their own. Every sample is in exactly one batch; none is left out at the end of a pool.

    Args:
        n_tokens: tokens of each whole sequence (n,).
        seed: the run's seed, within 64 bits.
        epoch: number of the epoch, from 0.
        batch_tokens: tokens of a batch at most, padding included: rows times the longest. A
            sequence that is longer makes a batch of its own. 0: no limit.
        batch_size: rows of a batch at most; 0: no limit.

    Raises:
        ValueError: a limit is negative, or both are 0.
        ValueError: the seed or the epoch does not fit into 64 bits.
    """
    if batch_tokens < 0 or batch_size < 0 or batch_tokens == batch_size == 0:
        raise ValueError(
            "batch_tokens and batch_size must be at least 0, and one of them more, not "
            f"{batch_tokens} and {batch_size}"
        )
    order = epoch_order(seed, epoch, len(n_tokens))
    n_pools = -(-len(order) // POOL_SIZE)
    bounds = [0]
    for pool in range(n_pools):
        start = pool * POOL_SIZE
        ids = order[start : start + POOL_SIZE]
        lengths = n_tokens[ids]
        by_length = np.argsort(lengths, kind="stable")
        order[start : start + POOL_SIZE] = ids[by_length]
        ends = _batch_ends(lengths[by_length].tolist(), batch_tokens, batch_size)
        bounds.extend(start + end for end in ends)
    edges = np.array(bounds, dtype=np.int64)
    draws = generator("batch order", seed, epoch).bit_generator.random_raw(len(edges) - 1)
    return _reordered(KeyBatches(epoch, order, edges), np.argsort(draws, kind="stable"))


def length_sorted_batches(
    n_tokens: NDArray[np.integer], batch_size: int, *, batch_tokens: int = 0
) -> KeyBatches:
    """Batches for evaluation: all samples once, the longest first, epoch 0.

    Longest first, so that too little memory shows in the first batch.

    Args:
        n_tokens: tokens of each whole sequence (n,).
        batch_size: rows of a batch at most, at least 1.
        batch_tokens: tokens of a batch at most, padding included; a sequence that is longer makes
            a batch of its own. 0: no limit.

    Raises:
        ValueError: batch_size is below 1, or batch_tokens negative.
    """
    if batch_size < 1 or batch_tokens < 0:
        raise ValueError(
            "batch_size must be at least 1 and batch_tokens at least 0, not "
            f"{batch_size} and {batch_tokens}"
        )
    n = len(n_tokens)
    ids = np.argsort(-np.asarray(n_tokens, dtype=np.int64), kind="stable").astype(np.int64)
    bounds = [0]
    while bounds[-1] < n:
        longest = max(1, int(n_tokens[ids[bounds[-1]]]))
        rows = min(batch_size, max(1, batch_tokens // longest)) if batch_tokens else batch_size
        bounds.append(min(n, bounds[-1] + rows))
    return KeyBatches(0, ids, np.array(bounds, dtype=np.int64))


def _batch_ends(lengths: list[int], batch_tokens: int, batch_size: int) -> list[int]:
    """Where batches end in a pool whose lengths ascend; as many rows in each as fit."""
    n = len(lengths)
    ends: list[int] = []
    start = 0
    while start < n:
        # No row is shorter than the first: an upper limit, and close, as lengths differ little.
        most = batch_tokens // max(1, lengths[start]) if batch_tokens else n
        most = max(1, min(most, batch_size or n, n - start))
        if batch_tokens:
            least = 1
            while least < most:  # rows times longest ascends with the rows: halve
                rows = (least + most + 1) // 2
                if rows * lengths[start + rows - 1] <= batch_tokens:
                    least = rows
                else:
                    most = rows - 1
        start += most
        ends.append(start)
    return ends


def _reordered(batches: KeyBatches, order: NDArray[np.integer]) -> KeyBatches:
    bounds = batches._bounds
    sizes = np.diff(bounds)[order]
    edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    # Place j of the new ids holds place j + (old start - new start) of its batch in the old ones.
    places = np.arange(edges[-1]) + np.repeat(bounds[:-1][order] - edges[:-1], sizes)
    return KeyBatches(batches.epoch, batches._ids[places], edges)
