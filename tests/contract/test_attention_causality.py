"""A causal layer of the catalogue cannot see later tokens, to the bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from damcha_core.attention import AttentionLayer, DamchaAttention
from damcha_core.attention.elliptical import EllipticalAttention
from damcha_core.attention.pooling import prefix_mean, token_mean
from damcha_core.catalog.attentions import attention_rows

BATCH, TOKENS, WIDTH, HEADS = 3, 7, 30, 5
PADDING = torch.tensor(
    [[True] * TOKENS, [False, False, True, True, False, True, True], [True] * 4 + [False] * 3]
)

ROWS = [row.name for row in attention_rows()]
ALIKE_IN_BLOCKS = [name for name in ROWS if name.startswith("damcha-") and name != "damcha-psd"]


def find_leaks(layer: AttentionLayer, key_mask: Tensor | None, n_tokens: int = TOKENS) -> list[int]:
    """Places t whose prefix of outputs moves by a bit when all tokens after t are replaced.

    Also checks that the outputs after t do move, without which the test could not see a leak.
    """
    x = torch.randn(BATCH, n_tokens, WIDTH)
    with torch.no_grad():
        out = layer(x, key_mask=key_mask, is_causal=True)
        leaks = []
        for t in range(n_tokens):
            other = torch.cat([x[:, : t + 1], torch.randn(BATCH, n_tokens - t - 1, WIDTH)], 1)
            moved = layer(other, key_mask=key_mask, is_causal=True)
            if not torch.equal(moved[:, : t + 1], out[:, : t + 1]):
                leaks.append(t)
            changed = (moved != out).any(-1)[:, t + 1 :]
            assert changed.all() if key_mask is None else changed[key_mask[:, t + 1 :]].all()
    return leaks


@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
def test_later_tokens_move_no_earlier_output(layer, key_mask) -> None:
    assert find_leaks(layer, key_mask) == []


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", [n for n in ROWS if n not in ALIKE_IN_BLOCKS])
def test_nor_where_kernels_work_in_blocks(layer, padded) -> None:
    key_mask = torch.rand(BATCH, 67) > 0.2 if padded else None
    assert find_leaks(layer, key_mask, n_tokens=67) == []


def test_every_gradient_of_an_output_stays_in_its_past(layer) -> None:
    x = torch.randn(1, TOKENS, WIDTH, requires_grad=True)
    out = layer(x, is_causal=True)
    for t in range(TOKENS):
        (grad,) = torch.autograd.grad(out[0, t].sum(), x, retain_graph=True)
        assert grad[0, : t + 1].abs().amax(-1).gt(0).all()
        assert not grad[0, t + 1 :].any()


class WholePool(DamchaAttention):
    """Broken: every query of a causal layer pools the whole sequence."""

    def context(self, x_BND, key_mask, is_causal):
        return token_mean(x_BND, key_mask).unsqueeze(1).expand_as(x_BND)


class NextToken(DamchaAttention):
    """Broken: the pool of a query runs one token too far."""

    def context(self, x_BND, key_mask, is_causal):
        return prefix_mean(x_BND, key_mask).roll(-1, 1)


class NotCausal(DamchaAttention):
    """Broken: the metric minds causality, the softmax does not."""

    def attend(self, x_BND, key_mask, is_causal, carry, cache):
        return super().attend(x_BND, key_mask, False, carry, cache)


@pytest.mark.parametrize("broken", [WholePool, NextToken, NotCausal])
@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
def test_a_broken_twin_is_found(broken, key_mask, redraw) -> None:
    twin = redraw(broken(WIDTH, HEADS, mlp_hidden=(7, 11)))
    assert len(find_leaks(twin, key_mask)) > TOKENS // 2


class WholeSum(EllipticalAttention):
    """Broken as the published code is: the metric of a causal layer sums over all tokens."""

    def summed_change(self, v_BHNK, before_BHNK, key_mask, is_causal, cache=None):
        return super().summed_change(v_BHNK, before_BHNK, key_mask, False)


@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
def test_a_sum_over_the_whole_sequence_is_found(key_mask, redraw, chain) -> None:
    first, twin = (redraw(WholeSum(WIDTH, HEADS), seed) for seed in (3, 4))
    assert len(find_leaks(chain(first, twin), key_mask)) > TOKENS // 2
