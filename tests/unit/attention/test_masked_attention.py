"""Softmax attention under masks, against the formula written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from damcha_core.attention.masking import masked_attention

BATCH, HEADS, TOKENS, WIDTH = 2, 3, 5, 7
PADDING = torch.tensor([[False, True, True, False, True], [False] * 5])


def tensors(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    random = torch.Generator().manual_seed(2)
    return [
        torch.randn(BATCH, HEADS, TOKENS, WIDTH, generator=random, dtype=torch.float64)
        .to(dtype)
        .requires_grad_()
        for _ in range(3)
    ]


def written_out(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, is_causal: bool):
    out = torch.zeros_like(q)
    for b in range(BATCH):
        for t in range(TOKENS):
            seen = [
                s
                for s in range(t + 1 if is_causal else TOKENS)
                if key_mask is None or key_mask[b, s]
            ]
            for h in range(HEADS if seen else 0):
                scores = torch.stack([q[b, h, t] @ k[b, h, s] for s in seen]) / math.sqrt(WIDTH)
                out[b, h, t] = torch.softmax(scores, 0) @ v[b, h, seen]
    return out


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
def test_values_and_gradients_are_those_of_the_formula(key_mask, is_causal: bool) -> None:
    ours, true = tensors(), tensors()
    out = masked_attention(*ours, key_mask=key_mask, is_causal=is_causal)
    expected = written_out(*true, key_mask, is_causal)
    weight = torch.randn(out.shape, dtype=torch.float64)
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
    for a, b in zip(ours, true, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_queries", [1, 2, 4])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
def test_fewer_queries_are_those_of_the_last_tokens(key_mask, is_causal: bool, n_queries) -> None:
    q, k, v = tensors()
    masks = {"key_mask": key_mask, "is_causal": is_causal}
    last = masked_attention(q[:, :, -n_queries:], k, v, **masks)
    full = masked_attention(q, k, v, **masks)[:, :, -n_queries:]
    torch.testing.assert_close(last, full, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_query_that_may_see_nothing_gives_exact_zeros(is_causal: bool, dtype) -> None:
    qkv = tensors(dtype)
    out = masked_attention(*qkv, key_mask=PADDING, is_causal=is_causal)
    out.sum().backward()
    assert not out[1].any()
    assert not out[0, :, 0].any() or not is_causal
    for tensor in qkv:
        assert tensor.grad.isfinite().all()
        assert not tensor.grad[1].any()


@pytest.mark.parametrize("is_causal", [False, True])
def test_no_kernel_is_asked_about_a_row_without_a_key(is_causal: bool, monkeypatch) -> None:
    # This torch may give zeros there; others give NaN, in the output or in the gradient alone.
    masks = []

    def kernel(q, k, v, *, attn_mask, dropout_p):
        masks.append(attn_mask)
        return q

    monkeypatch.setattr(functional, "scaled_dot_product_attention", kernel)
    masked_attention(*tensors(), key_mask=PADDING, is_causal=is_causal)
    assert masks[0].dtype == torch.bool
    assert masks[0].any(-1).all()


def test_dropout_drops_weights_and_keeps_their_mean() -> None:
    q, k, _ = tensors()
    v = torch.ones(BATCH, HEADS, TOKENS, WIDTH, dtype=torch.float64)
    torch.manual_seed(0)
    draws = torch.stack([masked_attention(q, k, v, dropout=0.5) for _ in range(100)])
    assert not torch.equal(draws[0], draws[1])
    assert draws.mean().item() == pytest.approx(1.0, abs=0.1)
