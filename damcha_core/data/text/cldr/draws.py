"""A stream of random choices for making phrases."""

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
    """

    def __init__(self, purpose: str) -> None:
        self._philox = generator(purpose).bit_generator
        self._block: list[int] = []
        self._bounds: dict[int, list[int]] = {}

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1, n at least 1."""
        if not self._block:
            self._block = self._philox.random_raw(_BLOCK).tolist()
            self._block.reverse()
        return self._block.pop() % n

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
