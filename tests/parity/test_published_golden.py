"""The published layers against vectors that their original implementations computed.

Rotary positions are no part of these layers, so the two stored cases with them are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from damcha_core.attention import AttentionLayer, Carry
from damcha_core.attention.collaborative import CollaborativeAttention
from damcha_core.attention.dcmha import ComposedAttention
from damcha_core.attention.differential import DifferentialAttention
from damcha_core.attention.elliptical import EllipticalAttention
from damcha_core.attention.gated import GatedAttention
from damcha_core.attention.reference.collaborative import collaborative_reference
from damcha_core.attention.reference.dcmha import dcmha_reference
from damcha_core.attention.reference.differential import differential_reference
from damcha_core.attention.reference.elliptical import elliptical_reference
from damcha_core.attention.reference.gated import gated_reference
from damcha_core.attention.reference.talking_heads import talking_heads_reference
from damcha_core.attention.talking_heads import TalkingHeadsAttention

TOLERANCE = 1e-9
WIDTH, HEADS = 32, 4
PLACES = ("full", "causal", "full_padded", "causal_padded")
LAYERS: dict[str, tuple[Callable[[], AttentionLayer], Callable[..., Tensor]]] = {
    "talking_heads": (lambda: TalkingHeadsAttention(WIDTH, HEADS), talking_heads_reference),
    "collaborative": (
        lambda: CollaborativeAttention(WIDTH, HEADS, shared_dim=16),
        collaborative_reference,
    ),
    "elliptical": (lambda: EllipticalAttention(WIDTH, HEADS), elliptical_reference),
    "dcmha": (lambda: ComposedAttention(WIDTH, HEADS), dcmha_reference),
    "diff": (lambda: DifferentialAttention(WIDTH, HEADS, layer_index=1), differential_reference),
    "gated": (lambda: GatedAttention(WIDTH, HEADS), gated_reference),
    "gated.elementwise": (
        lambda: GatedAttention(WIDTH, HEADS, gate="elementwise"),
        gated_reference,
    ),
}
NAMES = {
    "out.weight": "w_o",
    "out.bias": "b_o",
    "query.weight": "w_q",
    "key.weight": "w_k",
    "value.weight": "w_v",
    "value.bias": "b_v",
    "score_mixing_HH": "w_logits",
    "weight_mixing_HH": "w_weights",
    "mixing_HS": "mixing",
    "content_bias_HD": "w_content",
    "norm_gain": "subln",
    "gate.weight": "w_gate",
}
CASES = [
    (file, place)
    for file in ("talking_heads", "collaborative", "dcmha", "diff")
    for place in PLACES
] + [("gated", f"{gate}.{place}") for gate in ("headwise", "elementwise") for place in PLACES]
PATHS = pytest.mark.parametrize("path", ["layer", "reference"])


def stored_layer(kind: str, weights: dict[str, Tensor]) -> tuple[AttentionLayer, Callable]:
    """The layer of a stored case, and its reference."""
    make, reference = LAYERS[kind]
    layer = make().double()
    state = {}
    for name in layer.state_dict():
        if name.startswith("qkv."):
            letter = "w" if name.endswith("weight") else "b"
            state[name] = torch.cat([weights[f"{letter}_{part}"] for part in "qkv"])
        else:
            state[name] = weights[NAMES.get(name, name)]
    layer.load_state_dict(state)
    return layer, reference


def test_every_stored_case_is_tested(golden) -> None:
    for file in ("talking_heads", "collaborative", "dcmha", "diff", "gated"):
        stored = {case["case"] for case in golden(file).cases} - {"causal_rope"}
        assert stored == {place for name, place in CASES if name == file}
    assert {case["case"] for case in golden("elliptical").cases} == {"single", "chain"}


@PATHS
@pytest.mark.parametrize(("file", "place"), CASES)
def test_outputs_and_gradients_are_the_stored_ones(golden, file: str, place: str, path) -> None:
    gate = place.rpartition(".")[0]
    kind = "gated.elementwise" if gate == "elementwise" else file
    weights = golden(file).case(f"w.{gate}" if gate else "w")
    layer, reference = stored_layer(kind, weights)
    case = golden(file).case(place)
    mask = case.get("keep")
    keep = torch.ones(case["x"].shape[:2], dtype=torch.bool) if mask is None else mask
    x = case["x"].clone().requires_grad_()

    if path == "reference":
        out = reference(layer, x, mask, "causal" in place)
    else:
        out = layer(x, key_mask=mask, is_causal="causal" in place)
    (out * keep[..., None]).sum().backward()

    torch.testing.assert_close(out[keep], case["out"][keep], rtol=0, atol=TOLERANCE)
    expected = case["grad_x" if mask is None else "grad_x_valid"]
    torch.testing.assert_close(x.grad, expected, rtol=0, atol=TOLERANCE)


@PATHS
def test_an_elliptical_layer_with_given_values_before_it(golden, path) -> None:
    layer, reference = stored_layer("elliptical", golden("elliptical").case("w"))
    case = golden("elliptical").case("single")
    x = case["x"].clone().requires_grad_()
    carry = Carry(case["v_prev"])

    out = reference(layer, x, before_BHNK=case["v_prev"]) if path == "reference" else None
    if out is None:
        out = layer(x, carry=carry)
        torch.testing.assert_close(carry.values_BHNK, case["v"], rtol=0, atol=TOLERANCE)
        metric = layer.metric(layer.summed_change(case["v"], case["v_prev"], None, False))
        torch.testing.assert_close(metric.squeeze(2), case["m"], rtol=0, atol=TOLERANCE)
    out.sum().backward()

    torch.testing.assert_close(out, case["out"], rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(x.grad, case["grad_x"], rtol=0, atol=TOLERANCE)


@PATHS
def test_a_chain_of_a_plain_and_an_elliptical_layer(golden, path) -> None:
    stored = golden("elliptical")
    first, reference = stored_layer("elliptical", stored.case("w.layer0"))
    second, _ = stored_layer("elliptical", stored.case("w"))
    case = stored.case("chain")
    x = case["x"].clone().requires_grad_()

    if path == "reference":
        between = x + reference(first, x)
        _, _, values = (x @ first.qkv.weight.T + first.qkv.bias).detach().chunk(3, -1)
        out = reference(second, between, before_BHNK=first.split_heads(values))
    else:
        carry = Carry()
        between = x + first(x, carry=carry)
        out = second(between, carry=carry)
    out.sum().backward()

    torch.testing.assert_close(out, case["out"], rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(x.grad, case["grad_x"], rtol=0, atol=TOLERANCE)
