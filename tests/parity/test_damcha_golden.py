"""DAMCHA against stored vectors that were computed without this code, in all 42 cases."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from damcha_core.attention import DamchaAttention
from damcha_core.attention.reference.damcha import damcha_reference, reference_metrics

TOLERANCE = 1e-9
STRUCTURES = ("full", "symmetric", "psd", "low_rank", "diagonal", "block_diagonal", "static")
PLACES = [
    f"{reach}.{padding}" for reach in ("whole", "causal") for padding in ("none", "right", "left")
]
CASES = [f"{structure}.{place}" for structure in STRUCTURES for place in PLACES]
PATHS = {
    "layer": CASES,
    "reference": CASES,
    "head form": [c for c in CASES if c[:4] in ("full", "stat")],
}


def stored_layer(structure: str, weights: dict[str, Tensor]) -> DamchaAttention:
    """The layer of a stored case, with M emitted whole."""
    layer = DamchaAttention(
        24,
        3,
        structure="full" if structure == "static" else structure,
        source="static" if structure == "static" else "adaptive",
        output="matrix",
        mlp_hidden=(10, 14),
        rank=4 if structure in ("psd", "low_rank") else 0,
    ).double()
    names = {
        "value.weight": "w_v",
        "value.bias": "b_v",
        "out.weight": "w_o",
        "out.bias": "b_o",
        "generator.static": "M",
        "generator.body.0.weight": "w_body0",
        "generator.body.0.bias": "b_body0",
        "generator.body.2.weight": "w_body1",
        "generator.body.2.bias": "b_body1",
        "generator.last_weight": "w_out",
        "generator.last_bias": "b_out",
    }
    layer.load_state_dict({ours: weights[name] for ours, name in names.items() if name in weights})
    return layer


def test_every_stored_case_is_tested(golden) -> None:
    stored = [case["case"] for case in golden("damcha").cases]
    assert len(stored) == 42
    assert sorted(stored) == sorted(CASES)


@pytest.mark.parametrize(("path", "name"), [(p, c) for p, cases in PATHS.items() for c in cases])
def test_damcha_reproduces_the_stored_outputs_and_gradients(golden, path: str, name: str) -> None:
    structure, reach, padding = name.split(".")
    case = golden("damcha").case(name)
    layer = stored_layer(structure, golden("damcha").case(f"{structure}.w"))
    if path == "head form":
        layer.generator = layer.generator.to_head()
    keep = case["keep"]
    mask = None if padding == "none" else keep
    x = case["x"].clone().requires_grad_()

    if path == "reference":
        out = damcha_reference(layer, x, mask, reach == "causal")
    else:
        out = layer(x, key_mask=mask, is_causal=reach == "causal")
    (out * keep[..., None]).sum().backward()

    torch.testing.assert_close(out[keep], case["out"][keep], rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(x.grad, case["grad_x"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", CASES)
def test_the_metrics_are_the_stored_ones(golden, name: str) -> None:
    structure, reach, padding = name.split(".")
    case = golden("damcha").case(name)
    layer = stored_layer(structure, golden("damcha").case(f"{structure}.w"))
    mask = None if padding == "none" else case["keep"]

    metrics = layer.head_metrics(case["x"], key_mask=mask, is_causal=reach == "causal")
    torch.testing.assert_close(metrics, case["m"], rtol=0, atol=TOLERANCE)

    matrix = layer.metric_matrix(case["x"], key_mask=mask, is_causal=reach == "causal")
    blocks = matrix.unflatten(-1, (3, 8)).unflatten(-3, (3, 8))
    torch.testing.assert_close(blocks.sum(-2), case["m"], rtol=0, atol=TOLERANCE)

    contexts = layer.context(layer.check(case["x"], mask), mask, reach == "causal")
    slow = torch.stack([reference_metrics(layer.generator, c) for c in contexts.flatten(0, -2)])
    torch.testing.assert_close(slow.view_as(metrics), case["m"], rtol=0, atol=TOLERANCE)
