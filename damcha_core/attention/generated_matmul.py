"""Product of each token with a matrix of its own that a linear layer generates from a context.

Shapes: T tokens, S inputs of the generating layer, H heads, G generated matrices a token (H, or 1
for all heads), A and B their rows and columns, C tokens in a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 8 * 2**20
"""Size of the generated matrices that exist at one time, in bytes."""


def generated_matmul(x_THA: Tensor, z_TS: Tensor, weight_GABS: Tensor, bias_GAB: Tensor) -> Tensor:
    """out[t, h, b] = sum_a x[t, h, a] G[t, g, a, b], with G[t] = W z[t] + bias and g = h or 0.

    The matrices of all tokens together are a multiple of everything else that a layer holds, so
    they are generated chunk by chunk and generated anew in the backward pass. The gradient of a
    matrix is the outer product of x and the gradient of the output, so it needs no more room.

    Args:
        x_THA: tokens, one row vector a head.
        z_TS: what the matrix of each token is generated from.
        weight_GABS: weight of the generating layer; G = H, or 1 for one matrix for all heads.
        bias_GAB: its bias.

    Returns:
        Tensor (T, H, B), of the dtype of the arguments, or of autocast where that is on.
    """
    device_type = x_THA.device.type
    tensors = [x_THA, z_TS, weight_GABS, bias_GAB]
    if torch.is_autocast_enabled(device_type):
        dtype = torch.get_autocast_dtype(device_type)
        tensors = [t if t.dtype == torch.float64 else t.to(dtype) for t in tensors]
    out_THB: Tensor = GeneratedMatmul.apply(*tensors)
    return out_THB


class GeneratedMatmul(torch.autograd.Function):
    """The chunked operator; use `generated_matmul`, which minds autocast."""

    @staticmethod
    def forward(
        ctx: Any, x_THA: Tensor, z_TS: Tensor, weight_GABS: Tensor, bias_GAB: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x_THA, z_TS, weight_GABS, bias_GAB)
        n_tokens, n_heads, _ = x_THA.shape
        out_THB = x_THA.new_empty(n_tokens, n_heads, bias_GAB.shape[2])
        with torch.autocast(x_THA.device.type, enabled=False):
            for chunk in token_chunks(n_tokens, bias_GAB):
                g_CAB = generate(z_TS[chunk], weight_GABS, bias_GAB)
                rows_CRA = matrix_rows(x_THA[chunk], len(bias_GAB))
                out_THB[chunk] = torch.bmm(rows_CRA, g_CAB).view(-1, *out_THB.shape[1:])
                del g_CAB
        return out_THB

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_THB: Tensor) -> tuple[Tensor | None, ...]:
        x_THA, z_TS, weight_GABS, bias_GAB = ctx.saved_tensors
        needs_x, needs_z, needs_weight, needs_bias = ctx.needs_input_grad
        n_groups = len(bias_GAB)
        weight_ES = weight_GABS.flatten(0, 2)
        # Many chunks are added up, which takes float32 even where the products are narrower.
        wide = torch.promote_types(weight_ES.dtype, torch.float32)
        grad_x_THA = torch.empty_like(x_THA) if needs_x else None
        grad_z_TS = torch.empty_like(z_TS) if needs_z else None
        grad_weight_ES = torch.zeros_like(weight_ES, dtype=wide) if needs_weight else None
        grad_bias_E = bias_GAB.new_zeros(bias_GAB.numel(), dtype=wide) if needs_bias else None
        with torch.autocast(x_THA.device.type, enabled=False):
            for chunk in token_chunks(len(x_THA), bias_GAB):
                rows_CRB = matrix_rows(grad_THB[chunk], n_groups)
                if grad_x_THA is not None:
                    g_CAB = generate(z_TS[chunk], weight_GABS, bias_GAB)
                    grad_x_THA[chunk] = torch.bmm(rows_CRB, g_CAB.mT).view_as(x_THA[chunk])
                    del g_CAB
                if not (needs_z or needs_weight or needs_bias):
                    continue
                rows_CRA = matrix_rows(x_THA[chunk], n_groups)
                grad_g_CE = torch.bmm(rows_CRA.mT, rows_CRB).view(-1, len(weight_ES))
                if grad_z_TS is not None:
                    grad_z_TS[chunk] = grad_g_CE @ weight_ES
                if grad_weight_ES is not None:
                    add_product(grad_weight_ES, grad_g_CE.mT, z_TS[chunk])
                if grad_bias_E is not None:
                    grad_bias_E += grad_g_CE.sum(0, dtype=wide)
                del grad_g_CE
        return (
            grad_x_THA,
            grad_z_TS,
            None if grad_weight_ES is None else grad_weight_ES.to(weight_ES).view_as(weight_GABS),
            None if grad_bias_E is None else grad_bias_E.to(bias_GAB).view_as(bias_GAB),
        )


def token_chunks(n_tokens: int, bias_GAB: Tensor) -> Iterator[slice]:
    """Slices of the tokens whose matrices together stay within CHUNK_BYTES."""
    step = max(1, CHUNK_BYTES // (bias_GAB.numel() * bias_GAB.element_size()))
    for start in range(0, n_tokens, step):
        yield slice(start, start + step)


def generate(z_CS: Tensor, weight_GABS: Tensor, bias_GAB: Tensor) -> Tensor:
    """The matrices of a chunk, (C G, A, B)."""
    flat_CE = torch.addmm(bias_GAB.flatten(), z_CS, weight_GABS.flatten(0, 2).mT)
    return flat_CE.view(-1, *bias_GAB.shape[1:])


def matrix_rows(x_CHA: Tensor, n_groups: int) -> Tensor:
    """The rows that one matrix is multiplied with: (C G, H / G, A)."""
    n_rows = x_CHA.shape[1] // n_groups
    return x_CHA.reshape(-1, n_rows, x_CHA.shape[2])


def add_product(total_MN: Tensor, left_MK: Tensor, right_KN: Tensor) -> None:
    """total += left @ right in place, in the dtype of the total."""
    if total_MN.dtype == left_MK.dtype:
        total_MN.addmm_(left_MK, right_KN)
    else:
        total_MN += left_MK @ right_KN
