"""The choice of the most probable tokens where values are equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from damcha_core.decoding.top_tokens import top_tokens


def expected(values: torch.Tensor, n: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-values.numpy(), axis=1, kind="stable")[:, :n]
    return np.take_along_axis(values.numpy(), order, 1), order


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.integers(1, 45), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_it_is_a_stable_sort(n_vocab: int, n: int, n_levels: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = torch.from_numpy(-random.integers(0, n_levels, (4, n_vocab)).astype(np.float64))
    top = top_tokens(values, n, values[:, :1] * 2)
    log_p, ids = expected(values, n)
    assert np.array_equal(top.log_p, log_p)
    assert np.array_equal(top.ids, ids)
    assert np.array_equal(top.more, values[:, :1].numpy() * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_large_vocabulary_with_many_equal_values(dtype: torch.dtype) -> None:
    values = (torch.randn(16, 40_000) * 4).round().to(dtype)
    top = top_tokens(values, 6, values[:, :0])
    log_p, ids = expected(values, 6)
    assert np.array_equal(top.log_p, log_p)
    assert np.array_equal(top.ids, ids)


def test_tokens_that_may_not_come_are_last() -> None:
    values = torch.tensor([[-np.inf, -1.0, -np.inf, -0.5, -np.inf]])
    top = top_tokens(values, 4, values[:, :0])
    assert top.ids[0, :2].tolist() == [3, 1]
    assert np.isneginf(top.log_p[0, 2:]).all()
