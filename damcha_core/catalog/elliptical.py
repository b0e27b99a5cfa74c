"""Catalogue row of elliptical attention."""

from __future__ import annotations

from damcha_core.catalog.attention_row import AttentionRow
from damcha_core.catalog.mha import mha_multiply_adds, mha_parameters

ELLIPTICAL = AttentionRow(
    name="elliptical",
    summary="a weight for each feature, estimated from how values change from layer to layer",
    builder="damcha_core.attention.elliptical:build_elliptical",
    reference="damcha_core.attention.reference.elliptical:elliptical_reference",
    options=None,
    source="Elliptical Attention, NeurIPS 2024, arXiv:2406.13770; causal layers and padding by the "
    "sum over the real tokens up to the query, which the published code has not",
    licence="written from the formula; the published code has no licence, none of it used",
    causal=True,
    cacheable=True,
    formula="p_i = softmax(Q_i diag(m_i) K_i^T / sqrt(K)), m_i = c_i / max(c_i), "
    "c_i = sum_t |V_i - V_i of the layer before|, m_i = 1 in the first layer",
    parameters=mha_parameters,
    multiply_adds=mha_multiply_adds,
)
