"""Catalogue rows of DAMCHA and of its presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import cast

from damcha_core.catalog.attention_row import AttentionRow, MultiplyAdds, ParameterCount
from damcha_core.catalog.loading import load
from damcha_core.catalog.refresh_schedule import RefreshSchedule

OPTIONS = "damcha_core.config.options:DamchaOptions"
LR_SCALE = 0.25
"""Default factor of the learning rate of what emits M."""
BODY_LR_SCALE = 0.25
"""Default factor of the learning rate of the generator before its last layer."""


def default_rank(structure: str, d_head: int) -> int:
    """Rank that `rank = 0` stands for.

    Args:
        structure: structure of the metric.
        d_head: head width K.

    Returns:
        K for psd, K/2 (at least 1) for low_rank, 0 for structures that have no rank.
    """
    if structure == "psd":
        return d_head
    if structure == "low_rank":
        return max(1, d_head // 2)
    return 0


def metric_numbers(d_model: int, n_heads: int, *, structure: str, output: str, rank: int) -> int:
    """How many numbers describe the metrics of all heads: what a generator emits for one context.

    Args:
        d_model: width D.
        n_heads: number of heads H; the head width is K = D/H.
        structure: structure of the metric.
        output: "head" or "matrix"; it concerns the structure full alone.
        rank: rank R; 0 is the structure's default.

    Returns:
        full D*K (head) or D*D (matrix), symmetric D*D, psd D*R, low_rank 2*D*R, diagonal D,
        block_diagonal D*K.
    """
    d_head = d_model // n_heads
    rank = rank or default_rank(structure, d_head)
    numbers = {
        "full": d_model * (d_model if output == "matrix" else d_head),
        "symmetric": d_model * d_model,
        "psd": d_model * rank,
        "low_rank": 2 * d_model * rank,
        "diagonal": d_model,
        "block_diagonal": d_model * d_head,
    }
    return numbers[structure]


def damcha_parameters(preset: Mapping[str, object]) -> ParameterCount:
    """The parameter formula of DAMCHA under a preset.

    Args:
        preset: option values that hold whatever the call says.

    Returns:
        A function of (d_model, n_heads, n_layers, options): value and output projections of
        every layer, 2 D^2 + 2 D each, and the generator (or the static metric), once when it is
        shared and once a layer otherwise.
    """

    def count(d_model: int, n_heads: int, n_layers: int, options: Mapping[str, object]) -> int:
        # The defaults have one home, the options class; it is imported for them on demand.
        chosen = {**load(OPTIONS)().model_dump(), **options, **preset}
        numbers = metric_numbers(
            d_model,
            n_heads,
            structure=cast(str, chosen["structure"]),
            output=cast(str, chosen["output"]),
            rank=cast(int, chosen["rank"]),
        )
        if chosen["source"] == "static":
            metric = numbers
        else:
            widths = [d_model, *cast(Sequence[int], chosen["mlp_hidden"]), numbers]
            metric = sum((a + 1) * b for a, b in pairwise(widths))
        copies = 1 if chosen["share"] else n_layers
        return n_layers * (2 * d_model * d_model + 2 * d_model) + copies * metric

    return count


def map_numbers(d_model: int, n_heads: int, *, structure: str, rank: int) -> tuple[int, int]:
    """Size of the linear maps that make up the metrics of all heads, sums over heads taken.

    Args:
        d_model: width D.
        n_heads: number of heads H; the head width is K = D/H.
        structure: structure of the metric.
        rank: rank R; 0 is the structure's default.

    Returns:
        How many numbers are generated for one context, and how many multiply-adds apply them to
        one token: D and 0 (a diagonal is pointwise) for diagonal, D R + R K and 2 D R for psd and
        low_rank, D K and D K for the others.
    """
    d_head = d_model // n_heads
    if structure == "diagonal":
        return d_model, 0
    if structure in ("psd", "low_rank"):
        rank = rank or default_rank(structure, d_head)
        return rank * (d_model + d_head), 2 * d_model * rank
    return d_model * d_head, d_model * d_head


def damcha_multiply_adds(preset: Mapping[str, object]) -> MultiplyAdds:
    """The multiply-adds of DAMCHA under a preset.

    Args:
        preset: option values that hold whatever the call says.

    Returns:
        A function: for every layer 2 N D^2 for the projections, 2 N^2 D for scores and sums, N
        times the application of a metric, and the generator once for each context: one a sequence,
        or causal one for each refresh count up to N.
    """

    def count(
        d_model: int,
        n_heads: int,
        n_layers: int,
        options: Mapping[str, object],
        *,
        n_tokens: int,
        is_causal: bool,
    ) -> int:
        # The defaults have one home, the options class; it is imported for them on demand.
        chosen = {**load(OPTIONS)().model_dump(), **options, **preset}
        generated, applied = map_numbers(
            d_model,
            n_heads,
            structure=cast(str, chosen["structure"]),
            rank=cast(int, chosen["rank"]),
        )
        layer = 2 * n_tokens * d_model * (d_model + n_tokens) + n_tokens * applied
        if chosen["source"] == "adaptive":
            widths = [d_model, *cast(Sequence[int], chosen["mlp_hidden"]), generated]
            refresh = RefreshSchedule(
                cast("str | int", chosen["refresh"]), cast(float, chosen["refresh_ratio"])
            )
            contexts = refresh.n_metrics(n_tokens) if is_causal else 1
            layer += contexts * sum(a * b for a, b in pairwise(widths))
        return n_layers * layer

    return count


def damcha_row(name: str, summary: str, formula: str, **preset: object) -> AttentionRow:
    """A row of DAMCHA.

    Args:
        name: the value of `attention.name`.
        summary: one line about it.
        formula: what it computes.
        **preset: option values that the row fixes.

    Returns:
        The row.
    """
    return AttentionRow(
        name=name,
        summary=summary,
        builder="damcha_core.attention.damcha:build_damcha",
        reference="damcha_core.attention.reference.damcha:damcha_reference",
        options=OPTIONS,
        source="Duan et al. 2026, Data-Adaptive Mahalanobis Metric Learning for Cross-Head "
        "Attention in Transformers, NeurIPS 2026, section 2",
        licence="this project's own (MIT)",
        causal=True,
        cacheable=True,
        formula=formula,
        parameters=damcha_parameters(preset),
        multiply_adds=damcha_multiply_adds(preset),
        preset=MappingProxyType(preset),
    )


ADAPTIVE = "M = f(mean(X)), m_i = sum_j M_ij, A_i = softmax(X_i m_i X_i^T / sqrt(K))"

DAMCHA_ROWS = (
    damcha_row(
        "damcha",
        "a metric for each head, generated from the mean of the context by a shared network",
        ADAPTIVE,
    ),
    damcha_row(
        "damcha-static",
        "the metric is one learned parameter for the whole stack: no context",
        "M a parameter of the stack, m_i = sum_j M_ij",
        source="static",
    ),
    damcha_row(
        "damcha-static-unshared",
        "the metric is a learned parameter of each layer: no context",
        "M a parameter of the layer, m_i = sum_j M_ij",
        source="static",
        share=False,
    ),
    damcha_row(
        "damcha-unshared",
        "every layer has a metric generator of its own",
        ADAPTIVE + ", f of the layer",
        share=False,
    ),
    damcha_row(
        "damcha-symmetric",
        "M is symmetric: so is the sum of the m_i, not each m_i",
        "M = (G + G^T)/2, m_i = sum_j M_ij",
        structure="symmetric",
    ),
    damcha_row(
        "damcha-psd",
        "M is positive semi-definite: so is the sum of the m_i, not each m_i",
        "M = L L^T, m_i = L_i (sum_j L_j)^T",
        structure="psd",
    ),
    damcha_row(
        "damcha-low-rank",
        "M has a low rank",
        "M = U V^T, m_i = U_i (sum_j V_j)^T",
        structure="low_rank",
    ),
    damcha_row(
        "damcha-diagonal",
        "M is diagonal: a weight for each feature",
        "M = diag(w), m_i = diag(w_i)",
        structure="diagonal",
    ),
    damcha_row(
        "damcha-block-diagonal",
        "M has only the blocks M_ii: the function class of damcha, with other step sizes",
        "m_i = M_ii",
        structure="block_diagonal",
    ),
    damcha_row(
        "damcha-geometric",
        "a causal layer makes new metrics at token counts that grow by a ratio, O(log N) in all",
        ADAPTIVE + ", X the first c real tokens, c the largest of 1, max(c + 1, ceil(g c)), ... "
        "that the query has reached",
        refresh="geometric",
    ),
)
