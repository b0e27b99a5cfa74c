"""M with zeros outside its diagonal, or outside its diagonal blocks.

Shapes: E emitted numbers, D width, H heads, K head width, * any further axes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from damcha_core.attention.structures.structure import Structure


class Diagonal(Structure):
    """M diagonal, so every m_i is."""

    elementwise = True

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.shape = (d_model,)

    def maps(self, numbers_E: Tensor) -> tuple[Tensor, ...]:
        return (numbers_E.view(self.n_heads, self.d_head, *numbers_E.shape[1:]),)

    def matrix(self, numbers_E: Tensor) -> Tensor:
        return torch.diag_embed(numbers_E)

    def identity(self) -> Tensor:
        return torch.ones(self.d_model)


class BlockDiagonal(Structure):
    """Only the diagonal blocks M_ii: m_i = M_ii."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.shape = (n_heads, self.d_head, self.d_head)

    def maps(self, numbers_E: Tensor) -> tuple[Tensor, ...]:
        return (numbers_E.view(*self.shape, *numbers_E.shape[1:]),)

    def matrix(self, numbers_E: Tensor) -> Tensor:
        blocks_HKK = numbers_E.view(*numbers_E.shape[:-1], *self.shape)
        blocks_KKHH = torch.diag_embed(blocks_HKK.movedim(-3, -1))
        m_HKHK = blocks_KKHH.movedim((-2, -4, -1, -3), (-4, -3, -2, -1))
        return m_HKHK.flatten(-4, -3).flatten(-2)

    def identity(self) -> Tensor:
        return torch.eye(self.d_head).repeat(self.n_heads, 1, 1).flatten()
