"""A stream of random choices for making texts, the same on every machine and with every NumPy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

from damcha_core.data.randomness import generator

T = TypeVar("T")

_BLOCK = 8192
# Added to the rank of a choice: the first of 100 is drawn 7 times as often as the last, not 100
# times, so that the rare ones too are seen often enough to be learnt.
_SKEW_OFFSET = 15


class Draws:
    """Choices from the raw 64-bit draws of one stream: whole-number arithmetic alone.

    Args:
        purpose: what the stream is for; another purpose is another stream.
        numbers: whole numbers that the stream depends on as well.
    """

    def __init__(self, purpose: str, *numbers: int) -> None:
        self._philox = generator(purpose, *numbers).bit_generator
        self._block: list[int] = []
        self._bounds: dict[int, list[int]] = {}

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1, n at least 1."""
        if not self._block:
            self._block = self._philox.random_raw(_BLOCK).tolist()
            self._block.reverse()
        return self._block.pop() % n

    def percent(self, share: int) -> bool:
        """True in so many of a hundred cases."""
        return self.below(100) < share

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, all alike."""
        return choices[self.below(len(choices))]

    def skewed(self, choices: Sequence[T]) -> T:
        """One of the choices, the first ones more often: weights 1 / (rank + 15), rank from 1."""
        n = len(choices)
        if n not in self._bounds:
            self._bounds[n] = list(
                accumulate(10**6 // (rank + _SKEW_OFFSET) for rank in range(1, n + 1))
            )
        bounds = self._bounds[n]
        return choices[bisect_right(bounds, self.below(bounds[-1]))]

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
