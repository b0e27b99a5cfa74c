"""Positions of text: the published formula, for every length and number format."""

from __future__ import annotations

import math

import pytest
import torch

from damcha_core.models.sinusoidal_positions import SinusoidalPositions, sinusoidal_table


@pytest.mark.parametrize("d_model", [1, 2, 7, 16])
def test_the_table_is_the_formula(d_model: int) -> None:
    table = sinusoidal_table(13, d_model)
    for t in range(13):
        for feature in range(d_model):
            angle = t / 10_000 ** ((feature - feature % 2) / d_model)
            wanted = math.sin(angle) if feature % 2 == 0 else math.cos(angle)
            assert math.isclose(table[t, feature], wanted, abs_tol=1e-12)


def test_a_longer_text_is_no_index_error_and_moves_no_earlier_position() -> None:
    positions = SinusoidalPositions(6)
    short = positions(torch.arange(3)[None], 3, dtype=torch.float32)
    long = positions(torch.arange(5000)[None], 5000, dtype=torch.float32)
    assert torch.equal(long[:, :3], short)
    assert torch.equal(positions(torch.arange(3)[None], 3, dtype=torch.float32), short)


def test_a_model_that_changes_its_format_gets_all_digits() -> None:
    positions = SinusoidalPositions(6)
    places = torch.arange(40)[None]
    positions(places, 40, dtype=torch.float32)
    exact = positions.double()(places, 40, dtype=torch.float64)
    assert torch.equal(exact[0], sinusoidal_table(40, 6))


def test_nothing_is_learnt_or_stored() -> None:
    positions = SinusoidalPositions(6)
    positions(torch.arange(9)[None], 9, dtype=torch.float32)
    assert not list(positions.parameters())
    assert positions.state_dict() == {}


def test_a_table_made_in_inference_mode_serves_training() -> None:
    positions = SinusoidalPositions(6)
    places = torch.arange(9)[None]
    with torch.inference_mode():
        positions(places, 9, dtype=torch.float32)
    weight = torch.ones(6, requires_grad=True)
    (positions(places, 9, dtype=torch.float32) * weight).sum().backward()
    assert weight.grad is not None
