"""Multi-head attention against stored vectors and against torch's own layer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from damcha_core.attention import MultiHeadAttention
from damcha_core.attention.reference.mha import mha_reference

CASES = ("full", "causal", "full_padded", "causal_padded")


def stored_layer(weights: dict[str, Tensor]) -> MultiHeadAttention:
    layer = MultiHeadAttention(32, 4).double()
    layer.load_state_dict(
        {
            "qkv.weight": torch.cat([weights["w_q"], weights["w_k"], weights["w_v"]]),
            "qkv.bias": torch.cat([weights["b_q"], weights["b_k"], weights["b_v"]]),
            "out.weight": weights["w_o"],
            "out.bias": weights["b_o"],
        }
    )
    return layer


def test_every_stored_case_is_tested(golden) -> None:
    assert sorted(case["case"] for case in golden("mha").cases) == sorted(CASES)


@pytest.mark.parametrize("path", ["layer", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_mha_reproduces_the_stored_outputs_and_gradients(golden, name: str, path: str) -> None:
    layer = stored_layer(golden("mha").case("w"))
    case = golden("mha").case(name)
    mask = case.get("keep")
    keep = torch.ones(case["x"].shape[:2], dtype=torch.bool) if mask is None else mask
    x = case["x"].clone().requires_grad_()

    if path == "reference":
        out = mha_reference(layer, x, mask, "causal" in name)
    else:
        out = layer(x, key_mask=mask, is_causal="causal" in name)
    (out * keep[..., None]).sum().backward()

    torch.testing.assert_close(out[keep], case["out"][keep], rtol=0, atol=1e-9)
    expected = case["grad_x" if mask is None else "grad_x_valid"]
    torch.testing.assert_close(x.grad, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("is_causal", [False, True])
def test_mha_is_torchs_layer_under_the_same_weights(redraw, is_causal: bool) -> None:
    ours = MultiHeadAttention(15, 5).double()
    redraw(ours, 3)
    theirs = nn.MultiheadAttention(15, 5, batch_first=True).double()
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.qkv.weight,
            "in_proj_bias": ours.qkv.bias,
            "out_proj.weight": ours.out.weight,
            "out_proj.bias": ours.out.bias,
        }
    )
    x = torch.randn(3, 7, 15, dtype=torch.float64)
    blocked = torch.ones(7, 7, dtype=torch.bool).triu(1) if is_causal else None

    expected, _ = theirs(x, x, x, attn_mask=blocked, need_weights=False)
    torch.testing.assert_close(ours(x, is_causal=is_causal), expected, rtol=0, atol=1e-12)
