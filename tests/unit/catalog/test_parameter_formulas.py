"""Parameter formulas against numbers worked out by hand and against the built layers."""

from __future__ import annotations

import itertools

import pytest

from damcha_core.attention.build import build_attention
from damcha_core.catalog.attentions import attention_row, attention_rows
from damcha_core.catalog.damcha import default_rank, metric_numbers

D, H, LAYERS = 12, 4, 3
K = D // H
NAMES = [row.name for row in attention_rows()]
PROJECTIONS = LAYERS * (2 * D * D + 2 * D)


def generator(numbers, hidden=(256, 512)):
    """Weights and biases of the layers, each written out."""
    widths = [D, *hidden, numbers]
    return sum(widths[i] * widths[i + 1] + widths[i + 1] for i in range(len(widths) - 1))


def test_mha_is_four_projections_with_biases():
    count = attention_row("mha").parameters
    assert count(D, H, LAYERS, {}) == LAYERS * (4 * D * D + 4 * D)
    assert count(128, 8, 4, {}) == 4 * (4 * 16384 + 512)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("talking-heads", {}, 4 * D * D + D + 2 * H * H),
        ("collaborative", {}, 4 * D * D + 2 * D + 2 * H * D),
        ("collaborative", {"shared_dim": 7}, 2 * D * 7 + 7 * H + H * D + 2 * D * D + 2 * D),
        ("elliptical", {}, 4 * D * D + 4 * D),
        ("dcmha", {}, 4 * D * D + 20 * D * H + 64 * H * H),
        ("differential", {}, 4 * D * D + 6 * K),
        ("gated", {}, 4 * D * D + D * H),
        ("gated", {"gate": "elementwise"}, 5 * D * D),
    ],
)
def test_the_published_layers(name, options, expected):
    assert attention_row(name).parameters(D, H, LAYERS, options) == LAYERS * expected
    stack = build_attention(name, D, H, LAYERS, options=options)
    assert parameters(stack) == LAYERS * expected


def test_the_size_of_the_stored_dcmha_vectors():
    assert attention_row("dcmha").parameters(32, 4, 1, {}) == 7680


def test_the_published_size_of_the_last_layer():
    """1.05 M with the head form and 8.4 M with the matrix form at D 128, H 8 (DESIGN 2.1)."""
    assert 512 * metric_numbers(128, 8, structure="full", output="head", rank=0) == 1_048_576
    assert 512 * metric_numbers(128, 8, structure="full", output="matrix", rank=0) == 8_388_608


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({}, D * K),
        ({"output": "matrix"}, D * D),
        ({"structure": "symmetric"}, D * D),
        ({"structure": "psd"}, D * K),
        ({"structure": "psd", "rank": 5}, D * 5),
        ({"structure": "low_rank"}, 2 * D * 1),
        ({"structure": "low_rank", "rank": 2}, 2 * D * 2),
        ({"structure": "diagonal"}, D),
        ({"structure": "block_diagonal"}, D * K),
    ],
)
def test_damcha_counts_generator_or_static_metric_shared_or_not(options, numbers):
    count = attention_row("damcha").parameters
    static = {**options, "source": "static"}
    assert count(D, H, LAYERS, options) == PROJECTIONS + generator(numbers)
    assert count(D, H, LAYERS, {**options, "share": False}) == PROJECTIONS + LAYERS * generator(
        numbers
    )
    assert count(D, H, LAYERS, static) == PROJECTIONS + numbers
    assert count(D, H, LAYERS, {**static, "share": False}) == PROJECTIONS + LAYERS * numbers


@pytest.mark.parametrize("hidden", [(1,), (7,), (5, 3), (2, 3, 5, 7)])
def test_the_widths_of_the_generator_are_free(hidden):
    count = attention_row("damcha").parameters
    expected = PROJECTIONS + generator(D * K, hidden)
    assert count(D, H, LAYERS, {"mlp_hidden": hidden}) == expected


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("damcha-")])
def test_a_preset_counts_as_damcha_with_its_options(name):
    row = attention_row(name)
    free = attention_row("damcha").parameters
    assert row.parameters(D, H, LAYERS, {}) == free(D, H, LAYERS, row.preset)


def test_default_ranks():
    assert default_rank("psd", 16) == 16
    assert default_rank("low_rank", 16) == 8
    assert default_rank("low_rank", 1) == 1
    assert default_rank("full", 16) == 0


def test_an_unknown_structure_is_our_own_mistake():
    with pytest.raises(KeyError):
        metric_numbers(D, H, structure="triangular", output="head", rank=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layers", [1, 3])
def test_the_formula_counts_what_is_built(name, layers):
    """Catalogue against the modules themselves, a shared one counted once."""
    options = {"mlp_hidden": (5, 7)} if name.startswith("damcha") else {}
    stack = build_attention(name, D, H, layers, options=options)
    assert attention_row(name).parameters(D, H, layers, options) == parameters(stack)


@pytest.mark.parametrize(
    ("structure", "source", "share"),
    list(
        itertools.product(
            ["full", "symmetric", "psd", "low_rank", "diagonal", "block_diagonal"],
            ["adaptive", "static"],
            [True, False],
        )
    ),
)
def test_the_formula_counts_what_is_built_with_any_options(structure, source, share):
    options = {"structure": structure, "source": source, "share": share, "mlp_hidden": (5,)}
    outputs = ["head", "matrix"] if structure == "full" else ["head"]
    for output in outputs:
        options["output"] = output
        stack = build_attention("damcha", D, H, 2, options=options)
        assert attention_row("damcha").parameters(D, H, 2, options) == parameters(stack)


def parameters(stack):
    """Numbers in a built stack, each tensor once."""
    modules = [*stack.layers, *([] if stack.shared is None else [stack.shared])]
    tensors = {id(tensor): tensor for module in modules for tensor in module.parameters()}
    return sum(tensor.numel() for tensor in tensors.values())
