"""Running a model over a split: its mode is put back, it can be stopped, records are stable."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from damcha_core.config.resolve import resolve_mapping
from damcha_core.evaluate.classification import ClassificationEvaluator
from damcha_core.evaluate.evaluator import (
    EvaluationStopped,
    build_evaluator,
    reported_value,
    reporting_model,
)
from damcha_core.evaluate.reconstruction import ReconstructionEvaluator, training_mean
from damcha_core.tasks.build import build_task
from damcha_core.tasks.task import Task

SMALL = {
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "dropout": 0.5},
    "attention": {"mlp_hidden": [8]},
}


def task(name: str) -> Task:
    return build_task(resolve_mapping({"run": {"task": name}, **SMALL}))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("digits", ReconstructionEvaluator), ("digits-cls", ClassificationEvaluator)],
)
def test_each_task_has_its_evaluator_and_main_loss(name, kind) -> None:
    one = task(name)
    evaluator = build_evaluator(one)
    assert type(evaluator) is kind
    evaluation = evaluator.evaluate(one.build_model(), "valid", batch_size=100, for_report=True)
    assert list(evaluation.metrics) == [spec.name for spec in one.row.metrics]
    main = {"digits": "masked_mse", "digits-cls": "loss"}[name]
    assert evaluation.loss == evaluation.metrics[main].value
    assert (evaluation.split, evaluation.size) == ("valid", 250)


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_is_put_back(training) -> None:
    one = task("digits")
    model = one.build_model().train(training)
    evaluator = build_evaluator(one)
    scores = [evaluator.evaluate(model, "valid", batch_size=250).metrics for _ in range(2)]
    assert scores[0] == scores[1]  # dropout is off
    assert model.training is training


def test_a_stop_is_passed_on_and_the_mode_put_back() -> None:
    one = task("digits")
    model, asked = one.build_model().train(), []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 2

    with pytest.raises(EvaluationStopped):
        build_evaluator(one).evaluate(model, "valid", batch_size=50, should_stop=stop)
    assert len(asked) == 2
    assert model.training


def test_without_floors_none_are_scored() -> None:
    one = task("digits")
    evaluation = build_evaluator(one).evaluate(one.build_model(), "valid", batch_size=250)
    assert evaluation.floors == {}


def test_the_mean_training_picture_is_the_mean_of_the_training_split_alone() -> None:
    one = task("digits")
    train = one.split("train")
    expected = train.images.double().mean(0) / train.peak
    torch.testing.assert_close(training_mean(one), expected, rtol=0, atol=1e-12)


def test_a_reporting_model_is_a_copy_in_float64() -> None:
    model = nn.Linear(2, 2)
    reported = reporting_model(model)
    assert reported.weight.dtype == torch.float64
    assert model.weight.dtype == torch.float32
    assert torch.equal(reported.weight.float(), model.weight)


@pytest.mark.parametrize(
    ("value", "stated"),
    [
        (None, None),
        (math.nan, None),
        (-math.inf, None),
        (0.0, 0.0),
        (0.1428389927404084, 0.14283899274),
        (0.1428389927404000, 0.14283899274),
        (2.118e-16, 2.118e-16),
        (123456789012345.0, 123456789012000.0),
    ],
)
def test_a_record_states_twelve_digits(value, stated) -> None:
    assert reported_value(value) == stated
