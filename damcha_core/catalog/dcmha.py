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
)
