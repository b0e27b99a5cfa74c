"""What the optimiser gets from a whole model: each parameter once, and the right ones undecayed."""

from __future__ import annotations

import pytest
from torch import nn

from damcha_core import MaskedImageModel, TransformerPC, VisionTransformer
from damcha_core.catalog.attentions import attention_row, attention_rows

NAMES = [row.name for row in attention_rows()]
CONSTANTS = ("score_mixing_HH", "weight_mixing_HH", "mixing_HS", "content_bias_HD")


def stack(name: str) -> TransformerPC:
    n_heads = 3 if attention_row(name).head_multiple == 1 else 2
    return TransformerPC(12, n_heads, 20, 2, attention=name, mlp_hidden=(5, 7), is_causal=False)


def masked(name: str) -> nn.Module:
    return MaskedImageModel(6, patch_size=2, channels=3, transformer=stack(name))


def vision(name: str) -> nn.Module:
    return VisionTransformer(6, patch_size=2, channels=3, n_classes=4, transformer=stack(name))


@pytest.mark.parametrize("build", [stack, masked, vision])
@pytest.mark.parametrize("name", NAMES)
def test_each_parameter_is_in_one_group_under_its_own_name(name, build) -> None:
    model = build(name)
    groups = model.parameter_groups(lr=0.1, weight_decay=0.5)
    listed = [(n, id(p)) for g in groups for n, p in zip(g["names"], g["params"], strict=True)]
    assert sorted(listed) == sorted((n, id(p)) for n, p in model.named_parameters())


@pytest.mark.parametrize("name", NAMES)
def test_positions_mask_token_biases_norms_and_static_metrics_are_not_decayed(name) -> None:
    """Nor are constants that mix heads or weigh their features, which are metrics of a kind."""
    model = masked(name)
    groups = model.parameter_groups(lr=0.1, weight_decay=0.5)
    undecayed = {n for g in groups if g["weight_decay"] == 0 for n in g["names"]}
    expected = {
        n
        for n, p in model.named_parameters()
        if p.ndim == 1 or n.endswith((".static", ".position", *CONSTANTS)) or n == "mask_token"
    }
    assert undecayed == expected
    assert {"mask_token", "embedding.position", "head.bias", "transformer.norm.weight"} <= undecayed
    assert "head.weight" not in undecayed


def test_without_decay_nothing_is_decayed() -> None:
    groups = vision("damcha").parameter_groups(lr=0.1)
    assert {group["weight_decay"] for group in groups} == {0.0}
