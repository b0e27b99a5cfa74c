"""Clipping against a float64 formula written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from damcha_core.train.clipping import clip_gradients

MULTIPLICITIES = (1.0, 8.0, 0.5)


def groups_with_gradients(dtype: torch.dtype) -> list[dict]:
    """Three groups of two parameters of different shapes; one has no gradient."""
    random = torch.Generator().manual_seed(4)
    groups = []
    for multiplicity in MULTIPLICITIES:
        parameters = [nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(5))]
        for parameter in parameters:
            parameter.data = parameter.data.to(dtype)
            parameter.grad = torch.randn(parameter.shape, generator=random).to(dtype)
        groups.append({"params": parameters, "norm_multiplicity": multiplicity})
    groups[0]["params"].append(nn.Parameter(torch.zeros(2, dtype=dtype)))
    return groups


def gradients(groups: list[dict]) -> list[torch.Tensor]:
    return [p.grad.clone() for g in groups for p in g["params"] if p.grad is not None]


def formula(groups: list[dict]) -> float:
    total = 0.0
    for group in groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                squares = [float(value) ** 2 for value in parameter.grad.flatten()]
                total += group["norm_multiplicity"] * math.fsum(squares)
    return math.sqrt(total)


def test_the_norm_counts_multiplicities():
    groups = groups_with_gradients(torch.float64)
    before = gradients(groups)
    norm = clip_gradients(groups, 0.0)
    assert norm.item() == pytest.approx(formula(groups), rel=1e-14)
    assert all(torch.equal(a, b) for a, b in zip(before, gradients(groups), strict=True))


@pytest.mark.parametrize("max_norm", [0.1, 1.0])
def test_clipping_scales_every_gradient_alike(max_norm):
    groups = groups_with_gradients(torch.float64)
    before, norm = gradients(groups), formula(groups)
    assert norm > max_norm
    clip_gradients(groups, max_norm)
    for old, new in zip(before, gradients(groups), strict=True):
        torch.testing.assert_close(new, old * (max_norm / (norm + 1e-6)), rtol=1e-13, atol=0)
    assert formula(groups) == pytest.approx(max_norm, rel=1e-5)


def test_a_small_gradient_stays_as_it_is():
    groups = groups_with_gradients(torch.float64)
    before = gradients(groups)
    clip_gradients(groups, 1e6)
    assert all(torch.equal(a, b) for a, b in zip(before, gradients(groups), strict=True))


def test_float32_agrees_with_the_formula():
    groups = groups_with_gradients(torch.float32)
    assert clip_gradients(groups, 1.0).item() == pytest.approx(
        formula(groups_with_gradients(torch.float32)), rel=1e-6
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_is_reported_and_not_spread(bad):
    groups = groups_with_gradients(torch.float64)
    groups[1]["params"][0].grad[1, 1] = bad
    before = gradients(groups)
    assert not math.isfinite(clip_gradients(groups, 1.0).item())
    for old, new in zip(before, gradients(groups), strict=True):
        torch.testing.assert_close(new, old, rtol=0, atol=0, equal_nan=True)


def test_no_gradient_at_all_has_norm_zero():
    groups = [{"params": [nn.Parameter(torch.zeros(2))], "norm_multiplicity": 3.0}]
    assert clip_gradients(groups, 1.0).item() == 0.0
