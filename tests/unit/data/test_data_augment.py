"""Shifts move whole pixels, mirroring mirrors, and each draw is equally likely."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from damcha_core.data.augment import Augment
from damcha_core.data.randomness import raw_draws


def draws(*rows):
    return np.array(rows, dtype=np.uint64)


def pictures(n=1, channels=3, side=5):
    return torch.arange(n * channels * side * side).view(n, channels, side, side).to(torch.uint8)


def test_middle_draw_shifts_nothing():
    images = pictures(2)
    assert torch.equal(Augment(2)(images, draws((2, 2, 0), (2, 2, 1))), images)


def test_constant_padding_moves_black_in():
    images = pictures() + 1
    down = Augment(1, padding="constant")(images, draws((0, 1, 0)))
    assert torch.equal(down[:, :, 1:], images[:, :, :-1])
    assert down[:, :, 0].eq(0).all()
    left = Augment(1, padding="constant")(images, draws((1, 2, 0)))
    assert torch.equal(left[..., :-1], images[..., 1:])
    assert left[..., -1].eq(0).all()


def test_reflect_padding_mirrors_the_border():
    images = pictures()
    down = Augment(1)(images, draws((0, 1, 0)))
    assert torch.equal(down[:, :, 0], images[:, :, 1])


def test_flip_mirrors_left_and_right_where_the_draw_is_odd():
    images = pictures(2)
    flipped = Augment(flip=True)(images, draws((0, 0, 2), (0, 0, 3)))
    assert torch.equal(flipped[0], images[0])
    assert torch.equal(flipped[1], images[1].flip(-1))


def test_a_picture_does_not_depend_on_its_neighbours():
    augment = Augment(2, flip=True)
    images, numbers = pictures(7), raw_draws("test", [(i,) for i in range(7)], 3)
    together = augment(images, numbers)
    for i in range(7):
        assert torch.equal(augment(images[i : i + 1], numbers[i : i + 1])[0], together[i])


def test_every_shift_and_flip_occurs():
    numbers = raw_draws("test", [(i,) for i in range(600)], 3)
    image = torch.zeros(1, 1, 9, 9, dtype=torch.uint8)
    image[0, 0, 4, 4] = 1
    moved = Augment(1, flip=True, padding="constant")(image.expand(600, 1, 9, 9), numbers)
    counts = moved.sum(dim=(0, 1))[3:6, 3:6]
    assert int(moved.sum()) == 600
    assert counts.min() > 40


def test_nothing_to_do_is_known():
    assert Augment().changes_nothing
    assert not Augment(flip=True).changes_nothing


def test_impossible_shifts_are_refused():
    with pytest.raises(ValueError, match="at least 0"):
        Augment(-1)
    with pytest.raises(ValueError, match="below the image side 5"):
        Augment(5)(pictures(), draws((0, 0, 0)))
