"""Parameters by parts, against the formulas of the catalogue and counts by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from damcha_core.catalog.attentions import attention_row, attention_rows
from damcha_core.catalog.stack_size import Stack
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.models.masked_image import MaskedImageModel
from damcha_core.models.transformer import TransformerPC
from damcha_core.profiling.parameters import ParameterCount, count_parameters
from damcha_core.replacement.replace import replace_attention

D, HEADS, F, LAYERS = 24, 6, 11, 3
NAMES = [row.name for row in attention_rows()]
HIDDEN = (9, 7)
GENERATOR = (D + 1) * 9 + (9 + 1) * 7 + (7 + 1) * D * (D // HEADS)
FEED_FORWARD = LAYERS * (2 * D * F + F + D)
NORMS = (2 * LAYERS + 1) * 2 * D


def options_of(name: str) -> dict[str, object]:
    return {"mlp_hidden": HIDDEN} if name.startswith("damcha") else {}


def built(name: str, *, is_causal: bool = True) -> TransformerPC:
    return TransformerPC(
        D, HEADS, F, LAYERS, attention=name, attention_options=options_of(name), is_causal=is_causal
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_what_its_formula_says(name: str) -> None:
    row, options = attention_row(name), options_of(name)
    found = count_parameters(built(name))
    assert found.attention == row.parameters(D, HEADS, LAYERS, options)
    size = Stack(row=row, options=options, d_model=D, n_heads=HEADS, d_ff=F, n_layers=LAYERS)
    assert found.total == size.parameters()
    assert (found.feed_forward, found.norms, found.other) == (FEED_FORWARD, NORMS, 0)
    assert (found.generator > 0) == name.startswith("damcha")


@pytest.mark.parametrize(("name", "copies"), [("damcha", 1), ("damcha-unshared", LAYERS)])
def test_a_shared_generator_counts_once(name: str, copies: int) -> None:
    found = count_parameters(built(name))
    assert found.generator == copies * GENERATOR
    assert found.attention == LAYERS * 2 * (D * D + D) + copies * GENERATOR
    assert found.total == found.attention + FEED_FORWARD + NORMS


def test_a_shared_generator_belongs_to_the_attention_wherever_it_is_registered() -> None:
    """One block alone still uses all of it."""
    block = built("damcha").blocks[0]
    assert count_parameters(block).generator == GENERATOR
    assert count_parameters(block).total == sum(p.numel() for p in block.parameters()) + GENERATOR


def test_a_tied_head_counts_once() -> None:
    model = ConditionalLM(31, transformer=built("damcha"))
    stack = count_parameters(model.transformer)
    assert count_parameters(model).other == 31 * D
    assert count_parameters(model).total == stack.total + 31 * D


def test_a_head_that_is_a_module_of_its_own_counts_once_when_it_is_tied() -> None:
    model = nn.Sequential(nn.Embedding(31, D), nn.Linear(D, 31, bias=False))
    assert count_parameters(model).total == 2 * 31 * D
    model[1].weight = model[0].weight
    assert count_parameters(model) == ParameterCount(
        total=31 * D, attention=0, generator=0, feed_forward=0, norms=0, other=31 * D
    )


def test_pictures() -> None:
    model = MaskedImageModel(
        12, patch_size=3, channels=2, transformer=built("mha", is_causal=False)
    )
    patch = 3 * 3 * 2
    embedding = (patch + 1 + 16) * D  # with a position for each of 16 patches
    assert count_parameters(model).other == embedding + D + (D + 1) * patch


def test_norms_inside_an_attention_are_attention() -> None:
    layer = built("mha").blocks[0].attention
    layer.extra_norm = nn.LayerNorm(D)
    found = count_parameters(nn.Sequential(layer, nn.LayerNorm(D)))
    assert (found.attention, found.norms) == (4 * D * D + 4 * D + 2 * D, 2 * D)


def test_a_foreign_model_whose_attention_was_replaced() -> None:
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D, HEADS, F, batch_first=True),
        LAYERS,
        enable_nested_tensor=False,
    )
    rest = sum(p.numel() for name, p in model.named_parameters() if "self_attn" not in name)
    replace_attention(model, "damcha", options=options_of("damcha"))
    found = count_parameters(model)
    assert found.attention == LAYERS * 2 * (D * D + D) + GENERATOR
    assert found.total == found.attention + rest
    assert found.norms == LAYERS * 4 * D


def test_weights_that_are_not_trained_count_and_buffers_do_not() -> None:
    model = nn.BatchNorm1d(5).requires_grad_(False)
    assert count_parameters(model).total == 10
    assert sum(b.numel() for b in model.buffers()) == 11
    assert count_parameters(torch.nn.Identity()).total == 0
