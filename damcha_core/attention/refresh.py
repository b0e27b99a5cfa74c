"""At which tokens a causal layer makes a new metric.

Shapes: B batch, N tokens, J metrics of a sequence, D width, H heads, K head width.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import torch
from torch import Tensor

from damcha_core.attention.pooling import prefix_mean
from damcha_core.attention.token_runs import run_of_token

RATIO = 1.25
"""Default ratio of the geometric schedule."""


class Refresh:
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

    def runs(self, n_tokens: int) -> list[int]:
        """How many of n_tokens real tokens in a row use each metric."""
        starts = [*self.counts(n_tokens), n_tokens + 1]
        return [after - start for start, after in pairwise(starts)]

    def contexts(self, packed_BND: Tensor) -> Tensor:
        """The means that the metrics are made from.

        Args:
            packed_BND: tokens, the real ones of each sequence first (`Packing`).

        Returns:
            Tensor (B, J, D), float32 or wider. Those of counts that a sequence does not reach are
            finite and belong to no real token.
        """
        places = [count - 1 for count in self.counts(packed_BND.shape[1])]
        index_J = torch.tensor(places, dtype=torch.long, device=packed_BND.device)
        return prefix_mean(packed_BND).index_select(1, index_J)

    def context_of_tokens(self, x_BND: Tensor, key_mask: Tensor | None) -> Tensor:
        """The mean that each token's metric is made from: (B, N, D), zeros before a real token."""
        n_tokens = x_BND.shape[1]
        run_N = run_of_token(self.runs(n_tokens), x_BND.device)
        if key_mask is None:
            return self.contexts(x_BND).index_select(1, run_N)
        contexts_BJD = self.contexts(Packing(key_mask).pack(x_BND))
        count_BN = key_mask.cumsum(1)
        run_BN = run_N[(count_BN - 1).clamp(min=0)]
        held_BND = contexts_BJD.take_along_dim(run_BN.unsqueeze(-1), 1)
        return torch.where(count_BN.unsqueeze(-1) > 0, held_BND, held_BND.new_zeros(()))


class Packing:
    """The order that has the real tokens of each sequence first, and the way back.

    Refresh counts number the real tokens. Once these stand first, the n-th of every sequence is
    in one place, wherever its pads were.

    Args:
        key_mask: bool (B, N), True = real token.
    """

    def __init__(self, key_mask: Tensor) -> None:
        n_real_B1 = key_mask.sum(1, keepdim=True)
        among_real_BN, among_pads_BN = key_mask.cumsum(1), (~key_mask).cumsum(1)
        self.place_BN = torch.where(key_mask, among_real_BN, n_real_B1 + among_pads_BN) - 1
        self.order_BN = self.place_BN.argsort(1)

    def pack(self, x_BND: Tensor) -> Tensor:
        """Tokens with the real ones first."""
        return x_BND.take_along_dim(self.order_BN.unsqueeze(-1), 1)

    def unpack(self, x_BHNK: Tensor) -> Tensor:
        """Heads of packed tokens in the order of the sequence."""
        return x_BHNK.take_along_dim(self.place_BN[:, None, :, None], 2)
