"""The refresh counts, and the order that has real tokens first."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
import torch

from damcha_core.attention.refresh import Packing, Refresh

GEOMETRIC = [1, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30, 38, 48, 60]
MASK = torch.tensor(
    [
        [True] * 7,
        [False, False, True, True, False, True, True],
        [True] * 4 + [False] * 3,
        [False] * 7,
    ]
)


@pytest.mark.parametrize(
    ("refresh", "ratio", "counts"),
    [
        ("token", 1.25, list(range(1, 61))),
        (1, 1.25, list(range(1, 61))),
        (16, 1.25, [1, 17, 33, 49]),
        ("geometric", 1.25, GEOMETRIC),
        ("geometric", 2, [1, 2, 4, 8, 16, 32]),
        ("geometric", 1000.0, [1]),
    ],
)
def test_the_counts_are_those_of_the_rule(refresh, ratio: float, counts: list[int]) -> None:
    schedule = Refresh(refresh, ratio)
    assert schedule.counts(60) == counts
    assert schedule.counts(0) == []
    for n in range(1, 61):
        assert schedule.counts(n) == [count for count in counts if count <= n]
        assert sum(schedule.runs(n)) == n
        assert len(schedule.runs(n)) == len(schedule.counts(n))


def test_how_many_metrics_forty_tokens_need() -> None:
    assert len(Refresh("geometric", 1.25).counts(40)) == 13
    assert len(Refresh("geometric", 2).counts(40)) == 6
    assert len(Refresh(16).counts(40)) == 3


@pytest.mark.parametrize("ratio", [1.1, 1.3, 1.05, 2.2, 1 + 1e-9, 3])
def test_the_ratio_is_the_decimal_number_that_was_written(ratio: float) -> None:
    exact, schedule = Fraction(str(ratio)), Refresh("geometric", ratio)
    for count in range(1, 2000):
        assert schedule.after(count) == max(count + 1, ceil(exact * count))
    # In floating point 1.1 * 10 lies above 11.
    assert Refresh("geometric", 1.1).after(10) == 11


def test_a_geometric_schedule_needs_logarithmically_many() -> None:
    assert len(Refresh("geometric", 1.25).counts(10**6)) < 70


@pytest.mark.parametrize("refresh", [0, -3, True, 1.5, "tokens", None])
def test_another_schedule_is_refused(refresh) -> None:
    with pytest.raises(ValueError, match="refresh must be 'token', 'geometric' or a whole number"):
        Refresh(refresh)


@pytest.mark.parametrize("ratio", [1.0, 0.5, -2.0, float("nan"), float("inf")])
def test_a_ratio_that_does_not_grow_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="refresh_ratio must be above 1"):
        Refresh("geometric", ratio)


def test_packing_puts_the_real_tokens_first_and_back() -> None:
    packing = Packing(MASK)
    x = torch.arange(28.0).view(4, 7, 1)
    packed = packing.pack(x)
    for row, keep in enumerate(MASK):
        assert packed[row, : keep.sum(), 0].tolist() == x[row, keep, 0].tolist()
    assert torch.equal(packing.unpack(packed.unsqueeze(1)), x.unsqueeze(1))


@pytest.mark.parametrize("schedule", [Refresh(3), Refresh("geometric", 2)], ids=["3", "geometric"])
@pytest.mark.parametrize("padded", [False, True])
def test_each_token_has_the_mean_of_its_own_refresh_prefix(schedule, padded: bool) -> None:
    x = torch.randn(4, 7, 2, dtype=torch.float64)
    mask = MASK if padded else torch.ones_like(MASK)
    held = schedule.context_of_tokens(
        torch.where(mask[..., None], x, 0.0), mask if padded else None
    )
    for row in range(4):
        for place in range(7):
            real = x[row, : place + 1][mask[row, : place + 1]]
            count = max(schedule.counts(len(real)), default=0)
            expected = real[:count].mean(0) if count else torch.zeros(2, dtype=torch.float64)
            torch.testing.assert_close(held[row, place], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("refresh", ["token", 1, 3, 16, 1000, "geometric"])
def test_the_number_of_metrics_is_that_of_the_counts(refresh) -> None:
    schedule = Refresh(refresh, 1.3)
    for n_tokens in range(1, 60):
        assert schedule.n_metrics(n_tokens) == len(schedule.counts(n_tokens))
