"""The task rows: names, metrics, and what runs when there are no data."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from damcha_core.catalog.tasks import task_row, task_rows
from damcha_core.errors import UsageError

NAMES = [row.name for row in task_rows()]


def test_the_tasks_of_the_design_are_there_the_default_one_first():
    assert NAMES == ["digits", "cifar10", "images", "digits-cls", "cifar10-cls", "images-cls"]


@pytest.mark.parametrize("name", NAMES)
def test_metrics_start_with_the_main_one(name):
    row = task_row(name)
    if name.endswith("-cls"):
        assert [metric.name for metric in row.metrics] == ["top1", "top5", "loss"]
        assert (row.main_metric.unit, row.main_metric.better) == ("fraction", "higher")
        assert row.builder == "damcha_core.tasks.classification:ClassificationTask"
    else:
        assert [metric.name for metric in row.metrics] == [
            "masked_mse",
            "masked_mean_absolute_error",
            "masked_psnr",
            "psnr",
            "ssim",
        ]
        assert (row.main_metric.name, row.main_metric.better) == ("masked_mse", "lower")
        assert row.main_metric.unit == "squared intensity in [0,1]"
        assert row.builder == "damcha_core.tasks.reconstruction:ReconstructionTask"
    assert row.reconstructs != name.endswith("-cls")
    assert all(metric.unit for metric in row.metrics)


@pytest.mark.parametrize("name", NAMES)
def test_the_task_to_run_instead_is_built_in_and_of_the_same_kind(name):
    row = task_row(name)
    instead = task_row(row.instead)
    assert instead.builtin
    assert instead.builder == row.builder
    assert row.builtin == name.startswith("digits")


def test_picture_sizes_that_the_data_fix():
    assert {name: task_row(name).image_size for name in NAMES if task_row(name).image_size} == {
        "digits": 8,
        "digits-cls": 8,
        "cifar10": 32,
        "cifar10-cls": 32,
    }


def test_an_unknown_name_lists_the_names_and_the_nearest():
    with pytest.raises(UsageError, match="did you mean cifar10\\?") as caught:
        task_row("cifar")
    assert all(name in str(caught.value) for name in NAMES)


def test_rows_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        task_row("digits").builtin = False
