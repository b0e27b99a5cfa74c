"""Mean and variance of the metrics of one layer over inputs, in one pass.

Shapes: B sequences, H heads, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Group:
    """Sums over the metrics that are compared with each other."""

    count: int
    total: Tensor


class MetricMoments:
    """Moments of m_i over inputs, split into groups of metrics that saw equally many tokens.

    With E the mean over everything, E_g that of a group, ||.|| the Frobenius norm:

        E ||m_i - A||^2 = within + between + ||E m_i - A||^2      for every fixed A,
        within  = E ||m_i - E_g m_i||^2     what the input moves,
        between = E ||E_g m_i - E m_i||^2   what the number of tokens alone moves.

    Deviations are taken from the first metric seen, so that metrics that do not move give zeros
    and no rounding errors.
    """

    def __init__(self) -> None:
        self.groups: dict[int, Group] = {}
        self.first_HKK: Tensor | None = None
        self.squares_H: Tensor | None = None
        self.singular_HK: Tensor | None = None

    def add(self, group: int, metrics_BHKK: Tensor) -> None:
        """Add the metrics of some sequences to a group."""
        m_BHKK = metrics_BHKK.detach().cpu().double()
        if self.first_HKK is None or self.squares_H is None or self.singular_HK is None:
            self.first_HKK = m_BHKK[0].clone()
            self.squares_H = m_BHKK.new_zeros(m_BHKK.shape[1])
            self.singular_HK = m_BHKK.new_zeros(m_BHKK.shape[1:3])
        off_BHKK = m_BHKK - self.first_HKK
        kept = self.groups.setdefault(group, Group(0, torch.zeros_like(self.first_HKK)))
        kept.count += len(m_BHKK)
        kept.total += off_BHKK.sum(0)
        self.squares_H += off_BHKK.square().sum((0, 2, 3))
        self.singular_HK += torch.linalg.svdvals(m_BHKK).sum(0)

    @property
    def count(self) -> int:
        """How many metrics a head has been seen with."""
        return sum(group.count for group in self.groups.values())

    @property
    def mean(self) -> Tensor:
        """E m_i."""
        assert self.first_HKK is not None
        total_HKK = torch.stack([group.total for group in self.groups.values()]).sum(0)
        return self.first_HKK + total_HKK / self.count

    @property
    def mean_singular_values(self) -> Tensor:
        """Singular values of each m_i, largest first, meant over inputs."""
        assert self.singular_HK is not None
        return self.singular_HK / self.count

    def within(self) -> Tensor:
        """E ||m_i - E_g m_i||^2."""
        assert self.squares_H is not None
        return ((self.squares_H - self._group_squares()) / self.count).clamp(min=0)

    def between(self) -> Tensor:
        """E ||E_g m_i - E m_i||^2."""
        assert self.first_HKK is not None
        if len(self.groups) == 1:
            return self.first_HKK.new_zeros(len(self.first_HKK))
        overall_H = square_norms(self.mean - self.first_HKK)
        return (self._group_squares() / self.count - overall_H).clamp(min=0)

    def _group_squares(self) -> Tensor:
        parts = [square_norms(group.total) / group.count for group in self.groups.values()]
        return torch.stack(parts).sum(0)


def square_norms(m_HKK: Tensor) -> Tensor:
    """Squared Frobenius norm of each head's matrix."""
    return m_HKK.square().sum((1, 2))
