"""Catalogue row of gated attention."""

from __future__ import annotations

from collections.abc import Mapping

from damcha_core.catalog.attention_row import AttentionRow
from damcha_core.catalog.loading import load

OPTIONS = "damcha_core.config.options:GatedOptions"


def gated_parameters(
    d_model: int, n_heads: int, n_layers: int, options: Mapping[str, object] | None = None
) -> int:
    """Four projections without biases and that of the gates.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H.
        n_layers: number of layers in the stack.
        options: gate, "headwise" or "elementwise".

    Returns:
        n_layers * (4 D^2 + D H), elementwise n_layers * 5 D^2.
    """
    # The default has one home, the options class; it is imported for it on demand.
    chosen = {**load(OPTIONS)().model_dump(), **(options or {})}
    n_gates = d_model if chosen["gate"] == "elementwise" else n_heads
    return n_layers * (4 * d_model * d_model + d_model * n_gates)


def gated_multiply_adds(
    d_model: int,
    n_heads: int,
    n_layers: int,
    options: Mapping[str, object] | None = None,
    *,
    n_tokens: int,
    is_causal: bool,
) -> int:
    """Multi-head attention and the projection to the gates.

    Args:
        d_model: width D of a token.
        n_heads: number of heads H.
        n_layers: number of layers in the stack.
        options: gate, "headwise" or "elementwise".
        n_tokens: length N of the sequence.
        is_causal: no effect: all pairs of tokens are counted.

    Returns:
        n_layers * (4 N D^2 + 2 N^2 D + N D H), elementwise D in place of H.
    """
    # The default has one home, the options class; it is imported for it on demand.
    chosen = {**load(OPTIONS)().model_dump(), **(options or {})}
    n_gates = d_model if chosen["gate"] == "elementwise" else n_heads
    projections = n_tokens * d_model * (4 * d_model + n_gates)
    return n_layers * (projections + 2 * n_tokens * n_tokens * d_model)


GATED = AttentionRow(
    name="gated",
    summary="a sigmoid gate on the output of each head, or on each of its features",
    builder="damcha_core.attention.gated:build_gated",
    reference="damcha_core.attention.reference.gated:gated_reference",
    options=OPTIONS,
    source="Gated Attention for Large Language Models: Non-linearity, Sparsity, and "
    "Attention-Sink-Free, NeurIPS 2025, arXiv:2505.06708",
    licence="written from the formula; the published code is MIT with an Apache-2.0 file header, "
    "none of it used",
    causal=True,
    cacheable=True,
    formula="p_i = softmax(Q_i K_i^T / sqrt(K)), out = concat_i(sigmoid(X G_i) * p_i V_i) W_O",
    parameters=gated_parameters,
    multiply_adds=gated_multiply_adds,
)
