"""Softmax over explicit scores under masks, against the formula written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from damcha_core.attention.score_softmax import masked_softmax

BATCH, HEADS, TOKENS = 2, 3, 5
PADDING = torch.tensor([[False, True, True, False, True], [False] * 5])
BOTH = pytest.mark.parametrize("is_causal", [False, True])
MASKS = pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])


def scores(n_queries: int = TOKENS, dtype: torch.dtype = torch.float64) -> Tensor:
    random = torch.Generator().manual_seed(2)
    shape = BATCH, HEADS, n_queries, TOKENS
    return torch.randn(shape, generator=random, dtype=torch.float64).to(dtype).requires_grad_()


def written_out(raw: Tensor, key_mask: Tensor | None, is_causal: bool) -> Tensor:
    """Row m belongs to the token TOKENS - M + m."""
    out = torch.zeros_like(raw)
    first = TOKENS - raw.shape[2]
    for b in range(BATCH):
        for m in range(raw.shape[2]):
            seen = [
                s
                for s in range(first + m + 1 if is_causal else TOKENS)
                if key_mask is None or key_mask[b, s]
            ]
            for h in range(HEADS if seen else 0):
                out[b, h, m, seen] = torch.softmax(raw[b, h, m, seen], 0)
    return out


@BOTH
@MASKS
@pytest.mark.parametrize("n_queries", [1, 2, TOKENS])
def test_values_and_gradients_are_those_of_the_formula(key_mask, is_causal, n_queries) -> None:
    ours, true = scores(n_queries), scores(n_queries)
    out = masked_softmax(ours, key_mask=key_mask, is_causal=is_causal)
    expected = written_out(true, key_mask, is_causal)
    weight = torch.randn(out.shape, dtype=torch.float64)
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(ours.grad, true.grad, rtol=0, atol=1e-14)
    assert torch.equal(out == 0, expected == 0)


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_without_a_key_is_zero_and_has_a_finite_gradient(is_causal: bool, dtype) -> None:
    raw = scores(dtype=dtype)
    out = masked_softmax(raw, key_mask=PADDING, is_causal=is_causal)
    assert out.dtype == torch.float32
    assert not out[1].any()
    assert not out[0, :, 0].any() or not is_causal
    out.square().sum().backward()
    assert raw.grad.isfinite().all()
    assert not raw.grad[1].any()


@BOTH
def test_what_may_not_be_seen_may_hold_anything(is_causal: bool) -> None:
    raw = scores().detach()
    allowed = written_out(raw, PADDING, is_causal) > 0
    other = raw.where(allowed | ~allowed.any(-1, keepdim=True), float("inf"))
    masked = {"key_mask": PADDING, "is_causal": is_causal}
    assert torch.equal(masked_softmax(other, **masked), masked_softmax(raw, **masked))
