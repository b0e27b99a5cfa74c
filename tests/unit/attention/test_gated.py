"""Gated attention beyond the contract."""

from __future__ import annotations

import math

import pytest
import torch

from damcha_core.attention import MultiHeadAttention
from damcha_core.attention.gated import GatedAttention, build_gated


def mha_of(layer: GatedAttention) -> MultiHeadAttention:
    mha = MultiHeadAttention(21, 3).double()
    mha.load_state_dict(
        {
            "qkv.weight": layer.qkv.weight,
            "qkv.bias": torch.zeros(63),
            "out.weight": layer.out.weight,
            "out.bias": torch.zeros(21),
        }
    )
    return mha


@pytest.mark.parametrize("gate", ["headwise", "elementwise"])
def test_half_open_gates_give_half_of_multi_head_attention(gate: str) -> None:
    layer = GatedAttention(21, 3, gate=gate).double()
    with torch.no_grad():
        layer.gate.weight.zero_()
    x = torch.randn(2, 5, 21, dtype=torch.float64)
    torch.testing.assert_close(layer(x), mha_of(layer)(x) / 2, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("gate", "shut"), [("headwise", slice(7, 14)), ("elementwise", slice(1, 2))]
)
def test_a_shut_gate_leaves_the_others_alone(gate: str, shut: slice) -> None:
    """Gate 1 is that of head 1 or of feature 1."""
    layer = GatedAttention(21, 3, gate=gate).double()
    with torch.no_grad():
        layer.gate.weight.fill_(1000.0)
        layer.gate.weight[1] = -1000.0
        layer.out.weight.copy_(torch.eye(21))
    x = torch.rand(2, 5, 21, dtype=torch.float64)
    expected = mha_of(layer)(x)
    expected[..., shut] = 0
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-13)


def test_gates_start_as_queries_do() -> None:
    bound = math.sqrt(6 / (4 * 64))
    for gate, n_gates in (("headwise", 8), ("elementwise", 64)):
        layer = GatedAttention(64, 8, gate=gate)
        assert layer.gate.weight.shape == (n_gates, 64)
        assert 0.9 * bound < layer.gate.weight.abs().max() <= bound
        assert f"gate={gate}" in repr(layer)


def test_another_gate_is_refused() -> None:
    with pytest.raises(ValueError, match="gate must be one of headwise, elementwise, got 'none'"):
        build_gated(12, 3, 1, gate="none")
