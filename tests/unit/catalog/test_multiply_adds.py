"""Multiply-adds of every row against what torch counts while the layers run."""

from __future__ import annotations

import itertools

import pytest
import torch

from damcha_core.attention import Carry, build_attention
from damcha_core.catalog.attentions import attention_row, attention_rows
from damcha_core.catalog.damcha import map_numbers
from damcha_core.profiling.operations import counted_operations

D, H, LAYERS, BATCH = 24, 4, 3, 2
K = D // H
NAMES = [row.name for row in attention_rows()]
BOTH = pytest.mark.parametrize("is_causal", [False, True])
STRUCTURES = ["full", "symmetric", "psd", "low_rank", "diagonal", "block_diagonal"]


def small(name: str) -> dict[str, object]:
    return {"mlp_hidden": (5, 7)} if name.startswith("damcha") else {}


def counted(name: str, options: dict[str, object], n_tokens: int, is_causal: bool) -> float:
    """What a stack really computes for one sequence."""
    layers = build_attention(name, D, H, LAYERS, options=options).layers
    x = torch.randn(BATCH, n_tokens, D)

    def run() -> None:
        carry = Carry()
        for layer in layers:
            layer(x, is_causal=is_causal, carry=carry)

    with torch.no_grad():
        return counted_operations(run) / 2 / BATCH


def stated(name: str, options: dict[str, object], n_tokens: int, is_causal: bool) -> int:
    count = attention_row(name).multiply_adds
    return count(D, H, LAYERS, options, n_tokens=n_tokens, is_causal=is_causal)


@BOTH
@pytest.mark.parametrize("n_tokens", [1, 16, 37])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "damcha-geometric"])
def test_every_row_says_what_torch_counts(name: str, n_tokens: int, is_causal: bool) -> None:
    options = small(name)
    assert counted(name, options, n_tokens, is_causal) == stated(name, options, n_tokens, is_causal)


@BOTH
@pytest.mark.parametrize(
    ("structure", "source", "share"),
    list(itertools.product(STRUCTURES, ["adaptive", "static"], [True, False])),
)
def test_every_form_of_damcha_says_what_torch_counts(structure, source, share, is_causal) -> None:
    options = {"structure": structure, "source": source, "share": share, "mlp_hidden": (5, 3, 7)}
    for output in ["head", "matrix"] if structure == "full" else ["head"]:
        options["output"] = output
        assert counted("damcha", options, 11, is_causal) == stated("damcha", options, 11, is_causal)


@pytest.mark.parametrize("rank", [1, 5, 9])
@pytest.mark.parametrize("structure", ["psd", "low_rank"])
@pytest.mark.filterwarnings("ignore:low_rank with rank")
@BOTH
def test_any_rank(structure: str, rank: int, is_causal: bool) -> None:
    options = {"structure": structure, "rank": rank, "mlp_hidden": (5,)}
    assert counted("damcha", options, 11, is_causal) == stated("damcha", options, 11, is_causal)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("collaborative", {"shared_dim": 1}),
        ("collaborative", {"shared_dim": 7}),
        ("collaborative", {"shared_dim": 40}),
        ("gated", {"gate": "elementwise"}),
    ],
)
@BOTH
def test_the_options_of_the_other_rows(name: str, options: dict, is_causal: bool) -> None:
    assert counted(name, options, 13, is_causal) == stated(name, options, 13, is_causal)


@pytest.mark.parametrize(
    ("options", "n_metrics"),
    [
        ({"refresh": "token"}, 40),
        ({"refresh": 1}, 40),
        ({"refresh": 16}, 3),
        ({"refresh": "geometric", "refresh_ratio": 2.0}, 6),
        ({"refresh": "geometric"}, 13),
        ({"refresh": 1000}, 1),
    ],
)
@pytest.mark.parametrize("structure", ["full", "psd", "diagonal"])
def test_a_refresh_pays_for_as_many_metrics(structure: str, options: dict, n_metrics: int) -> None:
    """The metrics are counted one by one; grouped products may add zeros to the applications."""
    generated, applied = map_numbers(D, H, structure=structure, rank=0)
    given = {"structure": structure, **options}
    generator = D * 256 + 256 * 512 + 512 * generated
    expected = LAYERS * (2 * 40 * D * D + 2 * 40 * 40 * D + 40 * applied + n_metrics * generator)
    assert stated("damcha", given, 40, True) == expected
    found = counted("damcha", given, 40, True)
    assert expected <= found <= expected + LAYERS * (40 + 2 * n_metrics) * applied
    assert found <= 1.02 * expected
    assert stated("damcha", given, 40, False) == expected - LAYERS * (n_metrics - 1) * generator


def test_numbers_worked_out_by_hand() -> None:
    """D 128, H 8: the last layer of a causal damcha takes 1.05 M a token, 8 blocks of mha."""
    count = attention_row("damcha").multiply_adds
    whole = count(128, 8, 1, {}, n_tokens=64, is_causal=False)
    causal = count(128, 8, 1, {}, n_tokens=64, is_causal=True)
    generator = 128 * 256 + 256 * 512 + 512 * 128 * 16
    assert whole == 2 * 64 * 128 * 128 + 2 * 64 * 64 * 128 + 64 * 128 * 16 + generator
    assert causal == whole + 63 * generator
    mha = attention_row("mha").multiply_adds(128, 8, 1, {}, n_tokens=64, is_causal=True)
    assert mha == 4 * 64 * 128 * 128 + 2 * 64 * 64 * 128


def test_a_preset_counts_as_damcha_with_its_options() -> None:
    free = attention_row("damcha").multiply_adds
    for name in NAMES:
        if name.startswith("damcha-"):
            row = attention_row(name)
            for is_causal in (False, True):
                given = {"n_tokens": 40, "is_causal": is_causal}
                assert row.multiply_adds(D, H, 2, {}, **given) == free(D, H, 2, row.preset, **given)
