"""Mean and variance of metrics in one pass, against the same formulas on everything at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from damcha_core.experiments.adaptivity.metric_moments import MetricMoments

SIZES = {2: 7, 4: 5, 8: 1}
"""Number of metrics by group."""


def drawn(offset: float = 0.0) -> dict[int, Tensor]:
    generator = torch.Generator().manual_seed(4)
    return {
        group: torch.randn(n, 3, 4, 4, generator=generator, dtype=torch.float64) + group + offset
        for group, n in SIZES.items()
    }


def filled(metrics: dict[int, Tensor]) -> MetricMoments:
    moments = MetricMoments()
    for start in range(0, max(SIZES.values()), 3):  # groups come in turns, as prefixes do
        for group, m_BHKK in metrics.items():
            if len(m_BHKK) > start:
                moments.add(group, m_BHKK[start : start + 3])
    return moments


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_moments_are_those_of_the_definition(offset):
    metrics = drawn(offset)
    moments = filled(metrics)
    everything = torch.cat(list(metrics.values()))
    mean = everything.mean(0)
    means = torch.cat([m.mean(0).expand_as(m) for m in metrics.values()])
    norms = (everything - means).square().sum((2, 3)).mean(0)
    moved = (means - mean).square().sum((2, 3)).mean(0)
    tolerance = {"rtol": 1e-9, "atol": 0.0}
    assert moments.count == len(everything)
    torch.testing.assert_close(moments.mean, mean, **tolerance)
    torch.testing.assert_close(moments.within(), norms, **tolerance)
    torch.testing.assert_close(moments.between(), moved, **tolerance)
    singular = torch.linalg.svdvals(everything).mean(0)
    torch.testing.assert_close(moments.mean_singular_values, singular, **tolerance)


def test_the_parts_make_up_the_second_moment_about_any_matrix():
    metrics = drawn()
    moments = filled(metrics)
    start = torch.eye(4, dtype=torch.float64)
    whole = (torch.cat(list(metrics.values())) - start).square().sum((2, 3)).mean(0)
    rest = (moments.mean - start).square().sum((1, 2))
    torch.testing.assert_close(moments.within() + moments.between() + rest, whole)


def test_metrics_that_do_not_move_have_no_variance_at_all():
    one = torch.rand(1, 3, 4, 4, dtype=torch.float64)
    moments = MetricMoments()
    for n in (3, 7, 11):
        moments.add(0, one.expand(n, -1, -1, -1))
    assert moments.within().tolist() == moments.between().tolist() == [0.0] * 3
    assert torch.equal(moments.mean, one[0])


def test_one_group_has_nothing_between():
    moments = MetricMoments()
    moments.add(0, drawn()[2])
    assert moments.between().tolist() == [0.0] * 3
    assert bool((moments.within() > 0).all())
