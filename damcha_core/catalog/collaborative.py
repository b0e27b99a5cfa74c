"""Catalogue row of collaborative attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from damcha_core.catalog.attention_row import AttentionRow
from damcha_core.catalog.loading import load

OPTIONS = "damcha_core.config.options:CollaborativeOptions"
KERNEL_STEP = 8
"""Fused kernels want widths that are multiples of this."""


def kernel_width(shared_dim: int, d_head: int) -> int:
    """Width E that queries, keys and values have in the fused kernel, which wants one for all.

    Args:
        shared_dim: width S of the shared space; the content bias is one feature more.
        d_head: width K of the values of a head.

    Returns:
        max(S + 1, K), rounded up to a multiple of KERNEL_STEP.
    """
    width = max(shared_dim + 1, d_head)
    return -(-width // KERNEL_STEP) * KERNEL_STEP


def collaborative_parameters(
    d_model: int, n_heads: int, n_layers: int, options: Mapping[str, object] | None = None
) -> int:
    """Shared query and key projections, diagonals, content biases, values and outputs.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H.
        n_layers: number of layers in the stack.
        options: shared_dim, the width S of the shared space; 0 is D.

    Returns:
        n_layers * (2 D S + H S + H D + 2 D^2 + 2 D).
    """
    # The default has one home, the options class; it is imported for it on demand.
    chosen = {**load(OPTIONS)().model_dump(), **(options or {})}
    shared = cast(int, chosen["shared_dim"]) or d_model
    scores = 2 * d_model * shared + n_heads * shared + n_heads * d_model
    return n_layers * (scores + 2 * d_model * d_model + 2 * d_model)


def collaborative_multiply_adds(
    d_model: int,
    n_heads: int,
    n_layers: int,
    options: Mapping[str, object] | None = None,
    *,
    n_tokens: int,
    is_causal: bool,
) -> int:
    """Projections, and scores and weighted sums at the width E that the kernel is given.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H.
        n_layers: number of layers in the stack.
        options: shared_dim, the width S of the shared space; 0 is D.
        n_tokens: length N of the sequence.
        is_causal: no effect: all pairs of tokens are counted.

    Returns:
        n_layers * (N (2 D S + H D + 2 D^2) + 2 N^2 H E), E as `kernel_width` has it.
    """
    # The default has one home, the options class; it is imported for it on demand.
    chosen = {**load(OPTIONS)().model_dump(), **(options or {})}
    shared = cast(int, chosen["shared_dim"]) or d_model
    projections = n_tokens * d_model * (2 * shared + n_heads + 2 * d_model)
    width = kernel_width(shared, d_model // n_heads)
    return n_layers * (projections + 2 * n_tokens * n_tokens * n_heads * width)


COLLABORATIVE = AttentionRow(
    name="collaborative",
    summary="heads share one key and query space, each with a learned weight for its features",
    builder="damcha_core.attention.collaborative:build_collaborative",
    reference="damcha_core.attention.reference.collaborative:collaborative_reference",
    options=OPTIONS,
    source="Multi-Head Attention: Collaborate Instead of Concatenate, 2020, arXiv:2006.16362",
    licence="written from the formula; the published code is Apache-2.0, none of it used",
    causal=True,
    cacheable=True,
    formula="p_i = softmax((Q diag(a_i) K^T + 1 (X w_i)^T) / sqrt(S/H)), Q = X W_Q and K = X W_K "
    "of width S for all heads, out = concat_i(p_i V_i) W_O + b_O",
    parameters=collaborative_parameters,
    multiply_adds=collaborative_multiply_adds,
)
