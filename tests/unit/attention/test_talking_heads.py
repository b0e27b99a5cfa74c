"""Talking-heads attention beyond the contract: its start, and where dropout acts."""

from __future__ import annotations

import pytest
import torch

from damcha_core.attention import MultiHeadAttention, parameter_groups
from damcha_core.attention.talking_heads import TalkingHeadsAttention, mix_heads

PADDING = torch.tensor([[True, True, False, True, False], [False, False, True, True, True]])


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
def test_a_fresh_layer_is_multi_head_attention(key_mask, is_causal: bool) -> None:
    layer = TalkingHeadsAttention(21, 3).double()
    mha = MultiHeadAttention(21, 3).double()
    mha.load_state_dict(
        {
            "qkv.weight": layer.qkv.weight,
            "qkv.bias": torch.zeros(63),
            "out.weight": layer.out.weight,
            "out.bias": layer.out.bias,
        }
    )
    x = torch.randn(2, 5, 21, dtype=torch.float64)
    masks = {"key_mask": key_mask, "is_causal": is_causal}
    torch.testing.assert_close(layer(x, **masks), mha(x, **masks), rtol=0, atol=1e-12)


def test_a_mixing_takes_its_rows_to_the_new_heads() -> None:
    a = torch.randn(2, 3, 5, 7, dtype=torch.float64)
    mixing = torch.randn(3, 3, dtype=torch.float64)
    mixed = mix_heads(mixing, a)
    for new in range(3):
        expected = sum(mixing[new, old] * a[:, old] for old in range(3))
        torch.testing.assert_close(mixed[:, new], expected, rtol=0, atol=1e-14)


def test_dropout_acts_on_the_mixed_weights() -> None:
    """One token attends to itself with weight 1 in both heads, so a mixed weight is 2."""
    layer = TalkingHeadsAttention(2, 2, dropout=0.5)
    with torch.no_grad():
        layer.weight_mixing_HH.fill_(1.0)
        layer.qkv.weight[4:] = torch.eye(2)
        layer.out.weight.copy_(torch.eye(2))
    out = layer(torch.ones(500, 1, 2))
    assert sorted(set(out.flatten().tolist())) == [0.0, 4.0]


def test_the_mixings_are_not_decayed() -> None:
    groups = parameter_groups(TalkingHeadsAttention(6, 3), lr=1.0, weight_decay=0.1)
    decay = {name: group["weight_decay"] for group in groups for name in group["names"]}
    assert decay["score_mixing_HH"] == decay["weight_mixing_HH"] == decay["out.bias"] == 0.0
    assert decay["qkv.weight"] == decay["out.weight"] == 0.1
