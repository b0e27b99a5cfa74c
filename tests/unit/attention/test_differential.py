"""Differential attention beyond the contract: pairs of heads, lambda, and its kernel calls."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from damcha_core.attention import build_attention
from damcha_core.attention.differential import DifferentialAttention


@pytest.mark.parametrize("n_heads", [1, 3, 5])
def test_an_odd_number_of_heads_is_refused(n_heads: int) -> None:
    with pytest.raises(ValueError, match=f"in pairs, so n_heads must be even, got {n_heads}"):
        DifferentialAttention(15, n_heads)
    with pytest.raises(ValueError, match="even"):
        build_attention("differential", 15, n_heads, 2)


def test_a_negative_layer_number_is_refused() -> None:
    with pytest.raises(ValueError, match="layer_index must be at least 0, got -1"):
        DifferentialAttention(12, 2, layer_index=-1)


def test_lambda_starts_by_the_number_of_the_layer_from_zero() -> None:
    layers = build_attention("differential", 12, 2, 4).layers
    expected = [0.8 - 0.6 * math.exp(-0.3 * number) for number in range(4)]
    assert [layer.lambda_init for layer in layers] == expected
    assert expected[0] == pytest.approx(0.2)
    assert expected[1] == pytest.approx(0.35550906759096934)
    assert "lambda_init=0.3555" in repr(layers[1])


def test_lambda_is_that_of_the_formula() -> None:
    layer = DifferentialAttention(12, 2, layer_index=2).double()
    lam = (
        math.exp((layer.lambda_q1 @ layer.lambda_k1).item())
        - math.exp((layer.lambda_q2 @ layer.lambda_k2).item())
        + 0.8
        - 0.6 * math.exp(-0.6)
    )
    assert layer.weight_of_second().item() == pytest.approx(lam, abs=1e-15)
    wide = DifferentialAttention(600, 2)
    vectors = torch.cat([wide.lambda_q1, wide.lambda_k1, wide.lambda_q2, wide.lambda_k2])
    assert vectors.std().item() == pytest.approx(0.1, rel=0.1)
    assert torch.equal(wide.norm_gain, torch.ones(600))


def test_a_pair_of_equal_heads_with_weight_one_cancels() -> None:
    layer = DifferentialAttention(12, 2).double()
    with torch.no_grad():
        for part in layer.qkv.weight[:24].chunk(2):
            part[6:] = part[:6]
        layer.lambda_q1.zero_()
        layer.lambda_q2.zero_()
    layer.lambda_init = 1.0
    heads = []
    layer.out.register_forward_pre_hook(lambda _, inputs: heads.append(inputs[0]))
    layer(torch.randn(2, 5, 12, dtype=torch.float64))
    assert heads[0].abs().max() < 1e-9


def kernel_widths(monkeypatch, layer: DifferentialAttention) -> list[tuple[int, int, int]]:
    widths = []

    def kernel(q, k, v, **_):
        widths.append((q.shape[-1], k.shape[-1], v.shape[-1]))
        return v

    monkeypatch.setattr(functional, "scaled_dot_product_attention", kernel)
    layer(torch.randn(2, 5, 12))
    return widths


def test_the_kernel_gets_one_width_and_each_half_of_the_values(monkeypatch) -> None:
    assert kernel_widths(monkeypatch, DifferentialAttention(12, 4)) == [(3, 3, 3), (3, 3, 3)]
    layer = DifferentialAttention(12, 4, dropout=0.5).eval()
    assert kernel_widths(monkeypatch, layer) == [(3, 3, 3), (3, 3, 3)]


def test_dropout_drops_a_weight_for_both_halves(monkeypatch) -> None:
    layer = DifferentialAttention(12, 4, dropout=0.5)
    assert kernel_widths(monkeypatch, layer) == [(3, 3, 6)]


def test_both_ways_give_the_same_values(redraw) -> None:
    layer = DifferentialAttention(12, 4).double()
    redraw(layer, 3)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    halves = layer(x)
    layer.dropout = 1e-300  # nothing is dropped, yet the path is that of dropout
    torch.testing.assert_close(layer(x), halves, rtol=0, atol=1e-13)
