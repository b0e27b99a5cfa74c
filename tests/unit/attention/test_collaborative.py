"""Collaborative attention beyond the contract: equality with multi-head attention, widths."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from damcha_core.attention import MultiHeadAttention, parameter_groups
from damcha_core.attention.collaborative import CollaborativeAttention, block_indicator

PADDING = torch.tensor([[True, True, False, True, False], [False, False, True, True, True]])
WIDTH, HEADS = 21, 3


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
def test_with_blocks_of_its_own_features_it_is_multi_head_attention(
    redraw, key_mask, is_causal: bool
) -> None:
    """The key bias drops out of a softmax, the query bias is the content bias W_K,i^T b_Q,i."""
    mha = MultiHeadAttention(WIDTH, HEADS).double()
    redraw(mha, 3)
    w_q, w_k, w_v = mha.qkv.weight.chunk(3)
    b_q, _, b_v = mha.qkv.bias.chunk(3)
    layer = CollaborativeAttention(WIDTH, HEADS).double()
    content = [w_k[own].T @ b_q[own] for own in torch.arange(WIDTH).chunk(HEADS)]
    layer.load_state_dict(
        {
            "mixing_HS": block_indicator(HEADS, WIDTH),
            "content_bias_HD": torch.stack(content),
            "query.weight": w_q,
            "key.weight": w_k,
            "value.weight": w_v,
            "value.bias": b_v,
            "out.weight": mha.out.weight,
            "out.bias": mha.out.bias,
        }
    )
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    masks = {"key_mask": key_mask, "is_causal": is_causal}
    torch.testing.assert_close(layer(x, **masks), mha(x, **masks), rtol=0, atol=1e-12)


def test_a_fresh_layer_starts_there() -> None:
    layer = CollaborativeAttention(WIDTH, HEADS)
    assert torch.equal(layer.mixing_HS, block_indicator(HEADS, WIDTH))
    assert not layer.content_bias_HD.any()
    bound = math.sqrt(6 / (4 * WIDTH))
    for part in (layer.query, layer.key, layer.value):
        assert 0.9 * bound < part.weight.abs().max() <= bound


def test_every_shared_feature_has_one_owner() -> None:
    for n_heads, shared in [(3, 21), (3, 7), (4, 16), (5, 2), (1, 3)]:
        indicator = block_indicator(n_heads, shared)
        assert indicator.shape == (n_heads, shared)
        assert torch.equal(indicator.sum(0), torch.ones(shared))
        sizes = indicator.sum(1)
        assert sizes.max() - sizes.min() <= 1
    assert block_indicator(3, 7).argmax(0).tolist() == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("shared_dim", [0, 1, 5, 64])
def test_the_kernel_gets_one_width(monkeypatch, shared_dim: int) -> None:
    seen = []

    def kernel(q, k, v, **_):
        seen.extend([q.shape, k.shape, v.shape])
        return v

    monkeypatch.setattr(functional, "scaled_dot_product_attention", kernel)
    layer = CollaborativeAttention(WIDTH, HEADS, shared_dim=shared_dim)
    assert layer(torch.randn(2, 5, WIDTH)).shape == (2, 5, WIDTH)
    assert len(set(seen)) == 1
    width = seen[0][-1]
    assert width % 8 == 0
    assert max(layer.shared_dim + 1, 7) <= width < max(layer.shared_dim + 1, 7) + 8


def test_a_negative_width_is_refused() -> None:
    with pytest.raises(ValueError, match="shared_dim must be at least 1, or 0 for d_model, got -1"):
        CollaborativeAttention(WIDTH, HEADS, shared_dim=-1)


def test_it_says_its_shared_width() -> None:
    assert "shared_dim=21" in repr(CollaborativeAttention(WIDTH, HEADS))


def test_weights_of_features_and_content_biases_are_not_decayed() -> None:
    groups = parameter_groups(CollaborativeAttention(6, 3), lr=1.0, weight_decay=0.1)
    kept = {name for group in groups if not group["weight_decay"] for name in group["names"]}
    assert kept == {"mixing_HS", "content_bias_HD", "value.bias", "out.bias"}
