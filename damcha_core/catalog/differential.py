"""Catalogue row of differential attention."""

from __future__ import annotations

from collections.abc import Mapping

from damcha_core.catalog.attention_row import AttentionRow


def differential_parameters(
    d_model: int, n_heads: int, n_layers: int, options: Mapping[str, object] | None = None
) -> int:
    """Four projections without biases, four lambda vectors and the gain of the norm.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H; the head width is K = D/H.
        n_layers: number of layers in the stack.
        options: none are known; accepted so that all rows are called alike.

    Returns:
        n_layers * (4 D^2 + 6 K).
    """
    return n_layers * (4 * d_model * d_model + 6 * (d_model // n_heads))


def differential_multiply_adds(
    d_model: int,
    n_heads: int,
    n_layers: int,
    options: Mapping[str, object] | None = None,
    *,
    n_tokens: int,
    is_causal: bool,
) -> int:
    """Four projections, and the scores of all heads once for each half of the values.

    Args:
        d_model: width D of a token.
        n_heads: number of heads; the count does not depend on it.
        n_layers: number of layers in the stack.
        options: none are known; accepted so that all rows are called alike.
        n_tokens: length N of the sequence.
        is_causal: no effect: all pairs of tokens are counted.

    Returns:
        n_layers * (4 N D^2 + 4 N^2 D).
    """
    return n_layers * (4 * n_tokens * d_model * d_model + 4 * n_tokens * n_tokens * d_model)


DIFFERENTIAL = AttentionRow(
    name="differential",
    summary="two heads at a time, the weights of the second subtracted from those of the first",
    builder="damcha_core.attention.differential:build_differential",
    reference="damcha_core.attention.reference.differential:differential_reference",
    options=None,
    source="Differential Transformer, ICLR 2025, arXiv:2410.05258; the first version",
    licence="written from the formula; the published code is MIT, none of it used",
    causal=True,
    cacheable=True,
    formula="P_j = softmax(Q_2j K_2j^T / sqrt(K)) - lambda softmax(Q_2j+1 K_2j+1^T / sqrt(K)), "
    "out = concat_j((1 - lambda_0) RMSNorm(P_j V_j)) W_O, j = 0 .. H/2 - 1, V_j of width 2K",
    parameters=differential_parameters,
    multiply_adds=differential_multiply_adds,
    head_multiple=2,
)
