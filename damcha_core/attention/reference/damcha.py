"""DAMCHA one query at a time, with M formed in full (Duan et al. 2026, section 2).

Shapes: B batch, N tokens, D width, H heads, K head width, R rank, E emitted numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor, nn
from torch.nn import functional

from damcha_core.attention.damcha import DamchaAttention
from damcha_core.attention.generator import MetricGenerator
from damcha_core.attention.reference.mha import visible_tokens, weighted_sum
from damcha_core.attention.refresh import Refresh


def damcha_reference(
    layer: DamchaAttention,
    x_BND: Tensor,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """out_t = concat_i(sum_s a_i(t, s) v_i(s)) W_O + b_O, a_i = softmax(x_i m_i x_i^T / sqrt(K)).

    Args:
        layer: holder of the weights.
        x_BND: tokens.
        key_mask: bool (B, N), True = real token. None: every token is real.
        is_causal: True lets token t see the tokens s <= t alone, in the attention and in the pool.

    Returns:
        Tensor (B, N, D), float64, differentiable in x and the weights. A row whose query is a
        masked token is as undefined as the token is.
    """
    x_BND = x_BND.double()
    width = layer.d_model // layer.n_heads
    rows = []
    for b in range(x_BND.shape[0]):
        for t in range(x_BND.shape[1]):
            seen = visible_tokens(key_mask, b, t, x_BND.shape[1], is_causal)
            real = [x_BND[b, s] for s in seen]
            pooled = real[: refresh_count(layer.refresh, len(real))] if is_causal else real
            pool_D = torch.stack(pooled).mean(0) if real else torch.zeros_like(x_BND[b, t])
            metrics_HKK = reference_metrics(layer.generator, pool_D)
            values = [
                x_D @ layer.value.weight.double().T + layer.value.bias.double() for x_D in real
            ]
            heads = []
            for i in range(layer.n_heads):
                own = slice(i * width, (i + 1) * width)
                query_K = x_BND[b, t, own] @ metrics_HKK[i]
                scores = [query_K @ x_D[own] / math.sqrt(width) for x_D in real]
                heads.append(weighted_sum(scores, [v_D[own] for v_D in values], like=query_K))
            rows.append(torch.cat(heads) @ layer.out.weight.double().T + layer.out.bias.double())
    return torch.stack(rows).view_as(x_BND)


def refresh_count(refresh: Refresh, n_real: int) -> int:
    """The largest refresh count up to n_real, 0 where there is none."""
    if refresh.refresh == "token":
        return n_real
    step, found, count = refresh.refresh, 0, 1
    while count <= n_real:
        found = count
        if isinstance(step, int):
            count = found + step
        else:
            count = max(found + 1, math.ceil(Fraction(str(refresh.ratio)) * found))
    return found


def reference_metrics(generator: MetricGenerator, pool_D: Tensor) -> Tensor:
    """m_i = sum_j M_ij for one pool (D,): (H, K, K)."""
    numbers_E = emitted_numbers(generator, pool_D)
    n_heads, width = generator.n_heads, generator.d_model // generator.n_heads
    if generator.structure_name == "full" and generator.output == "head":
        return numbers_E.view(n_heads, width, width)
    m_DD = full_matrix(generator, numbers_E)
    cuts = [slice(i * width, (i + 1) * width) for i in range(n_heads)]
    return torch.stack(
        [torch.stack([m_DD[rows, columns] for columns in cuts]).sum(0) for rows in cuts]
    )


def emitted_numbers(generator: MetricGenerator, pool_D: Tensor) -> Tensor:
    """What f emits for one pool (D,), or the parameter in its place: (E,)."""
    if generator.source == "static":
        return generator.static.double().flatten()
    hidden = pool_D
    for layer in generator.body:
        if not isinstance(layer, nn.Linear):
            continue
        hidden = functional.gelu(layer.weight.double() @ hidden + layer.bias.double())
    return generator.last_weight.double() @ hidden + generator.last_bias.double()


def full_matrix(generator: MetricGenerator, numbers_E: Tensor) -> Tensor:
    """M (D, D) from the emitted numbers (E,)."""
    width, n_heads = generator.d_model, generator.n_heads
    if generator.structure_name == "full":
        return numbers_E.view(width, width)
    if generator.structure_name == "symmetric":
        g_DD = numbers_E.view(width, width)
        return (g_DD + g_DD.T) / 2
    if generator.structure_name == "psd":
        left_DR = numbers_E.view(width, -1)
        return left_DR @ left_DR.T
    if generator.structure_name == "low_rank":
        left_DR, right_DR = numbers_E.view(2, width, -1).unbind(0)
        return left_DR @ right_DR.T
    if generator.structure_name == "diagonal":
        return torch.diag(numbers_E)
    blocks_HKK = numbers_E.view(n_heads, width // n_heads, width // n_heads)
    cut_DD = numbers_E.new_zeros(width, width)
    for i in range(n_heads):
        own = slice(i * width // n_heads, (i + 1) * width // n_heads)
        cut_DD[own, own] = blocks_HKK[i]
    return cut_DD
