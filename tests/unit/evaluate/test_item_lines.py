"""What is kept of every picture: the values that the metrics are made of, in order of the ids."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import nn

from damcha_core.config.resolve import resolve_mapping
from damcha_core.data.image_data import ImageSplit
from damcha_core.evaluate.evaluator import Evaluation, build_evaluator, reported_value
from damcha_core.evaluate.item_lines import item_lines
from damcha_core.tasks.build import build_task
from damcha_core.tasks.image_task import ImageTask

SMALL: dict[str, Any] = {
    "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1},
    "attention": {"name": "mha"},
}


def scored(name: str, *, for_report: bool = True, **data: Any) -> tuple[ImageTask, Evaluation]:
    task = build_task(resolve_mapping({"run": {"task": name}, **SMALL, "data": data}))
    assert isinstance(task, ImageTask)
    torch.manual_seed(0)
    model: nn.Module = task.build_model().double()
    evaluator = build_evaluator(task)
    return task, evaluator.evaluate(model, "valid", batch_size=100, for_report=for_report)


def records(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [json.loads(line) for line in evaluation.files["jsonl"].split("\n")[:-1]]


def test_reconstruction_keeps_sums_for_pooled_errors_and_values_for_means() -> None:
    task, evaluation = scored("digits")
    items = records(evaluation)
    assert [item["id"] for item in items] == list(range(250))
    assert list(items[0]) == ["id", "scores", "sums"]
    assert list(items[0]["scores"]) == [spec.name for spec in task.row.metrics]
    for sums, metric in (
        ("masked_squared_error", "masked_mse"),
        ("masked_absolute_error", "masked_mean_absolute_error"),
    ):
        if metric not in evaluation.metrics:
            continue
        total = math.fsum(item["sums"][sums] for item in items)
        n = sum(item["sums"]["hidden_values"] for item in items)
        assert n == evaluation.metrics[metric].n
        assert total / n == pytest.approx(evaluation.metrics[metric].value, rel=1e-11)
        first = items[0]["sums"]
        assert items[0]["scores"][metric] == pytest.approx(first[sums] / first["hidden_values"])
    for metric in ("masked_psnr", "psnr", "ssim"):
        mean = math.fsum(item["scores"][metric] for item in items) / 250
        assert mean == pytest.approx(evaluation.metrics[metric].value, rel=1e-11)


def test_without_hidden_patches_the_scores_of_a_picture_are_null() -> None:
    _, evaluation = scored("digits", mask_ratio=0.0)
    item = records(evaluation)[3]
    assert item["scores"]["masked_mse"] is None
    assert item["sums"]["masked_squared_error"] == item["sums"]["hidden_values"] == 0


def test_classification_keeps_what_was_said_and_what_is_true() -> None:
    task, evaluation = scored("digits-cls")
    items = records(evaluation)
    labels = task.split("valid").labels
    assert labels is not None
    assert [item["label"] for item in items] == labels.tolist()
    assert list(items[0]) == ["id", "predicted", "label", "scores"]
    for item in items:
        assert type(item["predicted"]) is int
        assert item["scores"]["top1"] == float(item["predicted"] == item["label"])
        assert item["scores"]["top5"] in (0.0, 1.0)
    for metric in ("top1", "top5", "loss"):
        mean = math.fsum(item["scores"][metric] for item in items) / 250
        assert mean == pytest.approx(evaluation.metrics[metric].value, rel=1e-11)


@pytest.mark.parametrize("name", ["digits", "digits-cls"])
def test_a_validation_during_training_keeps_none(name: str) -> None:
    assert scored(name, for_report=False)[1].files == {}


def test_names_of_files_are_stated_by_id() -> None:
    text = item_lines([0, 2], ("a", "b", "ü\n"), scores={"x": [1 / 3, math.nan]})
    first, second = text.split("\n")[:-1]
    assert json.loads(first) == {"id": 0, "name": "a", "scores": {"x": reported_value(1 / 3)}}
    assert json.loads(second) == {"id": 2, "name": "ü\n", "scores": {"x": None}}


def test_pictures_from_files_have_names_in_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    task = build_task(resolve_mapping({"run": {"task": "digits"}, **SMALL}))
    assert isinstance(task, ImageTask)
    valid = task.split("valid")
    names = tuple(f"{i}.png" for i in range(250))
    named = ImageSplit(valid.images, valid.labels, peak=valid.peak, names=names)
    monkeypatch.setattr(task, "split", lambda _name: named)
    evaluator = build_evaluator(task)
    evaluation = evaluator.evaluate(task.build_model(), "valid", batch_size=250, for_report=True)
    assert [item["name"] for item in records(evaluation)] == list(names)
