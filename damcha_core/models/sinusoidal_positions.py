"""Positions as sines and cosines, which exist for every length.

Shape suffixes: B batch, N tokens, D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LONGEST_PERIOD = 10_000.0


class SinusoidalPositions(nn.Module):
    """PE(t, 2i) = sin(t / 10000^(2i/D)), PE(t, 2i+1) the cosine.

    Nothing is learnt and nothing is stored: a table that is too short is made again, so no text is
    too long. Source: "Attention Is All You Need" (arXiv 1706.03762), section 3.5.

    Args:
        d_model: width D.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        # No buffer: one would be cast with the model, and keep the digits of the old format.
        self.table_ND = torch.empty(0, d_model)

    def forward(self, positions_BN: Tensor, n_positions: int, *, dtype: torch.dtype) -> Tensor:
        """Vectors of positions.

        Args:
            positions_BN: whole numbers from 0.
            n_positions: more than the largest of them.
            dtype: format of the result.

        Returns:
            Tensor (B, N, D).
        """
        table_ND, device = self.table_ND, positions_BN.device
        if len(table_ND) < n_positions or table_ND.dtype != dtype or table_ND.device != device:
            # A tensor born in inference mode could not take part in training later.
            with torch.inference_mode(False):
                rows = max(n_positions, 2 * len(table_ND))
                table_ND = sinusoidal_table(rows, self.d_model).to(device, dtype)
            self.table_ND = table_ND
        return nn.functional.embedding(positions_BN, table_ND)


def sinusoidal_table(n_positions: int, d_model: int) -> Tensor:
    """The vectors of positions 0 to n_positions - 1, float64 (n_positions, d_model)."""
    position_N1 = torch.arange(n_positions, dtype=torch.float64)[:, None]
    even_E = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle_NE = position_N1 * torch.exp(-math.log(LONGEST_PERIOD) * even_E / d_model)
    table_ND = torch.empty(n_positions, d_model, dtype=torch.float64)
    table_ND[:, 0::2] = angle_NE.sin()
    table_ND[:, 1::2] = angle_NE[:, : d_model // 2].cos()
    return table_ND
