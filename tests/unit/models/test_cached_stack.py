"""Decoding with the whole stack."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from damcha_core.attention import StackCache
from damcha_core.errors import ShapeError
from damcha_core.models.transformer import TransformerPC

BATCH, TOKENS = 3, 11
PADDING = torch.ones(BATCH, TOKENS, dtype=torch.bool)
PADDING[0, :4] = False
PADDING[2, -3:] = False
NAMES = ["mha", "damcha", "damcha-geometric", "damcha-static", "elliptical"]


def stack(attention: str = "damcha", **options) -> TransformerPC:
    """A causal stack in float64 with every parameter from a random draw."""
    torch.manual_seed(4)
    model = TransformerPC(12, 3, 14, 3, attention=attention, **options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.copy_(torch.randn(parameter.shape) * 0.9 / math.sqrt(fan_in))
    return model


def tokens() -> Tensor:
    return torch.randn(BATCH, TOKENS, 12, dtype=torch.float64)


@pytest.mark.parametrize("mask", [None, PADDING], ids=["no mask", "padded"])
@pytest.mark.parametrize("split", [[1] * TOKENS, [6, 1, 4]], ids=["ones", "parts"])
@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_the_full_pass(name: str, split: list[int], mask: Tensor | None) -> None:
    model, x = stack(name), tokens()
    cache, steps, start = model.new_cache(), [], 0
    for n_new in split:
        new = slice(start, start + n_new)
        steps.append(model(x[:, new], None if mask is None else mask[:, new], cache=cache))
        start += n_new
    assert cache.length == TOKENS
    full, keep = model(x, mask), PADDING if mask is not None else torch.ones_like(PADDING)
    torch.testing.assert_close(torch.cat(steps, 1)[keep], full[keep], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_beams_may_be_reordered(name: str) -> None:
    model, x = stack(name), tokens()
    cache, rows = model.new_cache(), torch.tensor([2, 0, 0, 1])
    model(x[:, :5], PADDING[:, :5], cache=cache)
    cache.reorder(rows)
    last = model(x[rows, 5:], PADDING[rows, 5:], cache=cache)
    keep = PADDING[rows, 5:]
    full = model(x[rows], PADDING[rows])[:, 5:]
    torch.testing.assert_close(last[keep], full[keep], rtol=0, atol=1e-12)


def test_a_step_computes_no_gradient() -> None:
    model = stack()
    assert not model(tokens().requires_grad_(), cache=model.new_cache()).requires_grad
    assert model(tokens()).requires_grad


def test_a_stack_that_sees_everything_has_no_steps() -> None:
    model = stack(is_causal=False)
    with pytest.raises(ValueError, match="needs a stack with is_causal=True"):
        model(tokens(), cache=model.new_cache())


def test_the_cache_of_a_stack_of_another_depth_is_refused() -> None:
    model = stack()
    with pytest.raises(ShapeError, match="the cache is one of 1 layers, the stack has 3"):
        model(tokens(), cache=StackCache(model.new_cache().layers[:1]))


def test_the_published_quick_start_decodes() -> None:
    model = TransformerPC(d_model=32, n_heads=4, d_ff=64, n_layers=2, mlp_hidden=(8, 16))
    cache = model.new_cache()
    assert model(torch.randn(2, 3, 32), cache=cache).shape == (2, 3, 32)
    assert model(torch.randn(2, 1, 32), cache=cache).shape == (2, 1, 32)
