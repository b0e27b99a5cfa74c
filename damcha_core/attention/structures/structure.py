"""What a structure of M is: a layout of emitted numbers, and the head metrics it implies.

A structure lays out the E numbers that a generator emits. `maps` turns them into linear maps that
are applied to a token one after the other, x_i -> x_i G_1 G_2 ..., whose product is m_i, the sum
over j of the blocks M_ij. Every sum over blocks is linear in the emitted numbers, so `maps` is
given the weights of the layer that emits them: the sum is taken once and not per token.

Shapes: E emitted numbers, D width, H heads, K head width, R rank, * any further axes (the inputs
of the emitting layer). A map is (G, A, B, *): G = H one map a head, G = 1 one for all heads.
Source of the formulas: Duan et al. 2026, section 2.
"""

from __future__ import annotations

import math

from torch import Tensor

from damcha_core.attention.layer import head_width


class Structure:
    """Layout of the emitted numbers of one structure.

    Args:
        d_model: width D.
        n_heads: number of heads H, a divisor of D.
        rank: number of columns R of the factors; 0 where there are none.

    Attributes:
        shape: the emitted numbers as an array; row-major when flattened.
        elementwise: True when the map is a diagonal (H, K, *) to multiply with.
        row_sum: how many equally treated blocks each emitted number stands for.
    """

    shape: tuple[int, ...]
    elementwise = False
    row_sum = 1

    def __init__(self, d_model: int, n_heads: int, rank: int = 0) -> None:
        self.d_model = d_model
        self.n_heads = n_heads
        self.rank = rank
        self.d_head = head_width(d_model, n_heads)

    @property
    def n_numbers(self) -> int:
        """How many numbers E a generator emits."""
        return math.prod(self.shape)

    def maps(self, numbers_E: Tensor) -> tuple[Tensor, ...]:
        """Linear maps whose product is m_i, from the emitted numbers (E, *)."""
        raise NotImplementedError

    def matrix(self, numbers_E: Tensor) -> Tensor:
        """M itself, (..., D, D) from (..., E), for inspection."""
        raise NotImplementedError

    def identity(self) -> Tensor:
        """Numbers (E) for which every m_i = I; with a rank below K, its first R directions."""
        raise NotImplementedError

    def fill_random(self, numbers_E: Tensor, bound: float) -> None:
        """Fill (E, *) in place, uniform within the bound."""
        numbers_E.uniform_(-bound, bound)
