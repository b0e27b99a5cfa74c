"""Catalogue row of dynamically composable multi-head attention."""

from __future__ import annotations

from collections.abc import Mapping

from damcha_core.catalog.attention_row import AttentionRow


def dcmha_parameters(
    d_model: int, n_heads: int, n_layers: int, options: Mapping[str, object] | None = None
) -> int:
    """Four projections without biases, and what generates the compositions of the heads.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H.
        n_layers: number of layers in the stack.
        options: none are known; accepted so that all rows are called alike.

    Returns:
        n_layers * (4 D^2 + 20 D H + 64 H^2).
    """
    composition = 20 * d_model * n_heads + 64 * n_heads * n_heads
    return n_layers * (4 * d_model * d_model + composition)


def dcmha_multiply_adds(
    d_model: int,
    n_heads: int,
    n_layers: int,
    options: Mapping[str, object] | None = None,
    *,
    n_tokens: int,
    is_causal: bool,
) -> int:
    """Multi-head attention, and the compositions: of each token, and on each pair of tokens.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H.
        n_layers: number of layers in the stack.
        options: none are known; accepted so that all rows are called alike.
        n_tokens: length N of the sequence.
        is_causal: no effect: all pairs of tokens are counted.

    Returns:
        n_layers * (4 N D^2 + 2 N^2 D + N (20 D H + 72 H^2) + 4 N^2 H^2).
    """
    pairs = n_tokens * n_tokens
    attention = 4 * n_tokens * d_model * d_model + 2 * pairs * d_model
    # Weights and gates of four streams, and the products W_2^T W_1 of rank 2.
    generated = n_tokens * (20 * d_model * n_heads + (64 + 8) * n_heads * n_heads)
    return n_layers * (attention + generated + 4 * pairs * n_heads * n_heads)


DCMHA = AttentionRow(
    name="dcmha",
    summary="heads mix their scores and their weights by matrices generated for each token",
    builder="damcha_core.attention.dcmha:build_dcmha",
    reference="damcha_core.attention.reference.dcmha:dcmha_reference",
    options=None,
    source="Improving Transformers with Dynamically Composable Multi-Head Attention, ICML 2024, "
    "arXiv:2405.08553; rank 2, no static term",
    licence="written from the formula; the published code is MIT, none of it used",
    causal=True,
    cacheable=True,
    formula="p = softmax(Compose(Q K^T / sqrt(K))), out = concat_i(Compose(p)_i V_i) W_O, "
    "Compose(A)_ts = (I + C_q(x_t) + C_k(x_s)) A_ts over the heads, "
    "C(x) = W_2(x)^T W_1(x) + diag(g(x))",
    parameters=dcmha_parameters,
    multiply_adds=dcmha_multiply_adds,
)
