"""Runs of consecutive tokens that share a matrix, cut into blocks of one size.

Shapes: B batch, N tokens, J runs, C blocks, L tokens in a block, H heads, G matrices a run (H, or 1
for all heads), A features of a head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class RunBlocks:
    """Layout under which one batched product serves runs of all lengths.

    A block holds the mean number of tokens of a run and belongs to one run; the last block of a
    run is filled up with zeros. So there are at most 2 J blocks, and no loop over the runs.

    Args:
        lengths: tokens of each run, the same in every row of the batch.
        device: of the tokens.

    Attributes:
        run_of_block: number of the run of each block, (C,).
    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self.size = max(1, -(-sum(lengths) // max(1, len(lengths))))
        slots: list[int] = []
        runs: list[int] = []
        for run, length in enumerate(lengths):
            start = len(runs) * self.size
            slots.extend(range(start, start + length))
            runs.extend([run] * -(-length // self.size))
        self.slot_of_token = torch.tensor(slots, dtype=torch.long, device=device)
        self.run_of_block = torch.tensor(runs, dtype=torch.long, device=device)
        self.n_blocks = len(runs)

    def cut(self, x_BNHA: Tensor) -> Tensor:
        """Tokens in their blocks, (B, C, L, H, A)."""
        n_batch, _, *rest = x_BNHA.shape
        slots_BSHA = x_BNHA.new_zeros(n_batch, self.n_blocks * self.size, *rest)
        filled_BSHA = slots_BSHA.index_copy(1, self.slot_of_token, x_BNHA)
        return filled_BSHA.view(n_batch, self.n_blocks, self.size, *rest)

    def join(self, blocks_BCLHA: Tensor) -> Tensor:
        """The tokens of blocks in their order, (B, N, H, A)."""
        return blocks_BCLHA.flatten(1, 2).index_select(1, self.slot_of_token)

    def repeat(self, runs_BJE: Tensor) -> Tensor:
        """What belongs to each run once a block, (B, C, E)."""
        return runs_BJE.index_select(1, self.run_of_block)

    def total(self, blocks_BCE: Tensor, n_runs: int) -> Tensor:
        """Sum over the blocks of each run, (B, J, E)."""
        zeros_BJE = blocks_BCE.new_zeros(len(blocks_BCE), n_runs, *blocks_BCE.shape[2:])
        return zeros_BJE.index_add(1, self.run_of_block, blocks_BCE)


def matrix_rows(blocks_BCLHA: Tensor, n_groups: int) -> Tensor:
    """The rows that one matrix is multiplied with: (B C G, L H / G, A)."""
    n_batch, n_blocks, size, n_heads, width = blocks_BCLHA.shape
    split = blocks_BCLHA.view(n_batch, n_blocks, size, n_groups, n_heads // n_groups, width)
    return split.transpose(2, 3).reshape(n_batch * n_blocks * n_groups, -1, width)


def block_tokens(rows_RLA: Tensor, like_BCLH: Sequence[int], n_groups: int) -> Tensor:
    """The inverse of `matrix_rows`, for a product of another width: (B, C, L, H, A)."""
    n_batch, n_blocks, size, n_heads = like_BCLH
    split = rows_RLA.view(n_batch, n_blocks, n_groups, size, n_heads // n_groups, -1)
    return split.transpose(2, 3).reshape(n_batch, n_blocks, size, n_heads, -1)


def run_of_token(lengths: Sequence[int], device: torch.device) -> Tensor:
    """Number of the run of each token, (N,)."""
    runs = [run for run, length in enumerate(lengths) for _ in range(length)]
    return torch.tensor(runs, dtype=torch.long, device=device)
