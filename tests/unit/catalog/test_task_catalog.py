"""The task rows: names, metrics, and what runs when there are no data."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from damcha_core.catalog.tasks import task_row, task_rows
from damcha_core.errors import UsageError

NAMES = [row.name for row in task_rows()]


RECONSTRUCTION = ["masked_mse", "masked_mean_absolute_error", "masked_psnr", "psnr", "ssim"]
CLASSIFICATION = ["top1", "top5", "loss"]
TRANSLATION = ["bleu", "chrf", "ter", "perplexity"]
CONCEPTS = ["bleu4", "cider", "coverage", "rouge_l", "meteor", "perplexity"]
RECALL = ["accuracy", "loss"]
METRICS = {
    "digits": RECONSTRUCTION,
    "cifar10": RECONSTRUCTION,
    "images": RECONSTRUCTION,
    "digits-cls": CLASSIFICATION,
    "cifar10-cls": CLASSIFICATION,
    "images-cls": CLASSIFICATION,
    "cldr": TRANSLATION,
    "wmt": TRANSLATION,
    "concepts": CONCEPTS,
    "commongen": CONCEPTS,
    "recall": RECALL,
}
LOWER = {"masked_mse", "masked_mean_absolute_error", "loss", "ter", "perplexity"}


def test_the_tasks_of_the_design_are_there_the_default_one_first():
    assert list(METRICS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_metrics_start_with_the_main_one(name):
    row = task_row(name)
    assert [metric.name for metric in row.metrics] == METRICS[name]
    assert row.main_metric is row.metrics[0]
    assert row.tuning_metric in row.metrics
    assert (row.tuning_metric.name == "perplexity") == row.is_text
    for metric in row.metrics:
        assert metric.unit
        assert metric.better == ("lower" if metric.name in LOWER else "higher")


@pytest.mark.parametrize("name", NAMES)
def test_what_kind_of_task_it_is(name):
    row = task_row(name)
    assert row.reconstructs == (METRICS[name] is RECONSTRUCTION)
    assert row.is_text == (METRICS[name] in (TRANSLATION, CONCEPTS))
    assert row.recalls == (METRICS[name] is RECALL)
    assert row.has_vocabulary == (row.is_text or row.recalls)
    assert row.grouped == (METRICS[name] is CONCEPTS)
    assert bool(row.mean_tokens) == row.is_text
    assert row.splits[:3] == ("train", "valid", "test")


@pytest.mark.parametrize("name", NAMES)
def test_the_task_to_run_instead_is_built_in_and_of_the_same_kind(name):
    row = task_row(name)
    instead = task_row(row.instead)
    assert instead.builtin
    assert (instead.builder, instead.metrics) == (row.builder, row.metrics)
    assert row.builtin == (row.instead == name)


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
