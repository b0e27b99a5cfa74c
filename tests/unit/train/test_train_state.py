"""The best score, the patience, and the position that is stored in a checkpoint."""

from __future__ import annotations

import json
import math

import pytest

from damcha_core.train.best import Best
from damcha_core.train.state import ENDINGS, TrainState


@pytest.mark.parametrize(
    ("better", "values", "improved"),
    [
        ("lower", [3.0, 3.0, 2.0, 2.5], [True, False, True, False]),
        ("higher", [0.1, 0.1, 0.2, 0.15], [True, False, True, False]),
    ],
)
def test_only_a_strictly_better_value_is_best(better, values, improved):
    best = Best()
    steps = enumerate(values, start=1)
    assert [best.update(value, step, better=better) for step, value in steps] == improved
    assert (best.value, best.step, best.waited) == (values[2], 3, 1)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("better", ["lower", "higher"])
def test_what_is_no_number_is_never_best(value, better):
    best = Best()
    assert not best.update(value, 1, better=better)
    assert (best.value, best.waited) == (None, 1)
    assert best.update(5.0, 2, better=better)
    assert not best.update(value, 3, better=better)
    assert (best.value, best.step, best.waited) == (5.0, 2, 1)


def test_waiting_counts_validations_since_the_best():
    best = Best()
    for step, value in enumerate([1.0, 2.0, 2.0, math.nan], start=1):
        best.update(value, step, better="lower")
    assert best.waited == 3
    best.update(0.5, 5, better="lower")
    assert best.waited == 0


@pytest.mark.parametrize("ended", ENDINGS)
def test_a_position_survives_json(ended):
    state = TrainState(
        step=12, skipped=2, skipped_in_a_row=1, epoch=3, consumed=40, ended=ended,
        best=Best(value=0.1 + 0.2, step=9, waited=4),
    )  # fmt: skip
    assert TrainState.from_mapping(json.loads(json.dumps(state.to_mapping()))) == state
    assert state.updates == 10


def test_a_fresh_position_survives_too():
    assert TrainState.from_mapping(TrainState().to_mapping()) == TrainState()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"step": "3"}, TypeError),
        ({"step": 3.0}, TypeError),
        ({"step": True}, TypeError),
        ({"step": -1}, ValueError),
        ({"consumed": None}, TypeError),
        ({"ended": "tired"}, ValueError),
        ({"extra": 1}, TypeError),
        ({"best": 3}, TypeError),
        ({"best": {}, "best_score": 1}, TypeError),
        ({"best": {"value": "low", "step": 0, "waited": 0}}, TypeError),
        ({"best": {"value": None, "step": -1, "waited": 0}}, ValueError),
        ({"best": {"value": None, "step": 0, "waited": 0, "more": 0}}, TypeError),
    ],
)
def test_a_position_of_another_kind_is_refused(change, error):
    with pytest.raises(error):
        TrainState.from_mapping({**TrainState().to_mapping(), **change})


def test_a_position_without_a_best_is_refused():
    mapping = TrainState().to_mapping()
    del mapping["best"]
    with pytest.raises(KeyError):
        TrainState.from_mapping(mapping)
