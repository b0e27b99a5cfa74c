"""Random choices out of raw 64-bit draws, the same on every machine and with every NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from damcha_core.data.randomness import generator

T = TypeVar("T")
_AT_ONCE = 4096


class Draws:
    """Choices one after the other from one stream.

    Args:
        purpose: what they are for (see `generator`).
        numbers: the whole numbers of the stream.
    """

    def __init__(self, purpose: str, *numbers: int) -> None:
        self._bits = generator(purpose, *numbers).bit_generator
        self._raw: list[int] = []

    def below(self, n: int) -> int:
        """A whole number of 0 to n - 1; n is at least 1."""
        if not self._raw:
            self._raw = self._bits.random_raw(_AT_ONCE).tolist()[::-1]
        return self._raw.pop() * n >> 64

    def percent(self, share: int) -> bool:
        """True in so many of a hundred cases."""
        return self.below(100) < share

    def pick(self, items: Sequence[T]) -> T:
        """One of the items; there must be some."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[int]) -> T:
        """One of the items, each as often as its weight says."""
        place = self.below(sum(weights))
        for item, weight in zip(items, weights, strict=True):
            place -= weight
            if place < 0:
                return item
        raise AssertionError("the weights do not add up to their sum")

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        result = list(items)
        for i in range(len(result) - 1, 0, -1):
            j = self.below(i + 1)
            result[i], result[j] = result[j], result[i]
        return result
