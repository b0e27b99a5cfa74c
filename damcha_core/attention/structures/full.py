"""M without a zero block: unconstrained in its two forms, and symmetric.

Shapes: E emitted numbers, D width, H heads, K head width, * any further axes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from damcha_core.attention.structures.structure import Structure


class FullMatrix(Structure):
    """M unconstrained, emitted whole, row-major; the row sums are taken in `maps`."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.shape = (d_model, d_model)

    def blocks(self, numbers_E: Tensor) -> Tensor:
        """(E, *) as (H, K, H, K, *): element (a, b) of block (i, j) at [i, a, j, b]."""
        sizes = (self.n_heads, self.d_head, self.n_heads, self.d_head)
        return numbers_E.view(*sizes, *numbers_E.shape[1:])

    def maps(self, numbers_E: Tensor) -> tuple[Tensor, ...]:
        return (self.blocks(numbers_E).sum(2),)

    def matrix(self, numbers_E: Tensor) -> Tensor:
        return numbers_E.view(*numbers_E.shape[:-1], *self.shape)

    def identity(self) -> Tensor:
        return torch.eye(self.d_model).flatten()

    def fill_random(self, numbers_E: Tensor, bound: float) -> None:
        # Row by row as in FullHeads, so that one seed gives both forms one draw on any device.
        for row_D in numbers_E.view(*self.shape, *numbers_E.shape[1:]):
            row_D.uniform_(-bound, bound)


class FullHeads(Structure):
    """M unconstrained, emitted as its row sums m_i: the same functions from H times less.

    A number stands for a sum of H numbers of M with one gradient in common, hence `row_sum`.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.shape = (n_heads, self.d_head, self.d_head)
        self.row_sum = n_heads

    def maps(self, numbers_E: Tensor) -> tuple[Tensor, ...]:
        return (numbers_E.view(*self.shape, *numbers_E.shape[1:]),)

    def matrix(self, numbers_E: Tensor) -> Tensor:
        raise ValueError(
            "the head form of full emits the sums m_i and holds no M; "
            "build the layer with output='matrix' to see one"
        )

    def identity(self) -> Tensor:
        return torch.eye(self.d_head).repeat(self.n_heads, 1, 1).flatten()

    def fill_random(self, numbers_E: Tensor, bound: float) -> None:
        # The draw of FullMatrix, summed a row of M at a time: M is never held.
        for row_K in numbers_E.view(self.d_model, self.d_head, *numbers_E.shape[1:]):
            row_HK = row_K.new_empty(self.n_heads, *row_K.shape)
            row_K.copy_(row_HK.uniform_(-bound, bound).sum(0))


class Symmetric(FullMatrix):
    """M = (G + G^T) / 2 with G unconstrained: m_i = sum_j (G_ij + G_ji^T) / 2."""

    def maps(self, numbers_E: Tensor) -> tuple[Tensor, ...]:
        g_HKHK = self.blocks(numbers_E)
        rows_HKK = g_HKHK.sum(2)
        columns_HKK = g_HKHK.sum(0).movedim(0, 2)
        return ((rows_HKK + columns_HKK) / 2,)

    def matrix(self, numbers_E: Tensor) -> Tensor:
        g_DD = super().matrix(numbers_E)
        return (g_DD + g_DD.mT) / 2
