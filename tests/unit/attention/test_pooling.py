"""Means over the real tokens."""

from __future__ import annotations

import pytest
import torch

from damcha_core.attention.pooling import (
    continued_mean,
    doubling_prefix_sum,
    prefix_mean,
    prefix_sum,
    token_mean,
)

X = torch.tensor([[[2.0], [4.0], [9.0]], [[1.0], [float("nan")], [float("inf")]]])
MASK = torch.tensor([[False, True, True], [True, False, False]])


def test_the_mean_of_all_tokens() -> None:
    assert token_mean(X[:1]).tolist() == [[5.0]]
    assert prefix_mean(X[:1]).flatten().tolist() == [2.0, 3.0, 5.0]


def test_masked_tokens_are_removed_whatever_they_hold() -> None:
    assert token_mean(X, MASK).tolist() == [[6.5], [1.0]]
    assert prefix_mean(X, MASK)[..., 0].tolist() == [[0.0, 4.0, 6.5], [1.0, 1.0, 1.0]]


def test_no_real_token_gives_zeros_and_no_gradient() -> None:
    x = X.clone().requires_grad_()
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    pooled = [token_mean(x, nothing), prefix_mean(x, nothing)]
    sum(p.sum() for p in pooled).backward()
    assert not any(p.any() for p in pooled)
    assert not x.grad.any()


@pytest.mark.parametrize("pool", [token_mean, prefix_mean])
@pytest.mark.parametrize("mask", [None, torch.ones(1, 4099, dtype=torch.bool)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_dtypes_are_pooled_in_float32(pool, mask, dtype) -> None:
    x = torch.full((1, 4099, 2), 60.0, dtype=dtype)
    pooled = pool(x, mask)
    assert pooled.dtype == torch.float32
    torch.testing.assert_close(pooled, torch.full_like(pooled, 60.0))


@pytest.mark.parametrize("pool", [token_mean, prefix_mean])
def test_float64_stays_float64(pool) -> None:
    assert pool(X.double()).dtype == torch.float64
    assert pool(X.double(), MASK).dtype == torch.float64


@pytest.mark.parametrize(
    "mask", [None, torch.arange(262).view(2, 131) % 3 > 0], ids=["no mask", "padded"]
)
def test_a_prefix_mean_is_bit_equal_without_the_tokens_after_it(mask) -> None:
    x = torch.randn(2, 131, 5)
    pooled = prefix_mean(x, mask)
    for t in range(1, 131):
        shorter = prefix_mean(x[:, :t], None if mask is None else mask[:, :t])
        assert torch.equal(shorter, pooled[:, :t])


@pytest.mark.parametrize("mask", [None, torch.arange(26).view(2, 13) % 3 > 0])
def test_a_mean_can_be_continued(mask) -> None:
    x = torch.randn(2, 13, 5, dtype=torch.float64)
    x = x if mask is None else torch.where(mask[..., None], x, 0.0)
    means, state = [], (None, None)
    for part in (slice(0, 1), slice(1, 6), slice(6, 13)):
        own = None if mask is None else mask[:, part]
        mean, sums, counts = continued_mean(x[:, part], own, *state)
        means.append(mean)
        state = sums[:, -1], counts[:, -1]
    torch.testing.assert_close(torch.cat(means, 1), prefix_mean(x, mask), rtol=0, atol=1e-14)
    assert state[1].tolist() == ([13, 13] if mask is None else mask.sum(1).tolist())


@pytest.mark.parametrize("n_tokens", [1, 2, 7, 64, 65])
def test_the_sum_by_doubling_is_the_running_sum(n_tokens: int) -> None:
    x = torch.randn(3, n_tokens, 5, dtype=torch.float64)
    torch.testing.assert_close(doubling_prefix_sum(x), prefix_sum(x), rtol=0, atol=1e-13)
    later = x.clone()
    later[:, n_tokens // 2 + 1 :] = torch.randn(1, dtype=torch.float64)
    kept = slice(0, n_tokens // 2 + 1)
    assert torch.equal(doubling_prefix_sum(later)[:, kept], doubling_prefix_sum(x)[:, kept])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_running_sum_is_allowed_under_deterministic_algorithms() -> None:
    x = torch.randn(2, 9, 5, device="cuda", requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        prefix_mean(x).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert x.grad.isfinite().all()
