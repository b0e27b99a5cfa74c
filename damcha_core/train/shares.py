"""Which samples of a micro-batch each process trains on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from damcha_core.data.order import SampleKey


class StandIn(dict[str, Tensor]):
    """A batch of another process's sample, trained on with weight zero.

    A process that has no sample of a micro-batch makes its passes on such a one, because all
    processes have to make the same passes.
    """


class Shares(Sequence[list[SampleKey]]):
    """The part of every micro-batch that one process loads.

    The samples are dealt out one by one, so that texts of like length, which lie side by side, are
    spread evenly, and no process gets more than one sample more than another.

    Args:
        key_batches: the micro-batches of all processes together.
        rank: the process.
        size: number of processes.
    """

    def __init__(self, key_batches: Sequence[list[SampleKey]], rank: int, size: int) -> None:
        self._key_batches = key_batches
        self._rank = rank
        self._size = size

    def __len__(self) -> int:
        return len(self._key_batches)

    def __getitem__(self, index: int) -> list[SampleKey]:  # type: ignore[override]
        keys = self._key_batches[index]
        return keys[self._rank :: self._size] or keys[:1]

    def __iter__(self) -> Iterator[list[SampleKey]]:
        return (self[index] for index in range(len(self)))

    def stands_in(self, index: int) -> bool:
        """Whether the process has no sample of its own in a micro-batch."""
        return len(self._key_batches[index]) <= self._rank
