"""Elliptical attention beyond the contract: its metric, the carry, and stacks of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from damcha_core.attention import Carry, MultiHeadAttention
from damcha_core.attention.elliptical import EllipticalAttention
from damcha_core.attention.reference.elliptical import elliptical_reference
from damcha_core.errors import ShapeError
from damcha_core.models.transformer import TransformerPC

BATCH, TOKENS, HEADS, WIDTH = 2, 5, 3, 21
PADDING = torch.tensor([[True, True, False, True, False], [False, False, True, True, True]])
BOTH = pytest.mark.parametrize("is_causal", [False, True])
MASKS = pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])


def tokens(*shape: int) -> Tensor:
    return torch.randn(*(shape or (BATCH, TOKENS, WIDTH)), dtype=torch.float64)


@pytest.fixture
def layer(redraw) -> EllipticalAttention:
    layer = EllipticalAttention(WIDTH, HEADS).double()
    redraw(layer, 5)
    return layer


@BOTH
@MASKS
def test_layer_and_reference_agree_after_another_layer(layer, key_mask, is_causal: bool) -> None:
    before = tokens(BATCH, HEADS, TOKENS, WIDTH // HEADS)
    keep = (PADDING if key_mask is not None else torch.ones_like(PADDING))[..., None]
    inputs = [tokens().requires_grad_(), *layer.parameters()]
    weight = tokens() * keep
    fast = layer(inputs[0], key_mask=key_mask, is_causal=is_causal, carry=Carry(before))
    slow = elliptical_reference(layer, inputs[0], key_mask, is_causal, before)
    torch.testing.assert_close(fast * keep, slow * keep, rtol=0, atol=1e-12)
    fast_grads = torch.autograd.grad((fast * weight).sum(), inputs)
    slow_grads = torch.autograd.grad((slow * weight).sum(), inputs)
    for ours, true in zip(fast_grads, slow_grads, strict=True):
        torch.testing.assert_close(ours, true, rtol=0, atol=1e-11)
    plain = layer(inputs[0], key_mask=key_mask, is_causal=is_causal)
    assert (plain - fast)[keep.squeeze(-1)].abs().max() > 1e-2


@BOTH
@MASKS
def test_a_first_layer_is_multi_head_attention(layer, key_mask, is_causal: bool) -> None:
    mha = MultiHeadAttention(WIDTH, HEADS).double()
    mha.load_state_dict(layer.state_dict())
    x, carry = tokens(), Carry()
    masks = {"key_mask": key_mask, "is_causal": is_causal}
    assert torch.equal(layer(x, **masks), mha(x, **masks))
    assert torch.equal(layer(x, carry=carry, **masks), mha(x, **masks))
    assert carry.values_BHNK.shape == (BATCH, HEADS, TOKENS, WIDTH // HEADS)


def test_the_largest_weight_of_a_head_is_one(layer) -> None:
    now, before = tokens(2, BATCH, HEADS, TOKENS, WIDTH // HEADS)
    for is_causal, n_metrics in ((False, 1), (True, TOKENS)):
        metric = layer.metric(layer.summed_change(now, before, None, is_causal))
        assert metric.shape == (BATCH, HEADS, n_metrics, WIDTH // HEADS)
        assert torch.equal(metric.amax(-1), torch.ones(BATCH, HEADS, n_metrics).double())
        assert metric.min() > 0
    expected = (now - before).abs().sum(2)
    whole = layer.summed_change(now, before, None, False).view(BATCH, HEADS, -1)
    torch.testing.assert_close(whole, expected, rtol=0, atol=1e-14)


def test_values_that_did_not_change_give_equal_scores_and_finite_gradients(layer) -> None:
    x = tokens().requires_grad_()
    _, _, values = layer.qkv(x).detach().chunk(3, -1)
    carry = Carry(layer.split_heads(values))
    out = layer(x, carry=carry)
    torch.testing.assert_close(out, out.mean(1, keepdim=True).expand_as(out))
    out.sum().backward()
    assert x.grad.isfinite().all()


def test_no_gradient_goes_through_the_metric(layer) -> None:
    before = tokens(BATCH, HEADS, TOKENS, WIDTH // HEADS).requires_grad_()
    assert layer(tokens(), carry=Carry(before)).requires_grad
    (grad,) = torch.autograd.grad(
        layer(tokens(), carry=Carry(before)).sum(), before, allow_unused=True
    )
    assert grad is None


def test_values_of_other_heads_are_refused(layer) -> None:
    with pytest.raises(ShapeError, match=r"the layer before have the shape \(2, 7, 5, 3\)"):
        layer(tokens(), carry=Carry(tokens(2, 7, 5, 3)))


def test_narrow_values_are_summed_in_float32(layer) -> None:
    now, before = tokens(2, 1, HEADS, 4096, WIDTH // HEADS).to(torch.bfloat16)
    change = layer.summed_change(now, before, None, True)
    assert change.dtype == torch.float32
    exact = (now.double() - before.double()).abs().sum(2).view(1, -1)
    torch.testing.assert_close(change[:, -1].double(), exact, rtol=1e-4, atol=0)


def stack(redraw, n_layers: int, is_causal: bool) -> TransformerPC:
    model = TransformerPC(
        WIDTH, HEADS, 11, n_layers, attention="elliptical", is_causal=is_causal
    ).double()
    redraw(model, 9)
    return model


@BOTH
@MASKS
def test_a_stack_hands_the_values_on(redraw, key_mask, is_causal: bool) -> None:
    """Two blocks written out with the slow reference."""
    model, x = stack(redraw, 2, is_causal), tokens()
    first, second = model.blocks
    normed = first.attention_norm(x)
    _, _, values = first.attention.qkv(normed).chunk(3, -1)
    y = x + elliptical_reference(first.attention, normed, key_mask, is_causal)
    y = y + first.feed_forward(first.feed_forward_norm(y))
    before = first.attention.split_heads(values)
    normed = second.attention_norm(y)
    y = y + elliptical_reference(second.attention, normed, key_mask, is_causal, before)
    y = model.norm(y + second.feed_forward(second.feed_forward_norm(y)))
    keep = PADDING if key_mask is not None else torch.ones_like(PADDING)
    torch.testing.assert_close(model(x, key_mask)[keep], y[keep], rtol=0, atol=1e-11)


@MASKS
@pytest.mark.parametrize("n_layers", [2, 3])
def test_editing_the_last_token_moves_no_earlier_output(redraw, key_mask, n_layers: int) -> None:
    """The published language-model code moves it by 0.74 in a stack like this."""
    model, x = stack(redraw, n_layers, is_causal=True), tokens()
    other = torch.cat([x[:, :-1], tokens(BATCH, 1, WIDTH)], 1)
    with torch.no_grad():
        out, moved = model(x, key_mask), model(other, key_mask)
    assert torch.equal(moved[:, :-1], out[:, :-1])
    assert not torch.equal(moved[1, -1], out[1, -1])
    with torch.no_grad():
        model.is_causal = False
        assert not torch.equal(model(other)[:, :-1], model(x)[:, :-1])


@pytest.mark.parametrize("side", ["left", "right"])
@BOTH
def test_padding_on_either_side_changes_no_stack(redraw, side: str, is_causal: bool) -> None:
    model, x = stack(redraw, 3, is_causal), tokens()
    pads = tokens(BATCH, 3, WIDTH)
    padded = torch.cat([pads, x] if side == "left" else [x, pads], 1)
    keep = torch.ones(BATCH, TOKENS + 3, dtype=torch.bool)
    keep[:, slice(0, 3) if side == "left" else slice(-3, None)] = False
    out = model(padded, keep)[keep].view_as(x)
    torch.testing.assert_close(out, model(x), rtol=0, atol=1e-12)


@MASKS
@pytest.mark.parametrize("steps", [[1] * TOKENS, [2, 1, 2], [TOKENS]])
def test_steps_with_a_cache_are_the_whole_pass(redraw, key_mask, steps: list[int]) -> None:
    model, x = stack(redraw, 3, is_causal=True), tokens()
    cache, outs, start = model.new_cache(), [], 0
    for n_new in steps:
        new = slice(start, start + n_new)
        mask = None if key_mask is None else key_mask[:, new]
        outs.append(model(x[:, new], mask, cache=cache))
        start += n_new
    assert cache.layers[0].change_B1D is None
    assert cache.layers[1].change_B1D.shape == (BATCH, 1, WIDTH)
    keep = PADDING if key_mask is not None else torch.ones_like(PADDING)
    whole = model(x, key_mask)
    torch.testing.assert_close(torch.cat(outs, 1)[keep], whole[keep], rtol=0, atol=1e-12)


def test_a_reordered_cache_goes_on_with_the_right_sums(redraw) -> None:
    model, x = stack(redraw, 2, is_causal=True), tokens()
    rows = torch.tensor([1, 0, 1])
    cache = model.new_cache()
    model(x[:, :3], cache=cache)
    cache.reorder(rows)
    step = model(x[rows, 3:], cache=cache)
    torch.testing.assert_close(step, model(x)[rows, 3:], rtol=0, atol=1e-12)


class ForgetsSum(EllipticalAttention):
    """Broken: the metric of a step sums over the tokens of that step alone."""

    def summed_change(self, v_BHNK, before_BHNK, key_mask, is_causal, cache=None):
        return super().summed_change(v_BHNK, before_BHNK, key_mask, is_causal)


@pytest.mark.parametrize(
    ("layer_class", "is_found"), [(EllipticalAttention, False), (ForgetsSum, True)]
)
def test_a_twin_that_forgets_its_sum_is_found(redraw, layer_class, is_found: bool) -> None:
    layer = layer_class(WIDTH, HEADS).double()
    redraw(layer, 5)
    x, before = tokens(), tokens(BATCH, HEADS, TOKENS, WIDTH // HEADS)
    whole = layer(x, is_causal=True, carry=Carry(before))
    cache = layer.new_cache()
    parts = zip(x.split(2, 1), before.split(2, 2), strict=True)
    steps = [layer(t, is_causal=True, carry=Carry(b), cache=cache) for t, b in parts]
    distance = (torch.cat(steps, 1) - whole).abs().max().item()
    assert distance > 1e-3 if is_found else distance < 1e-12
