"""Dynamically composable attention beyond the contract: its start and its compositions."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from damcha_core.attention import MultiHeadAttention, parameter_groups
from damcha_core.attention.dcmha import ComposedAttention, compose

PADDING = torch.tensor([[True, True, False, True, False], [False, False, True, True, True]])


def test_the_initial_scales_are_the_published_ones() -> None:
    d_model, n_heads = 256, 8
    layer = ComposedAttention(d_model, n_heads)
    scales = {
        "dw1": math.sqrt(2 / (d_model + 4 * n_heads)),
        "qkw": 0.01 / (math.sqrt(n_heads) * (n_heads + 2)),
        "dd": 0.05 * math.sqrt(2 / (d_model + n_heads)),
    }
    for name, expected in scales.items():
        parameter = getattr(layer, name)
        assert parameter.std().item() == pytest.approx(expected, rel=0.05)
        assert abs(parameter.mean().item()) < 0.1 * expected


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
def test_without_compositions_it_is_multi_head_attention(key_mask, is_causal: bool) -> None:
    layer = ComposedAttention(21, 3).double()
    with torch.no_grad():
        layer.qkw.zero_()
        layer.dd.zero_()
    mha = MultiHeadAttention(21, 3).double()
    mha.load_state_dict(
        {
            "qkv.weight": layer.qkv.weight,
            "qkv.bias": torch.zeros(63),
            "out.weight": layer.out.weight,
            "out.bias": torch.zeros(21),
        }
    )
    x = torch.randn(2, 5, 21, dtype=torch.float64)
    masks = {"key_mask": key_mask, "is_causal": is_causal}
    torch.testing.assert_close(layer(x, **masks), mha(x, **masks), rtol=0, atol=1e-12)


def test_a_composition_is_a_low_rank_product_and_a_gate(redraw) -> None:
    layer = ComposedAttention(15, 5).double()
    redraw(layer, 3)
    x = torch.randn(2, 7, 15, dtype=torch.float64)
    compositions = layer.compositions(x)
    assert compositions.shape == (2, 7, 4, 5, 5)
    gates = torch.tanh(x @ layer.dd).view(2, 7, 4, 5)
    low_rank = compositions - torch.diag_embed(gates)
    values = torch.linalg.svdvals(low_rank)
    assert (values[..., 2:] < 1e-12).all()
    assert (values[..., 1] > 1e-6).all()
    hidden = functional.gelu(x[1, 4] @ layer.dw1[:, 2])
    w1 = functional.normalize(hidden @ layer.qkw[2, :, :2].transpose(0, 1), dim=-1) * math.sqrt(5)
    w2 = hidden @ layer.qkw[2, :, 2:].transpose(0, 1)
    torch.testing.assert_close(low_rank[1, 4, 2], w2.T @ w1, rtol=1e-4, atol=1e-4)


def test_queries_and_keys_compose_each_place() -> None:
    a = torch.randn(2, 3, 5, 7, dtype=torch.float64)
    by_query = torch.randn(2, 5, 3, 3, dtype=torch.float64)
    by_key = torch.randn(2, 7, 3, 3, dtype=torch.float64)
    composed = compose(a, by_query, by_key)
    for t in range(5):
        for s in range(7):
            matrix = torch.eye(3).double() + by_query[1, t] + by_key[1, s]
            expected = matrix @ a[1, :, t, s]
            torch.testing.assert_close(composed[1, :, t, s], expected, rtol=0, atol=1e-13)


def test_dropout_acts_on_the_composed_weights() -> None:
    """One token attends to itself, so a composed weight is one number that is kept or dropped."""
    layer = ComposedAttention(2, 2, dropout=0.5)
    x = torch.ones(500, 1, 2)
    with torch.no_grad():
        layer.out.weight.copy_(torch.eye(2))
    kept = 2 * layer.eval()(x[:1]).flatten()
    out = layer.train()(x).view(500, 2)
    for i in range(2):
        values = out[:, i][out[:, i] != 0]
        assert 150 < len(values) < 350
        torch.testing.assert_close(values, kept[i].expand_as(values))


def test_what_generates_the_compositions_is_decayed() -> None:
    groups = parameter_groups(ComposedAttention(6, 3), lr=1.0, weight_decay=0.1)
    assert [group["weight_decay"] for group in groups] == [0.1]
