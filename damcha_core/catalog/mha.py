"""Catalogue row of standard multi-head attention."""

from __future__ import annotations

from collections.abc import Mapping

from damcha_core.catalog.attention_row import AttentionRow


def mha_parameters(
    d_model: int, n_heads: int, n_layers: int, options: Mapping[str, object] | None = None
) -> int:
    """Query, key, value and output projections with their biases.

    Args:
        d_model: width D of a token.
        n_heads: number of heads; the count does not depend on it.
        n_layers: number of layers in the stack.
        options: none are known; accepted so that all rows are called alike.

    Returns:
        n_layers * (4 D^2 + 4 D).
    """
    return n_layers * (4 * d_model * d_model + 4 * d_model)


def mha_multiply_adds(
    d_model: int,
    n_heads: int,
    n_layers: int,
    options: Mapping[str, object] | None = None,
    *,
    n_tokens: int,
    is_causal: bool,
) -> int:
    """Four projections, the scores and the weighted sums of the values.

    Args:
        d_model: width D of a token.
        n_heads: number of heads; the count does not depend on it.
        n_layers: number of layers in the stack.
        options: none are known; accepted so that all rows are called alike.
        n_tokens: length N of the sequence.
        is_causal: no effect: all pairs of tokens are counted.

    Returns:
        n_layers * (4 N D^2 + 2 N^2 D).
    """
    return n_layers * (4 * n_tokens * d_model * d_model + 2 * n_tokens * n_tokens * d_model)


MHA = AttentionRow(
    name="mha",
    summary="standard multi-head attention: the reference of every comparison",
    builder="damcha_core.attention.mha:build_mha",
    reference="damcha_core.attention.reference.mha:mha_reference",
    options=None,
    source="Attention Is All You Need, 2017, arXiv:1706.03762",
    licence="written from the formula; the fused kernel is PyTorch's own (BSD-3-Clause)",
    causal=True,
    cacheable=True,
    formula="p_i = softmax(Q_i K_i^T / sqrt(K)), out = concat_i(p_i V_i) W_O + b_O",
    parameters=mha_parameters,
    multiply_adds=mha_multiply_adds,
)
