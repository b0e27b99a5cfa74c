"""Runs of tokens in blocks of one size."""

from __future__ import annotations

import pytest
import torch

from damcha_core.attention.token_runs import RunBlocks, block_tokens, matrix_rows, run_of_token

RUNS = [(1,), (7,), (1, 1, 1), (3, 3, 2), (1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8), (1, 50), (50, 1)]
CPU = torch.device("cpu")


@pytest.mark.parametrize("lengths", RUNS, ids=str)
def test_blocks_hold_every_token_once_and_know_their_run(lengths) -> None:
    layout = RunBlocks(lengths, CPU)
    n_tokens = sum(lengths)
    x = torch.arange(1.0, 2 * n_tokens + 1).view(2, n_tokens, 1, 1)
    blocks = layout.cut(x)
    assert torch.equal(layout.join(blocks), x)
    runs = run_of_token(lengths, CPU)
    for block, run in zip(blocks[0], layout.run_of_block.tolist(), strict=True):
        held = block[block > 0].long() - 1
        assert 0 < len(held) <= layout.size
        assert (runs[held] == run).all()


@pytest.mark.parametrize("lengths", RUNS, ids=str)
def test_there_are_at_most_twice_as_many_blocks_as_runs(lengths) -> None:
    layout = RunBlocks(lengths, CPU)
    assert layout.n_blocks <= 2 * len(lengths)
    assert layout.n_blocks * layout.size <= 2 * (sum(lengths) + len(lengths))


def test_totals_undo_the_repetition() -> None:
    layout = RunBlocks((1, 5, 3), CPU)
    of_runs = torch.randn(2, 3, 4)
    blocks_a_run = layout.run_of_block.bincount()[:, None]
    torch.testing.assert_close(layout.total(layout.repeat(of_runs), 3), of_runs * blocks_a_run)


@pytest.mark.parametrize("n_groups", [1, 5])
def test_rows_and_tokens_are_inverse(n_groups: int) -> None:
    blocks = torch.randn(2, 3, 4, 5, 7)
    rows = matrix_rows(blocks, n_groups)
    assert rows.shape == (2 * 3 * n_groups, 4 * 5 // n_groups, 7)
    assert torch.equal(block_tokens(rows, blocks.shape[:4], n_groups), blocks)


def test_a_row_meets_the_matrix_of_its_own_head() -> None:
    blocks = torch.randn(1, 2, 3, 5, 4)
    matrices = torch.randn(2, 5, 4, 6)
    out = torch.bmm(matrix_rows(blocks, 5), matrices.flatten(0, 1))
    expected = torch.einsum("bclha,chai->bclhi", blocks, matrices)
    torch.testing.assert_close(block_tokens(out, blocks.shape[:4], 5), expected)
