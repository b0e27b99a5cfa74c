"""Product of tokens with matrices that a linear layer generates from a context.

Shapes: B batch, N tokens, J runs of tokens with one matrix each, S inputs of the generating layer,
H heads, G generated matrices a run (H, or 1 for all heads), A and I their rows and columns, E all
numbers of one run, T tokens and C runs in a chunk, R rows of a block times its heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from damcha_core.attention.token_runs import RunBlocks, block_tokens, matrix_rows

CHUNK_BYTES = 8 * 2**20
"""Size of the generated matrices that exist at one time, in bytes."""


def generated_matmul(
    x_BNHA: Tensor,
    z_BJS: Tensor,
    weight_GAIS: Tensor,
    bias_GAI: Tensor,
    runs: Sequence[int] | None = None,
) -> Tensor:
    """out[b, t, h] = x[b, t, h] M[b, j, g], M[b, j] = W z[b, j] + bias, t in run j, g = h or 0.

    The matrices of all runs together may be a multiple of everything else that a layer holds, so
    they are generated chunk by chunk and generated anew in the backward pass. The gradient of a
    matrix is a sum of outer products of x and the gradient of the output, so it needs no more room.

    Args:
        x_BNHA: tokens, one row vector a head.
        z_BJS: what the matrix of each run is generated from.
        weight_GAIS: weight of the generating layer; G = H, or 1 for one matrix for all heads.
        bias_GAI: its bias.
        runs: number of tokens in each of the J runs, N in all, the same in every row of the batch.
            None: every token has a matrix of its own, J = N.

    Returns:
        Tensor (B, N, H, I), of the dtype of the arguments, or of autocast where that is on.
    """
    device_type = x_BNHA.device.type
    tensors = [x_BNHA, z_BJS, weight_GAIS, bias_GAI]
    if torch.is_autocast_enabled(device_type):
        dtype = torch.get_autocast_dtype(device_type)
        tensors = [t if t.dtype == torch.float64 else t.to(dtype) for t in tensors]
    if runs is not None:
        grouped_BNHI: Tensor = GeneratedMatmul.apply(*tensors, tuple(runs))
        return grouped_BNHI
    # Without runs the rows of the batch are no different from tokens.
    flat = [tensor.flatten(0, 1).unsqueeze(0) for tensor in tensors[:2]]
    out_1THI: Tensor = GeneratedMatmul.apply(*flat, *tensors[2:], None)
    return out_1THI.view(*x_BNHA.shape[:3], bias_GAI.shape[2])


class GeneratedMatmul(torch.autograd.Function):
    """The chunked operator; use `generated_matmul`, which minds autocast."""

    @staticmethod
    def forward(
        ctx: Any,
        x_BNHA: Tensor,
        z_BJS: Tensor,
        weight_GAIS: Tensor,
        bias_GAI: Tensor,
        runs: tuple[int, ...] | None,
    ) -> Tensor:
        ctx.save_for_backward(x_BNHA, z_BJS, weight_GAIS, bias_GAI)
        ctx.runs = runs
        n_groups = len(bias_GAI)
        out_BNHI = x_BNHA.new_empty(*x_BNHA.shape[:3], bias_GAI.shape[2])
        with torch.autocast(x_BNHA.device.type, enabled=False):
            for chunk in chunks(z_BJS.shape, bias_GAI, runs):
                x_BCLHA, z_BCS = chunk.blocks(x_BNHA), z_BJS[chunk.rows, chunk.runs]
                matrices_MAI = chunk.generate(z_BCS, weight_GAIS, bias_GAI)
                out_MRI = torch.bmm(matrix_rows(x_BCLHA, n_groups), matrices_MAI)
                chunk.store(out_MRI, x_BCLHA.shape[:4], n_groups, out_BNHI)
                del matrices_MAI
        return out_BNHI

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BNHI: Tensor) -> tuple[Tensor | None, ...]:
        x_BNHA, z_BJS, weight_GAIS, bias_GAI = ctx.saved_tensors
        needs_x, needs_z, needs_weight, needs_bias, _ = ctx.needs_input_grad
        n_groups = len(bias_GAI)
        weight_ES = weight_GAIS.flatten(0, 2)
        # Many chunks are added up, which takes float32 even where the products are narrower.
        wide = torch.promote_types(weight_ES.dtype, torch.float32)
        grad_x_BNHA = torch.empty_like(x_BNHA) if needs_x else None
        grad_z_BJS = torch.empty_like(z_BJS) if needs_z else None
        grad_weight_ES = torch.zeros_like(weight_ES, dtype=wide) if needs_weight else None
        grad_bias_E = bias_GAI.new_zeros(bias_GAI.numel(), dtype=wide) if needs_bias else None
        with torch.autocast(x_BNHA.device.type, enabled=False):
            for chunk in chunks(z_BJS.shape, bias_GAI, ctx.runs):
                grad_BCLHI, z_BCS = chunk.blocks(grad_BNHI), z_BJS[chunk.rows, chunk.runs]
                grad_MRI = matrix_rows(grad_BCLHI, n_groups)
                if grad_x_BNHA is not None:
                    matrices_MAI = chunk.generate(z_BCS, weight_GAIS, bias_GAI)
                    grad_MRA = torch.bmm(grad_MRI, matrices_MAI.mT)
                    chunk.store(grad_MRA, grad_BCLHI.shape[:4], n_groups, grad_x_BNHA)
                    del matrices_MAI
                if not (needs_z or needs_weight or needs_bias):
                    continue
                x_MRA = matrix_rows(chunk.blocks(x_BNHA), n_groups)
                grad_numbers_CE = chunk.run_totals(torch.bmm(x_MRA.mT, grad_MRI), z_BCS)
                if grad_z_BJS is not None:
                    grad_z_BJS[chunk.rows, chunk.runs] = (grad_numbers_CE @ weight_ES).view_as(
                        z_BCS
                    )
                if grad_weight_ES is not None:
                    add_product(grad_weight_ES, grad_numbers_CE.mT, z_BCS.flatten(0, 1))
                if grad_bias_E is not None:
                    grad_bias_E += grad_numbers_CE.sum(0, dtype=wide)
                del grad_numbers_CE
        return (
            grad_x_BNHA,
            grad_z_BJS,
            None if grad_weight_ES is None else grad_weight_ES.to(weight_ES).view_as(weight_GAIS),
            None if grad_bias_E is None else grad_bias_E.to(bias_GAI).view_as(bias_GAI),
            None,
        )


class Chunk:
    """Some runs of some rows of the batch.

    Args:
        rows: the rows.
        runs: the runs.
        tokens: the tokens of these runs.
        lengths: number of tokens in each of these runs; None: one.
        device: of the tokens.
    """

    def __init__(
        self,
        rows: slice,
        runs: slice,
        tokens: slice,
        lengths: Sequence[int] | None,
        device: torch.device,
    ) -> None:
        self.rows, self.runs, self.tokens = rows, runs, tokens
        self.layout = None if lengths is None else RunBlocks(lengths, device)

    def blocks(self, x_BNHA: Tensor) -> Tensor:
        """The tokens of the chunk, (B, C, L, H, A): a block a run, or the blocks of the layout."""
        x_BTHA = x_BNHA[self.rows, self.tokens]
        return x_BTHA.unsqueeze(2) if self.layout is None else self.layout.cut(x_BTHA)

    def generate(self, z_BCS: Tensor, weight_GAIS: Tensor, bias_GAI: Tensor) -> Tensor:
        """The matrix of each block, (B C G, A, I)."""
        numbers_CE = torch.addmm(
            bias_GAI.flatten(), z_BCS.flatten(0, 1), weight_GAIS.flatten(0, 2).mT
        )
        if self.layout is not None:
            numbers_CE = self.layout.repeat(numbers_CE.view(*z_BCS.shape[:2], -1))
        return numbers_CE.view(-1, *bias_GAI.shape[1:])

    def store(
        self, rows_MRI: Tensor, sizes_BCLH: Sequence[int], n_groups: int, out_BNHI: Tensor
    ) -> None:
        """Put the products of the blocks in the places of their tokens."""
        out_BCLHI = block_tokens(rows_MRI, sizes_BCLH, n_groups)
        joined = out_BCLHI.squeeze(2) if self.layout is None else self.layout.join(out_BCLHI)
        out_BNHI[self.rows, self.tokens] = joined

    def run_totals(self, grad_MAI: Tensor, z_BCS: Tensor) -> Tensor:
        """Gradients of the numbers of each run, (B C, E), from those of the blocks."""
        n_batch, n_runs, _ = z_BCS.shape
        if self.layout is None:
            return grad_MAI.view(n_batch * n_runs, -1)
        grad_BCE = grad_MAI.view(n_batch, self.layout.n_blocks, -1)
        return self.layout.total(grad_BCE, n_runs).flatten(0, 1)


def chunks(
    shape_BJS: Sequence[int], bias_GAI: Tensor, lengths: tuple[int, ...] | None
) -> Iterator[Chunk]:
    """The runs in parts whose matrices together stay within CHUNK_BYTES."""
    n_batch, n_runs, _ = shape_BJS
    most = max(1, CHUNK_BYTES // (bias_GAI.numel() * bias_GAI.element_size()))
    row_step = max(1, min(n_batch, most))
    run_step = max(1, most // row_step)
    starts = None if lengths is None else [0, *accumulate(lengths)]
    for row in range(0, n_batch, row_step):
        rows = slice(row, min(row + row_step, n_batch))
        for run in range(0, n_runs, run_step):
            runs = slice(run, min(run + run_step, n_runs))
            tokens = runs if starts is None else slice(starts[runs.start], starts[runs.stop])
            own = None if lengths is None else lengths[runs]
            yield Chunk(rows, runs, tokens, own, bias_GAI.device)


def add_product(total_MN: Tensor, left_MK: Tensor, right_KN: Tensor) -> None:
    """total += left @ right in place, in the dtype of the total."""
    if total_MN.dtype == left_MK.dtype:
        total_MN.addmm_(left_MK, right_KN)
    else:
        total_MN += left_MK @ right_KN
