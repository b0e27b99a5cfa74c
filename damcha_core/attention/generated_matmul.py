"""Product of tokens with matrices that a linear layer generates from a context.

Shapes: B batch, N tokens, J runs of tokens with one matrix each, S inputs of the generating layer,
H heads, G generated matrices a run (H, or 1 for all heads), A and I their rows and columns, E all
numbers of one run, L tokens of a run, C runs in a chunk, M matrices, R rows that one of them is
multiplied with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 8 * 2**20
"""Size of the matrices that are generated at one time, in bytes."""
KEPT_BYTES = 64 * 2**20
"""Most that a forward pass keeps of its matrices for the backward pass, in bytes a call."""


def generated_matmul(
    x_BNHA: Tensor,
    z_BJS: Tensor,
    weight_GAIS: Tensor,
    bias_GAI: Tensor,
    runs: Sequence[int] | None = None,
) -> Tensor:
    """out[b, t, h] = x[b, t, h] M[b, j, g], M[b, j] = W z[b, j] + bias, t in run j, g = h or 0.

    The matrices of all runs together may be a multiple of everything else that a layer holds, so
    they are generated chunk by chunk. The backward pass uses those of the forward pass where all
    of them take at most KEPT_BYTES, and generates them anew where they take more. The gradient of
    a matrix is a sum of outer products of x and the gradient of the output.

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
    """The chunked operator; use `generated_matmul`, which minds autocast.

    Inside, runs and tokens come before the batch, so that the matrices of neighbouring runs lie
    together.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_BNHA: Tensor,
        z_BJS: Tensor,
        weight_GAIS: Tensor,
        bias_GAI: Tensor,
        runs: tuple[int, ...] | None,
    ) -> Tensor:
        x_NBHA, z_JBS = x_BNHA.transpose(0, 1), z_BJS.transpose(0, 1)
        out_NBHI = x_BNHA.new_empty(*x_NBHA.shape[:3], bias_GAI.shape[2])
        n_numbers = bias_GAI.numel() * z_JBS.shape[0] * z_JBS.shape[1]
        keeps = any(ctx.needs_input_grad) and n_numbers * bias_GAI.element_size() <= KEPT_BYTES
        kept: list[Tensor] = []
        buffer_E = None if keeps else chunk_buffer(z_JBS, bias_GAI)
        with torch.autocast(x_BNHA.device.type, enabled=False):
            for chunk in chunks(z_JBS, bias_GAI, runs):
                matrices_CBGAI = chunk.generate(z_JBS, weight_GAIS, bias_GAI, buffer_E)
                for part in chunk.parts:
                    rows_MRA = part.rows(x_NBHA, chunk.batch, len(bias_GAI))
                    out_MRI = torch.bmm(rows_MRA, part.matrices(matrices_CBGAI))
                    part.store(out_MRI, out_NBHI, chunk.batch, len(bias_GAI))
                if keeps:
                    kept.append(matrices_CBGAI)
        ctx.save_for_backward(x_BNHA, z_BJS, weight_GAIS, bias_GAI, *kept)
        ctx.runs = runs
        return out_NBHI.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BNHI: Tensor) -> tuple[Tensor | None, ...]:
        x_BNHA, z_BJS, weight_GAIS, bias_GAI, *kept = ctx.saved_tensors
        needs_x, needs_z, needs_weight, needs_bias, _ = ctx.needs_input_grad
        x_NBHA, z_JBS, grad_NBHI = (t.transpose(0, 1) for t in (x_BNHA, z_BJS, grad_BNHI))
        n_groups, weight_ES = len(bias_GAI), weight_GAIS.flatten(0, 2)
        # Many chunks are added up, which takes float32 even where the products are narrower.
        wide = torch.promote_types(weight_ES.dtype, torch.float32)
        grad_x_NBHA = torch.empty_like(x_NBHA) if needs_x else None
        grad_z_JBS = torch.empty_like(z_JBS) if needs_z else None
        grad_weight_ES = torch.zeros_like(weight_ES, dtype=wide) if needs_weight else None
        grad_bias_E = bias_GAI.new_zeros(bias_GAI.numel(), dtype=wide) if needs_bias else None
        buffer_E = None if kept or not needs_x else chunk_buffer(z_JBS, bias_GAI)
        needs_numbers = needs_z or needs_weight or needs_bias
        grad_buffer_E = chunk_buffer(z_JBS, bias_GAI) if needs_numbers else None
        with torch.autocast(x_BNHA.device.type, enabled=False):
            for chunk, matrices in zip(
                chunks(z_JBS, bias_GAI, ctx.runs), kept or repeat(None), strict=False
            ):
                z_CBS = z_JBS[chunk.runs, chunk.batch]
                if grad_x_NBHA is not None:
                    if matrices is None:
                        matrices = chunk.generate(z_JBS, weight_GAIS, bias_GAI, buffer_E)
                    for part in chunk.parts:
                        rows_MRI = part.rows(grad_NBHI, chunk.batch, n_groups)
                        grad_MRA = torch.bmm(rows_MRI, part.matrices(matrices).mT)
                        part.store(grad_MRA, grad_x_NBHA, chunk.batch, n_groups)
                if grad_buffer_E is None:
                    continue
                sizes = (*z_CBS.shape[:2], *bias_GAI.shape)
                grad_CBGAI = grad_buffer_E[: bias_GAI.numel() * z_CBS[..., 0].numel()].view(sizes)
                for part in chunk.parts:
                    outer_products(
                        part.rows(x_NBHA, chunk.batch, n_groups),
                        part.rows(grad_NBHI, chunk.batch, n_groups),
                        out_MAI=part.matrices(grad_CBGAI),
                    )
                grad_ME = grad_CBGAI.flatten(0, 1).flatten(1)
                if grad_z_JBS is not None:
                    grad_z_JBS[chunk.runs, chunk.batch] = (grad_ME @ weight_ES).view_as(z_CBS)
                if grad_weight_ES is not None:
                    add_product(grad_weight_ES, grad_ME.mT, z_CBS.flatten(0, 1))
                if grad_bias_E is not None:
                    grad_bias_E += grad_ME.sum(0, dtype=wide)
        return (
            None if grad_x_NBHA is None else grad_x_NBHA.transpose(0, 1),
            None if grad_z_JBS is None else grad_z_JBS.transpose(0, 1),
            None if grad_weight_ES is None else grad_weight_ES.to(weight_ES).view_as(weight_GAIS),
            None if grad_bias_E is None else grad_bias_E.to(bias_GAI).view_as(bias_GAI),
            None,
        )


@dataclass(frozen=True)
class Part:
    """Neighbouring runs of equal length in a chunk: one batched product serves them, unpadded.

    Attributes:
        runs: the runs, counted from the first one of the chunk.
        tokens: their tokens, counted from the first one of the sequence.
        length: tokens L of each run.
    """

    runs: slice
    tokens: slice
    length: int

    def rows(self, x_NBHA: Tensor, batch: slice, n_groups: int) -> Tensor:
        """The rows that each matrix is multiplied with, (C B G, L H / G, A)."""
        x_TBHA = x_NBHA[self.tokens, batch]
        _, n_batch, n_heads, width = x_TBHA.shape
        split = x_TBHA.reshape(
            -1, self.length, n_batch, n_groups, n_heads // n_groups, width
        )  # (C, L, B, G, H/G, A)
        return split.permute(0, 2, 3, 1, 4, 5).reshape(
            -1, self.length * (n_heads // n_groups), width
        )

    def store(self, rows_MRI: Tensor, out_NBHI: Tensor, batch: slice, n_groups: int) -> None:
        """Put products in the places of their tokens: the inverse of `rows`."""
        out_TBHI = out_NBHI[self.tokens, batch]
        n_tokens, n_batch, n_heads, width = out_TBHI.shape
        split = rows_MRI.view(
            n_tokens // self.length, n_batch, n_groups, self.length, n_heads // n_groups, width
        )
        out_TBHI.copy_(split.permute(0, 3, 1, 2, 4, 5).reshape(out_TBHI.shape))

    def matrices(self, matrices_CBGAI: Tensor) -> Tensor:
        """The matrices of these runs, (C B G, A, I), as a view."""
        return matrices_CBGAI[self.runs].flatten(0, 2)


@dataclass(frozen=True)
class Chunk:
    """Some runs of some rows of the batch, whose matrices are generated together.

    Attributes:
        batch: the rows of the batch.
        runs: the runs.
        parts: the same runs, grouped by length.
    """

    batch: slice
    runs: slice
    parts: tuple[Part, ...]

    def generate(
        self, z_JBS: Tensor, weight_GAIS: Tensor, bias_GAI: Tensor, buffer_E: Tensor | None
    ) -> Tensor:
        """The matrices (C, B, G, A, I), in new memory or in that of a buffer."""
        z_CBS = z_JBS[self.runs, self.batch]
        rows_MS = z_CBS.flatten(0, 1)
        out = None if buffer_E is None else buffer_E[: len(rows_MS) * bias_GAI.numel()]
        numbers_ME = torch.addmm(
            bias_GAI.flatten(),
            rows_MS,
            weight_GAIS.flatten(0, 2).mT,
            out=None if out is None else out.view(len(rows_MS), -1),
        )
        return numbers_ME.view(*z_CBS.shape[:2], *bias_GAI.shape)


def chunk_sizes(z_JBS: Tensor, bias_GAI: Tensor) -> tuple[int, int]:
    """Runs and rows of the batch whose matrices together stay within CHUNK_BYTES, at least 1."""
    n_runs, n_batch, _ = z_JBS.shape
    most = max(1, CHUNK_BYTES // (bias_GAI.numel() * bias_GAI.element_size()))
    row_step = max(1, min(n_batch, most))
    return max(1, min(n_runs, most // row_step)), row_step


def chunk_buffer(z_JBS: Tensor, bias_GAI: Tensor) -> Tensor:
    """Room for the numbers of the largest chunk."""
    run_step, row_step = chunk_sizes(z_JBS, bias_GAI)
    return bias_GAI.new_empty(run_step * row_step * bias_GAI.numel())


def chunks(z_JBS: Tensor, bias_GAI: Tensor, lengths: tuple[int, ...] | None) -> Iterator[Chunk]:
    """All runs of all rows in chunks."""
    n_runs, n_batch, _ = z_JBS.shape
    run_step, row_step = chunk_sizes(z_JBS, bias_GAI)
    first_token = 0
    for run in range(0, n_runs, run_step):
        runs = slice(run, min(run + run_step, n_runs))
        parts = tuple(equal_runs(runs, lengths, first_token))
        first_token = parts[-1].tokens.stop
        for row in range(0, n_batch, row_step):
            yield Chunk(slice(row, min(row + row_step, n_batch)), runs, parts)


def equal_runs(runs: slice, lengths: tuple[int, ...] | None, first_token: int) -> Iterator[Part]:
    """The runs grouped by equal length; lengths None: one token each."""
    if lengths is None:
        n_runs = runs.stop - runs.start
        yield Part(slice(0, n_runs), slice(first_token, first_token + n_runs), 1)
        return
    first_run = 0
    for length, group in groupby(lengths[runs]):
        n_runs = sum(1 for _ in group)
        n_tokens = n_runs * length
        yield Part(
            slice(first_run, first_run + n_runs),
            slice(first_token, first_token + n_tokens),
            length,
        )
        first_run, first_token = first_run + n_runs, first_token + n_tokens


def outer_products(left_MRA: Tensor, right_MRI: Tensor, *, out_MAI: Tensor) -> None:
    """Sums of the outer products of the rows, written to out."""
    if left_MRA.shape[1] == 1:
        # Ten times as fast as a batched product whose inner dimension is 1.
        torch.mul(left_MRA.mT, right_MRI, out=out_MAI)
    else:
        torch.bmm(left_MRA.mT, right_MRI, out=out_MAI)


def add_product(total_MN: Tensor, left_MK: Tensor, right_KN: Tensor) -> None:
    """total += left @ right in place, in the dtype of the total."""
    if total_MN.dtype == left_MK.dtype:
        total_MN.addmm_(left_MK, right_KN)
    else:
        total_MN += left_MK @ right_KN
