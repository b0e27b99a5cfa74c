"""Exactly the promised number of patches is hidden."""

from __future__ import annotations

import math

import pytest
import torch

from damcha_core.data.masking import hidden_count, patch_mask, patch_masks
from damcha_core.data.randomness import generator, raw_draws


@pytest.mark.parametrize(
    ("ratio", "count"),
    [
        (0, 0),
        (0.0, 0),
        (1 / 64, 1),
        (1e-9, 1),
        (0.5, 32),
        (0.75, 48),
        (0.999, 63),
        (1, 64),
        (1.0, 64),
    ],
)
def test_hidden_count_of_64_patches(ratio, count):
    assert hidden_count(64, ratio) == count
    assert int(patch_mask(generator("test"), 64, ratio).sum()) == count


@pytest.mark.parametrize("ratio", [-0.1, 1.5, math.nan, math.inf, -math.inf])
def test_ratios_out_of_range_are_refused_with_the_range(ratio):
    with pytest.raises(ValueError, match="between 0 and 1"):
        hidden_count(64, ratio)
    with pytest.raises(ValueError, match="between 0 and 1"):
        patch_mask(generator("test"), 64, ratio)


def test_one_patch_is_either_hidden_or_visible():
    assert hidden_count(1, 0) == 0
    assert hidden_count(1, 1) == 1
    with pytest.raises(ValueError, match="patch_size"):
        hidden_count(1, 0.5)
    with pytest.raises(ValueError, match="at least 1 patch"):
        hidden_count(0, 0.5)


def test_every_row_has_its_own_mask_of_the_same_size():
    masks = patch_masks(raw_draws("test", [(i,) for i in range(500)], 16), 0.25)
    assert masks.dtype == torch.bool
    assert masks.sum(dim=1).tolist() == [4] * 500
    # Each patch is hidden in about a quarter of the cases.
    assert (masks.float().mean(dim=0) - 0.25).abs().max() < 0.08


def test_a_mask_of_one_is_a_row_of_many():
    rows = [(3,), (4,)]
    masks = patch_masks(raw_draws("mask", rows, 9), 0.5)
    for mask, numbers in zip(masks, rows, strict=True):
        assert torch.equal(mask, patch_mask(generator("mask", *numbers), 9, 0.5))
