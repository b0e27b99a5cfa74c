"""M as a product of two thin factors, which is never multiplied out.

Shapes: E emitted numbers, D width, H heads, K head width, R rank, * any further axes.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from damcha_core.attention.layer import head_width
from damcha_core.attention.structures.structure import Structure


class PositiveSemidefinite(Structure):
    """M = L L^T: m_i = L_i (sum_j L_j)^T. The rank is K unless given."""

    def __init__(self, d_model: int, n_heads: int, rank: int = 0) -> None:
        super().__init__(d_model, n_heads, rank or head_width(d_model, n_heads))
        self.shape = (d_model, self.rank)

    def maps(self, numbers_E: Tensor) -> tuple[Tensor, ...]:
        left_HKR = numbers_E.view(self.n_heads, self.d_head, self.rank, *numbers_E.shape[1:])
        return left_HKR, summed_transpose(left_HKR)

    def matrix(self, numbers_E: Tensor) -> Tensor:
        left_DR = numbers_E.view(*numbers_E.shape[:-1], *self.shape)
        return left_DR @ left_DR.mT

    def identity(self) -> Tensor:
        return identity_factor(self).flatten()


class LowRank(Structure):
    """M = U V^T: m_i = U_i (sum_j V_j)^T; emits U, then V. The rank is K / 2 unless given."""

    def __init__(self, d_model: int, n_heads: int, rank: int = 0) -> None:
        super().__init__(d_model, n_heads, rank or max(1, head_width(d_model, n_heads) // 2))
        if self.rank >= self.d_head:
            warnings.warn(
                f"low_rank with rank {self.rank} restricts nothing: the metric of a head is "
                f"{self.d_head} x {self.d_head}; choose a rank below {self.d_head}",
                stacklevel=2,
            )
        self.shape = (2, d_model, self.rank)

    def maps(self, numbers_E: Tensor) -> tuple[Tensor, ...]:
        factors_2HKR = numbers_E.view(2, self.n_heads, self.d_head, self.rank, *numbers_E.shape[1:])
        left_HKR, right_HKR = factors_2HKR.unbind(0)
        return left_HKR, summed_transpose(right_HKR)

    def matrix(self, numbers_E: Tensor) -> Tensor:
        left_DR, right_DR = numbers_E.view(*numbers_E.shape[:-1], *self.shape).unbind(-3)
        return left_DR @ right_DR.mT

    def identity(self) -> Tensor:
        return torch.stack([identity_factor(self)] * 2).flatten()


def summed_transpose(factor_HKR: Tensor) -> Tensor:
    """(sum_j F_j)^T as one map for all heads: (H, K, R, *) to (1, R, K, *)."""
    return factor_HKR.sum(0).transpose(0, 1).unsqueeze(0)


def identity_factor(structure: Structure) -> Tensor:
    """[I_K 0] / sqrt(H) for every head, stacked (D, R): F_i (sum_j F_j)^T is then I_K."""
    block_KR = torch.eye(structure.d_head, structure.rank) / math.sqrt(structure.n_heads)
    return block_KR.repeat(structure.n_heads, 1)
