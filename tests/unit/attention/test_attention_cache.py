"""Caches of decoding: growth, masks that come late, reordering, replay, and what is refused."""

from __future__ import annotations

import pytest
import torch

from damcha_core.attention import (
    Carry,
    DamchaAttention,
    KeyValueCache,
    MultiHeadAttention,
    ReplayCache,
    StackCache,
)
from damcha_core.attention.cache import FIRST_CAPACITY, TokenBuffer
from damcha_core.errors import ShapeError

HEADS, WIDTH = 3, 6


class Replayed(MultiHeadAttention):
    """A layer that keeps no state."""

    cache_class = ReplayCache


class AddsCarried(MultiHeadAttention):
    """A layer that reads what the layer before left, and leaves its own values."""

    cache_class = ReplayCache
    uses_carry = True

    def attend(self, x_BND, key_mask, is_causal, carry, cache):
        heads = self.split_heads(x_BND)
        out = super().attend(x_BND, key_mask, is_causal, carry, cache)
        if carry.values_BHNK is not None:
            out = out + carry.values_BHNK.cumsum(2).transpose(1, 2).flatten(2)
        carry.values_BHNK = heads
        return out


def test_a_buffer_keeps_all_tokens_and_doubles_its_room() -> None:
    buffer = TokenBuffer(axis=2)
    parts = [torch.randn(2, 3, n, 4) for n in [1] * 100 + [57]]
    rooms = set()
    for part in parts:
        joined = buffer.append(part)
        rooms.add(buffer.room.data_ptr())
    assert torch.equal(joined, torch.cat(parts, 2))
    assert torch.equal(buffer.tokens(), joined)
    assert len(rooms) <= 5
    assert FIRST_CAPACITY <= buffer.room.shape[2] <= 2 * 157


def test_what_a_step_returned_stays_as_it_was() -> None:
    buffer = TokenBuffer(axis=1)
    first = buffer.append(torch.ones(1, 2, 1))
    buffer.append(torch.zeros(1, 3, 1))
    assert first.tolist() == [[[1.0], [1.0]]]


def test_what_is_kept_has_no_gradient() -> None:
    layer = MultiHeadAttention(WIDTH, HEADS)
    cache = layer.new_cache()
    out = layer(torch.randn(2, 3, WIDTH, requires_grad=True), is_causal=True, cache=cache)
    assert not out.requires_grad
    assert not cache.keys.tokens().requires_grad


def test_inference_mode_may_end_between_two_steps() -> None:
    layer = DamchaAttention(WIDTH, HEADS, refresh=2, mlp_hidden=(4, 5))
    cache, x = layer.new_cache(), torch.randn(2, 5, WIDTH)
    with torch.inference_mode():
        layer(x[:, :3], is_causal=True, cache=cache)
    last = layer(x[:, 3:], is_causal=True, cache=cache)
    torch.testing.assert_close(last, layer(x, is_causal=True)[:, 3:].detach())


def test_a_mask_may_come_late_and_stay_away_again() -> None:
    cache = KeyValueCache()
    x = torch.randn(2, HEADS, 2, 1)
    masks = [None, torch.tensor([[True, False], [False, True]]), None]
    for mask in masks:
        *_, joined = cache.append(x, x, mask)
        cache.length += 2
    assert joined.tolist() == [
        [True, True, True, False, True, True],
        [True, True, False, True, True, True],
    ]
    *_, none = KeyValueCache().append(x, x, None)
    assert none is None


def test_reordering_concerns_all_that_is_kept() -> None:
    layer = DamchaAttention(WIDTH, HEADS, refresh=3, mlp_hidden=(4, 5))
    cache = layer.new_cache()
    mask = torch.tensor([[True] * 4, [False, True, True, True]])
    layer(torch.randn(2, 4, WIDTH), key_mask=mask, is_causal=True, cache=cache)
    before = {
        "keys": cache.keys.tokens(),
        "values": cache.values.tokens(),
        "masks": cache.key_masks.tokens(),
        "sum": cache.sum_BD,
        "count": cache.count_B,
        "map": cache.maps[0],
    }
    rows = torch.tensor([1, 1, 0])
    cache.reorder(rows)
    after = [
        cache.keys.tokens(),
        cache.values.tokens(),
        cache.key_masks.tokens(),
        cache.sum_BD,
        cache.count_B,
        cache.maps[0],
    ]
    for (name, old), new in zip(before.items(), after, strict=True):
        assert torch.equal(new, old[rows]), name
    assert (cache.counts, cache.renewed, cache.batch_size) == ([3, 3, 4], [1, 1, 4], 3)


def test_an_empty_cache_can_be_reordered() -> None:
    stack = StackCache([MultiHeadAttention(WIDTH, HEADS).new_cache(), ReplayCache()])
    stack.reorder(torch.tensor([0, 0]))
    assert [cache.batch_size for cache in stack.layers] == [None, None]


@pytest.mark.parametrize("layer_class", [Replayed, MultiHeadAttention])
def test_replaying_is_decoding(layer_class) -> None:
    layer, x = layer_class(WIDTH, HEADS).double(), torch.randn(2, 7, WIDTH, dtype=torch.float64)
    mask = torch.tensor([[False, False] + [True] * 5, [True] * 7])
    cache = layer.new_cache()
    parts = [slice(0, 3), slice(3, 4), slice(4, 7)]
    steps = [layer(x[:, p], key_mask=mask[:, p], is_causal=True, cache=cache) for p in parts]
    full = layer(x, key_mask=mask, is_causal=True)
    torch.testing.assert_close(torch.cat(steps, 1), full, rtol=0, atol=1e-13)
    assert cache.length == 7


def test_a_replay_hands_on_what_the_layers_leave_to_each_other() -> None:
    layers = [AddsCarried(WIDTH, HEADS).double() for _ in range(2)]
    caches = [layer.new_cache() for layer in layers]
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)

    def run(x, caches):
        carry = Carry()
        for layer, cache in zip(layers, caches, strict=True):
            x = layer(x, is_causal=True, carry=carry, cache=cache)
        assert carry.values_BHNK.shape[2] == x.shape[1]
        return x

    steps = [run(x[:, t : t + 1], caches) for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), run(x, [None, None]), rtol=0, atol=1e-13)


def test_a_cache_is_for_causal_layers() -> None:
    layer = MultiHeadAttention(WIDTH, HEADS)
    with pytest.raises(ValueError, match="decoding with a cache needs is_causal=True"):
        layer(torch.randn(1, 2, WIDTH), cache=layer.new_cache())


def test_the_cache_of_another_layer_is_refused() -> None:
    layer = DamchaAttention(WIDTH, HEADS)
    with pytest.raises(TypeError, match=r"DamchaAttention decodes with the cache of its new_cache"):
        layer(torch.randn(1, 2, WIDTH), is_causal=True, cache=KeyValueCache())


def test_a_step_without_a_token_is_refused() -> None:
    layer = DamchaAttention(WIDTH, HEADS)
    with pytest.raises(ShapeError, match="at least one token"):
        layer(torch.randn(2, 0, WIDTH), is_causal=True, cache=layer.new_cache())


def test_another_number_of_sequences_is_refused() -> None:
    layer = MultiHeadAttention(WIDTH, HEADS)
    cache = layer.new_cache()
    layer(torch.randn(2, 1, WIDTH), is_causal=True, cache=cache)
    with pytest.raises(ShapeError, match="the cache holds 2 sequences, the step has 3"):
        layer(torch.randn(3, 1, WIDTH), is_causal=True, cache=cache)
