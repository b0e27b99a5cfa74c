"""What a masked token may do in any layer of the catalogue: nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from damcha_core.attention import AttentionLayer, DamchaAttention
from damcha_core.attention.elliptical import EllipticalAttention
from damcha_core.attention.pooling import prefix_mean, token_mean

BATCH, TOKENS, WIDTH, HEADS = 3, 7, 30, 5
MASK = torch.tensor(
    [[True] * TOKENS, [False, False, True, True, False, True, True], [True] * 4 + [False] * 3]
)
BOTH = pytest.mark.parametrize("is_causal", [False, True])


def masked_tokens_move(layer: AttentionLayer, is_causal: bool, fill: float | None) -> bool:
    """Whether replacing every masked token moves any output of a real token by a bit."""
    x = torch.randn(BATCH, TOKENS, WIDTH)
    new = torch.randn_like(x) if fill is None else torch.full_like(x, fill)
    other = torch.where(MASK[..., None], x, new)
    with torch.no_grad():
        before, after = (layer(y, key_mask=MASK, is_causal=is_causal) for y in (x, other))
    return not torch.equal(before[MASK], after[MASK])


def padding_moves(layer: AttentionLayer, is_causal: bool, side: str) -> bool:
    """Whether pads around a sequence change its outputs beyond rounding."""
    x = torch.randn(BATCH, 4, WIDTH, dtype=torch.float64)
    pads = torch.randn(BATCH, 3, WIDTH, dtype=torch.float64)
    padded = torch.cat([x, pads] if side == "right" else [pads, x], 1)
    keep = torch.arange(TOKENS) < 4 if side == "right" else torch.arange(TOKENS) >= 3
    layer.double()
    if getattr(layer, "generator", None) is not None:
        layer.generator.double()
    with torch.no_grad():
        alone = layer(x, is_causal=is_causal)
        out = layer(padded, key_mask=keep.expand(BATCH, -1), is_causal=is_causal)
    return not torch.allclose(out[:, keep], alone, rtol=1e-10, atol=1e-12)


@BOTH
@pytest.mark.parametrize("fill", [None, float("nan"), float("inf")], ids=["random", "nan", "inf"])
def test_a_masked_token_moves_nothing(layer, is_causal: bool, fill) -> None:
    assert not masked_tokens_move(layer, is_causal, fill)


@BOTH
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(layer, is_causal: bool, side: str) -> None:
    assert not padding_moves(layer, is_causal, side)


@BOTH
def test_a_real_token_moves_those_that_see_it(layer, is_causal: bool) -> None:
    x = torch.randn(BATCH, TOKENS, WIDTH)
    other = x.clone()
    other[:, 3] = torch.randn(BATCH, WIDTH)
    before, after = (layer(y, key_mask=MASK, is_causal=is_causal) for y in (x, other))
    moved = (before != after).any(-1)
    sees = MASK & (torch.arange(TOKENS) >= 3) if is_causal else MASK
    assert moved[sees].all()


@BOTH
def test_a_query_that_sees_nothing_has_a_zero_head_output(layer, is_causal: bool) -> None:
    mask = MASK.clone()
    mask[0] = False
    x = torch.randn(BATCH, TOKENS, WIDTH, requires_grad=True)
    heads: list[Tensor] = []
    hook = layer.out.register_forward_pre_hook(lambda _, inputs: heads.append(inputs[0]))
    out = layer(x, key_mask=mask, is_causal=is_causal)
    hook.remove()
    sees_nothing = ~mask.cumsum(1).bool() if is_causal else ~mask.any(1, keepdim=True)
    sees_nothing = sees_nothing.expand_as(mask)
    assert sees_nothing.any()
    assert not heads[0][sees_nothing].any()
    assert (out[sees_nothing] == (0.0 if layer.out.bias is None else layer.out.bias)).all()

    out.square().sum().backward()
    assert x.grad.isfinite().all()
    assert not x.grad[~mask].any()
    for parameter in layer.parameters():
        assert parameter.grad.isfinite().all()


@BOTH
def test_pads_that_are_not_numbers_give_finite_gradients(layer, is_causal: bool) -> None:
    x = torch.randn(BATCH, TOKENS, WIDTH)
    x[~MASK] = float("nan")
    x.requires_grad_()
    layer(x, key_mask=MASK, is_causal=is_causal)[MASK].square().sum().backward()
    assert x.grad.isfinite().all()
    for parameter in layer.parameters():
        assert parameter.grad.isfinite().all()


@BOTH
def test_neighbours_in_the_batch_move_nothing(layer, is_causal: bool) -> None:
    x = torch.randn(BATCH, TOKENS, WIDTH)
    other = torch.cat([x[:1], torch.randn(BATCH - 1, TOKENS, WIDTH)])
    mask = torch.cat([MASK[:1], ~MASK[1:]])
    with torch.no_grad():
        out = layer(x, is_causal=is_causal)
        assert torch.equal(layer(other, is_causal=is_causal)[0], out[0])
        padded = layer(x, key_mask=MASK, is_causal=is_causal)
        assert torch.equal(layer(other, key_mask=mask, is_causal=is_causal)[0], padded[0])
        torch.testing.assert_close(layer(x[:1], is_causal=is_causal)[0], out[0])


@BOTH
def test_a_mask_of_real_tokens_alone_is_no_mask(layer, is_causal: bool) -> None:
    x = torch.randn(BATCH, TOKENS, WIDTH)
    out = layer(x, is_causal=is_causal, key_mask=torch.ones(BATCH, TOKENS, dtype=torch.bool))
    torch.testing.assert_close(out, layer(x, is_causal=is_causal), rtol=1e-5, atol=1e-5)


class PadsInPool(DamchaAttention):
    """Broken: the pool takes pads for real tokens, and the layer leaves their content in."""

    def check(self, x_BND, key_mask):
        return x_BND

    def context(self, x_BND, key_mask, is_causal):
        return super().context(x_BND, None, is_causal)


class PadsCounted(DamchaAttention):
    """Broken: pads are zeros in the pool, but they count."""

    def context(self, x_BND, key_mask, is_causal):
        return prefix_mean(x_BND) if is_causal else token_mean(x_BND)


class TimesMask(DamchaAttention):
    """Broken: pads are multiplied by zero instead of being replaced."""

    def check(self, x_BND, key_mask):
        return x_BND * key_mask.unsqueeze(-1)


@BOTH
def test_a_twin_with_pads_in_its_pool_is_found(is_causal: bool, redraw) -> None:
    twin = redraw(PadsInPool(WIDTH, HEADS, mlp_hidden=(7, 11)))
    assert masked_tokens_move(twin, is_causal, fill=None)


@BOTH
def test_a_twin_that_multiplies_by_the_mask_is_found(is_causal: bool, redraw) -> None:
    twin = redraw(TimesMask(WIDTH, HEADS, mlp_hidden=(7, 11)))
    assert not masked_tokens_move(twin, is_causal, fill=None)
    assert masked_tokens_move(twin, is_causal, fill=float("nan"))


@pytest.mark.parametrize(("is_causal", "side"), [(False, "left"), (False, "right"), (True, "left")])
def test_a_twin_that_counts_pads_is_found(is_causal: bool, side: str, redraw) -> None:
    twin = redraw(PadsCounted(WIDTH, HEADS, mlp_hidden=(7, 11)))
    assert padding_moves(twin, is_causal, side)


class PadsInSum(EllipticalAttention):
    """Broken as the published code is: the metric sums over pads too."""

    def summed_change(self, v_BHNK, before_BHNK, key_mask, is_causal, cache=None):
        return super().summed_change(v_BHNK, before_BHNK, None, is_causal)


@pytest.mark.parametrize(("is_causal", "side"), [(False, "left"), (False, "right"), (True, "left")])
def test_a_twin_that_sums_over_pads_is_found(is_causal: bool, side: str, redraw, chain) -> None:
    first, twin = (redraw(PadsInSum(WIDTH, HEADS), seed) for seed in (3, 4))
    assert padding_moves(chain(first, twin), is_causal, side)
