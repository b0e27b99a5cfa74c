"""A step with a cache is the full pass, for every layer of the catalogue."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from damcha_core.attention import AttentionCache, Carry, DamchaAttention, ReplayCache
from damcha_core.attention.metric_cache import MetricCache
from damcha_core.catalog.attentions import attention_row

BATCH, TOKENS, WIDTH, HEADS = 4, 19, 30, 5
PADDING = torch.ones(BATCH, TOKENS, dtype=torch.bool)
PADDING[1, :6] = False
PADDING[2, -7:] = False
PADDING[3] = torch.arange(TOKENS) % 3 > 0
SPLITS = {"ones": [1] * TOKENS, "whole": [TOKENS], "prompt": [8] + [1] * 11, "parts": [2, 9, 1, 7]}
any_split = pytest.mark.parametrize("split", SPLITS)
any_mask = pytest.mark.parametrize("mask", [None, PADDING], ids=["no mask", "padded"])


def step(layers, x: Tensor, mask: Tensor | None, caches: list[AttentionCache | None]) -> Tensor:
    """A pre-norm residual pass through the layers, with their caches or without."""
    carry = Carry() if any(layer.uses_carry for layer in layers) else None
    for layer, cache in zip(layers, caches, strict=True):
        normed = functional.layer_norm(x, x.shape[-1:])
        x = x + layer(normed, key_mask=mask, is_causal=True, carry=carry, cache=cache)
    return x


def full_pass(layers, x: Tensor, mask: Tensor | None) -> Tensor:
    return step(layers, x, mask, [None] * len(layers))


def decoded(layers, x: Tensor, mask: Tensor | None, split: list[int]) -> Tensor:
    """The outputs of all steps, with a cache for each layer."""
    caches = [layer.new_cache() for layer in layers]
    outputs, start = [], 0
    for n_new in split:
        new = slice(start, start + n_new)
        outputs.append(step(layers, x[:, new], None if mask is None else mask[:, new], caches))
        start += n_new
    assert {cache.length for cache in caches} == {TOKENS}
    return torch.cat(outputs, 1)


def worst(layers, mask: Tensor | None, split: list[int]) -> float:
    """The largest distance of a step from the full pass, at the real tokens."""
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    keep = PADDING if mask is not None else torch.ones_like(PADDING)
    distance = decoded(layers, x, mask, split) - full_pass(layers, x, mask)
    return distance[keep].abs().max().item()


@pytest.fixture
def layers(name: str, build):
    """Two layers of the row in float64."""
    return build(name).double().eval().layers


@any_mask
@any_split
def test_a_step_is_the_full_pass_at_every_position(layers, mask, split: str) -> None:
    assert worst(layers, mask, SPLITS[split]) < 1e-12


def test_a_row_says_whether_its_layers_keep_a_state(name, layers) -> None:
    replays = [isinstance(layer.new_cache(), ReplayCache) for layer in layers]
    assert replays == [not attention_row(name).cacheable] * 2


@any_mask
def test_the_batch_may_be_reordered_between_two_steps(layers, mask) -> None:
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    own = [None if mask is None else mask[:, part] for part in (slice(0, 9), slice(9, None))]
    caches = [layer.new_cache() for layer in layers]
    step(layers, x[:, :9], own[0], caches)
    rows = torch.tensor([2, 3, 3, 0, 1])
    for cache in caches:
        cache.reorder(rows)
    last = step(layers, x[rows, 9:], None if mask is None else own[1][rows], caches)
    full = full_pass(layers, x[rows], None if mask is None else mask[rows])[:, 9:]
    keep = torch.ones_like(full[..., 0], dtype=torch.bool) if mask is None else own[1][rows]
    torch.testing.assert_close(last[keep], full[keep], rtol=0, atol=1e-12)


@pytest.mark.parametrize("fill", [None, float("nan")], ids=["random", "nan"])
def test_a_masked_token_moves_no_bit_of_any_step(layers, fill) -> None:
    layer = layers[0]
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    new = torch.randn_like(x) if fill is None else torch.full_like(x, fill)
    other = torch.where(PADDING[..., None], x, new)
    steps = []
    for tokens in (x, other):
        cache = layer.new_cache()
        parts = zip(
            tokens.split(SPLITS["parts"], 1), PADDING.split(SPLITS["parts"], 1), strict=True
        )
        steps.append([layer(t, key_mask=m, is_causal=True, cache=cache) for t, m in parts])
    before, after = (torch.cat(outputs, 1)[PADDING] for outputs in steps)
    assert torch.equal(before, after)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_dtypes_are_decoded_in(name, build, dtype) -> None:
    layers = build(name).to(dtype).eval().layers
    x = torch.randn(BATCH, TOKENS, WIDTH).to(dtype)
    out = decoded(layers, x, PADDING, SPLITS["prompt"])
    full = full_pass(layers, x, PADDING)
    assert out.dtype == dtype
    distance = (out - full)[PADDING].float().norm() / full[PADDING].float().norm()
    assert distance.item() < (1e-5 if dtype == torch.float32 else 0.1)


class ForgetsSum(MetricCache):
    """Broken: the mean of a step is that of its own tokens."""

    def queries(self, *inputs):
        self.sum_BD = self.count_B = None
        return super().queries(*inputs)


class ForgetsMasks(MetricCache):
    """Broken: pads are keys."""

    def append(self, k_BHMK, v_BHMK, key_mask):
        return super().append(k_BHMK, v_BHMK, None)


class CountsPlaces(MetricCache):
    """Broken: pads count on the way to the next metric."""

    def host_counts(self, count_BM, key_mask):
        return super().host_counts(count_BM, None)


class OneCount(MetricCache):
    """Broken: all rows renew their metric when the first one does."""

    def host_counts(self, count_BM, key_mask):
        return [super().host_counts(count_BM, key_mask)[0]] * len(count_BM)


@pytest.mark.parametrize(
    ("broken", "mask", "refresh"),
    [
        (ForgetsSum, None, "token"),
        (ForgetsMasks, PADDING, "token"),
        (CountsPlaces, PADDING, 3),
        (OneCount, PADDING, 3),
    ],
)
def test_a_broken_twin_is_found(broken, mask, refresh, redraw) -> None:
    class Twin(DamchaAttention):
        cache_class = broken

    twin = redraw(Twin(WIDTH, HEADS, refresh=refresh, mlp_hidden=(7, 11))).double()
    assert worst([twin], mask, SPLITS["prompt"]) > 1e-3
