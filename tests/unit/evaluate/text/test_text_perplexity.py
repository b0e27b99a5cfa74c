"""Perplexity: padding, batches, infinity, nothing."""

from __future__ import annotations

import math

import pytest
import torch

from damcha_core.evaluate.text.perplexity import perplexity, perplexity_of, token_losses


def test_uniform_logits_give_the_vocabulary() -> None:
    losses = token_losses(torch.zeros(3, 11), torch.tensor([1, 2, 3]))
    assert losses.tolist() == pytest.approx([math.log(11)] * 3)
    assert losses.dtype == torch.float64
    score = perplexity([losses[:2].sum().item(), losses[2].item()], [2, 1])
    assert score.value == pytest.approx(11.0)
    assert score.n == 3
    assert score.items == pytest.approx((11.0, 11.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_losses_are_those_of_the_softmax_in_float64(dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(1)
    logits = (3 * torch.randn(7, 13, generator=random)).to(dtype)
    wanted = torch.randint(13, (7,), generator=random)
    expected = -torch.softmax(logits.double(), dim=-1).log()[torch.arange(7), wanted]
    assert token_losses(logits, wanted).tolist() == pytest.approx(expected.tolist(), abs=1e-12)


def test_nothing_counts() -> None:
    assert token_losses(torch.zeros(0, 4), torch.zeros(0).long()).tolist() == []
    score = perplexity([0.0, 0.0], [0, 0])
    assert (score.value, score.n, score.items) == (None, 0, (None, None))
    assert perplexity([], []).value is None


def test_tokens_count_alike_whatever_their_sequence() -> None:
    score = perplexity([4.0, 0.0], [1, 3])
    assert score.value == pytest.approx(math.e)
    assert perplexity([0.0, 4.0], [3, 1]).value == score.value


def test_huge_loss_is_infinite_not_an_error() -> None:
    assert perplexity_of(1e6, 1) == math.inf
    assert perplexity_of(math.inf, 3) == math.inf
    assert perplexity([1e6, 1.0], [1, 1]).value == math.inf
    assert math.isnan(perplexity_of(math.nan, 3) or 0.0)
    logits = torch.tensor([[0.0, -math.inf]])
    assert token_losses(logits, torch.tensor([1])).item() == math.inf
