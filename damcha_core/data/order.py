"""The order in which an epoch visits the samples, and how to go on in the middle of it.

The position in an epoch is the number of samples consumed. An interrupted epoch goes on with
`batches(epoch_order(seed, epoch, n), consumed, batch_size)`, which are exactly the batches that
the unbroken epoch has from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from damcha_core.data.randomness import generator

SampleKey = tuple[int, int]
"""(epoch, sample id): what a training sample depends on, together with the seed of the run."""


def epoch_order(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """A permutation of 0..n-1 that depends on the seed and the epoch alone.

    Args:
        seed: the run's seed, within 64 bits.
        epoch: number of the epoch, from 0.
        n: number of samples, at least 0.

    Returns:
        Sample ids (n,).

    Raises:
        ValueError: the seed or the epoch does not fit into 64 bits.
    """
    draws = generator("order", seed, epoch).bit_generator.random_raw(n)
    return np.argsort(draws, kind="stable").astype(np.int64)


def batches(
    order: Sequence[int] | NDArray[np.int64], consumed: int, batch_size: int
) -> list[list[int]]:
    """What is left of an epoch, in batches; the last one may be smaller and is kept.

    Args:
        order: sample ids in the order of the epoch.
        consumed: samples already used. A multiple of batch_size, or all of them: then the
            batches are those of the unbroken epoch.
        batch_size: samples in a batch, at least 1.

    Returns:
        Lists of sample ids; none when the epoch is complete.

    Raises:
        ValueError: batch_size is below 1.
        ValueError: consumed is negative or larger than the epoch.
        ValueError: consumed lies inside a batch.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    n = len(order)
    if not 0 <= consumed <= n:
        raise ValueError(
            f"consumed must lie between 0 and {n}, the samples of an epoch, not {consumed}"
        )
    if consumed % batch_size and consumed != n:
        raise ValueError(
            f"consumed must be a multiple of batch_size {batch_size} or all {n} samples, "
            f"not {consumed}"
        )
    ids = [int(i) for i in order[consumed:]]
    return [ids[start : start + batch_size] for start in range(0, len(ids), batch_size)]
