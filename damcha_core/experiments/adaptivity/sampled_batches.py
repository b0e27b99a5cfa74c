"""Some sequences of a split in batches, and the partner that lends each its metrics."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from damcha_core.data.loader import make_loader
from damcha_core.data.order import SampleKey
from damcha_core.errors import UsageError
from damcha_core.tasks.task import Batch, Task, move_batch

BATCH = 32
"""Sequences a batch; fixed, because it decides who is whose partner."""


def sampled_keys(task: Task, split: str, n_samples: int) -> list[list[SampleKey]]:
    """Sequences spread evenly over a split, in the order of an evaluation, BATCH at a time.

    Args:
        task: whose data.
        split: "train", "valid", or what else the task has.
        n_samples: how many; all of a smaller split.

    Returns:
        Batches of at least two, so that everyone has a partner.

    Raises:
        UsageError: fewer than two sequences, or no such split.
    """
    keys = [key for batch in task.evaluation_batches(split, BATCH) for key in batch]
    n = min(n_samples, len(keys))
    if n < 2:
        raise UsageError(
            f"{n} sequences of {split}: to swap contexts takes at least two; raise the number of "
            "samples or choose a larger split"
        )
    ids = sorted(sample for _, sample in keys)
    chosen = {ids[place * len(ids) // n] for place in range(n)}
    kept = [key for key in keys if key[1] in chosen]
    batches = [kept[start : start + BATCH] for start in range(0, n, BATCH)]
    if len(batches[-1]) == 1:
        batches[-2:] = [batches[-2] + batches[-1]]
    return batches


def sampled_batches(
    task: Task, split: str, keys: list[list[SampleKey]], like: Tensor
) -> Iterator[Batch]:
    """The batches of these keys, on the device of a tensor and in its number format."""
    for batch in make_loader(task.dataset(split, training=False), keys, workers=0):
        yield move_batch(batch, like)


def partners(n_batch: int) -> list[int]:
    """For each row of a batch another one: half the batch further on, and round the end.

    Half a batch away, because neighbours in a split may be of one class or one source.
    """
    return [(row + n_batch // 2) % n_batch for row in range(n_batch)]
