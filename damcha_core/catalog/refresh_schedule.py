"""At which token counts a causal DAMCHA layer makes a new metric."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

RATIO = 1.25
"""Default ratio of the geometric schedule."""


class RefreshSchedule:
    """The refresh counts c_1 = 1 < c_2 < ...: a query that is the n-th real token of its sequence
    uses the metric of the prefix with the largest c_j <= n real tokens.

    They are 1, 2, 3, ... ("token", the exact layer), 1, 1 + s, 1 + 2 s, ... (a whole number s), or
    c_next = max(c + 1, ceil(g c)) in exact rationals ("geometric"). A prefix mean moves by O(1/t),
    so a geometric layer is close to the exact one with O(log N) metrics a sequence.

    Args:
        refresh: "token", "geometric" or a whole number of at least 1.
        ratio: g of the geometric schedule, above 1.

    Raises:
        ValueError: an argument is none of these.
    """

    def __init__(self, refresh: str | int = "token", ratio: float = RATIO) -> None:
        whole = isinstance(refresh, int) and not isinstance(refresh, bool) and refresh >= 1
        if not whole and refresh not in ("token", "geometric"):
            raise ValueError(
                f"refresh must be 'token', 'geometric' or a whole number from 1, got {refresh!r}"
            )
        if not 1.0 < ratio < float("inf"):
            raise ValueError(f"refresh_ratio must be above 1, got {ratio}")
        self.refresh, self.ratio = refresh, ratio
        exact = Fraction(str(ratio))
        self._numerator, self._denominator = exact.numerator, exact.denominator

    @property
    def is_exact(self) -> bool:
        """Whether every token has a metric of its own."""
        return self.refresh in ("token", 1)

    def after(self, count: int) -> int:
        """The refresh count that follows one."""
        if isinstance(self.refresh, int):
            return count + self.refresh
        if self.refresh == "token":
            return count + 1
        return max(count + 1, -(-self._numerator * count // self._denominator))

    def counts(self, n_tokens: int) -> list[int]:
        """The refresh counts up to and including n_tokens."""
        counts = []
        count = 1
        while count <= n_tokens:
            counts.append(count)
            count = self.after(count)
        return counts

    def n_metrics(self, n_tokens: int) -> int:
        """How many refresh counts there are up to and including n_tokens."""
        if self.refresh == "geometric":
            return len(self.counts(n_tokens))
        step = 1 if self.refresh == "token" else int(self.refresh)
        return -(-n_tokens // step)

    def runs(self, n_tokens: int) -> list[int]:
        """How many of n_tokens real tokens in a row use each metric."""
        starts = [*self.counts(n_tokens), n_tokens + 1]
        return [after - start for start, after in pairwise(starts)]
