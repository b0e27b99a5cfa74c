"""Catalogue row of talking-heads attention."""

from __future__ import annotations

from collections.abc import Mapping

from damcha_core.catalog.attention_row import AttentionRow


def talking_heads_parameters(
    d_model: int, n_heads: int, n_layers: int, options: Mapping[str, object] | None = None
) -> int:
    """Four projections, of which the last has a bias, and the two mixings of the heads.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H.
        n_layers: number of layers in the stack.
        options: none are known; accepted so that all rows are called alike.

    Returns:
        n_layers * (4 D^2 + D + 2 H^2).
    """
    return n_layers * (4 * d_model * d_model + d_model + 2 * n_heads * n_heads)


def talking_heads_multiply_adds(
    d_model: int,
    n_heads: int,
    n_layers: int,
    options: Mapping[str, object] | None = None,
    *,
    n_tokens: int,
    is_causal: bool,
) -> int:
    """Multi-head attention, and the two mixings for each pair of tokens.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H.
        n_layers: number of layers in the stack.
        options: none are known; accepted so that all rows are called alike.
        n_tokens: length N of the sequence.
        is_causal: no effect: all pairs of tokens are counted.

    Returns:
        n_layers * (4 N D^2 + 2 N^2 D + 2 N^2 H^2).
    """
    pairs = n_tokens * n_tokens
    attention = 4 * n_tokens * d_model * d_model + 2 * pairs * d_model
    return n_layers * (attention + 2 * pairs * n_heads * n_heads)


TALKING_HEADS = AttentionRow(
    name="talking-heads",
    summary="heads mix their scores and their weights by learned constants",
    builder="damcha_core.attention.talking_heads:build_talking_heads",
    reference="damcha_core.attention.reference.talking_heads:talking_heads_reference",
    options=None,
    source="Talking-Heads Attention, 2020, arXiv:2003.02436",
    licence="written from the formula; published code is Apache-2.0 (tensorflow/mesh) and MIT "
    "(x-transformers), none of it used",
    causal=True,
    cacheable=True,
    formula="s_i = Q_i K_i^T / sqrt(K), p_o = softmax(sum_i L_oi s_i), "
    "out = concat_o((sum_i W_oi p_i) V_o) W_O + b_O",
    parameters=talking_heads_parameters,
    multiply_adds=talking_heads_multiply_adds,
)
