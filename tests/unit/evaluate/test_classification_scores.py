"""Top-1, top-5 and cross entropy against golden values, ties, and what may not change them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from damcha_core.errors import NonFiniteError, ShapeError
from damcha_core.evaluate.classification_scores import ClassificationScores


def scored(logits: Tensor, labels: Tensor, size: int = 10_000) -> ClassificationScores:
    scores = ClassificationScores()
    for ids in torch.arange(len(labels)).split(size):
        scores.update(ids.tolist(), logits[ids], labels[ids])
    return scores


def test_golden_case(golden: dict[str, Any]) -> None:
    case = golden["classification"]
    labels = torch.tensor(case["labels"])
    logits = torch.tensor(case["logits"], dtype=torch.float64)
    for size in (1, 7, 32, 80):
        scores = scored(logits, labels, size)
        got = scores.compute()
        assert got["top1"] == (case["top1"], 80)
        assert got["top5"] == (case["top5"], 80)
        assert got["loss"].value == pytest.approx(case["mean_nll_nats"], abs=1e-9)
        each = scores.per_image()
        assert sum(each["top1"]) == case["top1_correct"]
        assert sum(each["top5"]) == case["top5_correct"]


@pytest.mark.parametrize("n_classes", [2, 10, 37])
def test_same_bits_for_every_batch_size_and_order(n_classes: int) -> None:
    logits = torch.randn(50, n_classes) * 5
    labels = torch.randint(n_classes, (50,))
    together = scored(logits, labels)
    for size in (1, 7):
        assert scored(logits, labels, size).compute() == together.compute()
    shuffled = ClassificationScores()
    for ids in torch.randperm(50).split(7):
        shuffled.update(ids.tolist(), logits[ids], labels[ids])
    assert shuffled.compute() == together.compute()
    assert shuffled.per_image() == together.per_image()
    assert shuffled.ids() == list(range(50))


@given(st.integers(1, 12), st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_equals_torch(n_classes: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(9, n_classes, generator=rng, dtype=torch.float64) * 20
    labels = torch.randint(n_classes, (9,), generator=rng)
    got = scored(logits, labels).compute()
    loss = functional.cross_entropy(logits, labels).item()
    assert got["loss"].value == pytest.approx(loss, rel=1e-12, abs=1e-12)
    top1 = (logits.argmax(dim=1) == labels).double().mean().item()
    assert got["top1"].value == pytest.approx(top1)
    ranked = logits.topk(min(5, n_classes), dim=1).indices
    top5 = (ranked == labels[:, None]).any(dim=1).double().mean().item()
    assert got["top5"].value == pytest.approx(top5)


def test_among_equal_logits_the_smaller_class_ranks_first() -> None:
    each = scored(torch.zeros(10, 10), torch.arange(10)).per_image()
    assert each["top1"] == [1.0] + [0.0] * 9
    assert each["top5"] == [1.0] * 5 + [0.0] * 5
    assert each["loss"] == pytest.approx([math.log(10)] * 10)


@pytest.mark.parametrize("n_classes", [1, 4, 5])
def test_with_five_classes_or_fewer_all_are_in_the_top_five(n_classes: int) -> None:
    labels = torch.arange(n_classes)
    assert scored(torch.randn(n_classes, n_classes), labels).compute()["top5"] == (1.0, n_classes)


def test_huge_logits_give_a_huge_loss_and_no_crash() -> None:
    got = scored(torch.tensor([[3e38, -3e38]]), torch.tensor([1])).compute()
    assert got["loss"].value == pytest.approx(6e38, rel=1e-6)
    impossible = torch.tensor([[0.0, -math.inf]])
    assert scored(impossible, torch.tensor([0])).compute()["loss"].value == 0.0


def test_half_precision_logits_are_scored_in_float64() -> None:
    logits = torch.randn(6, 10).to(torch.bfloat16)
    labels = torch.arange(6)
    assert scored(logits, labels).compute() == scored(logits.double(), labels).compute()


def test_before_the_first_batch() -> None:
    assert set(ClassificationScores().compute().values()) == {(None, 0)}


@pytest.mark.parametrize(
    ("logits", "label"),
    [
        ([math.nan, 0.0], 0),
        ([math.nan, 0.0], 1),
        ([0.0, math.nan], 0),
        ([math.inf, 0.0], 1),
        ([-math.inf, 0.0], 0),
    ],
)
def test_losses_that_are_not_finite_name_the_sample(logits: list[float], label: int) -> None:
    scores = ClassificationScores()
    with pytest.raises(NonFiniteError, match="sample 8"):
        scores.update([7, 8], torch.tensor([[0.0, 0.0], logits]), torch.tensor([0, label]))
    assert scores.ids() == []


def test_batches_that_do_not_fit_are_refused() -> None:
    scores = ClassificationScores()
    logits, labels = torch.zeros(2, 3), torch.tensor([0, 2])
    for ids, some_logits, some_labels in (
        ([0], logits, labels),
        ([0, 1], logits[:1], labels),
        ([0, 1], logits[None], labels),
        ([0, 1], logits, labels[:, None]),
    ):
        with pytest.raises(ShapeError, match="do not fit"):
            scores.update(ids, some_logits, some_labels)
    for label in (-1, 3):
        with pytest.raises(ValueError, match=f"Sample 1 has label {label}.*0 to 2"):
            scores.update([0, 1], logits, torch.tensor([0, label]))
    with pytest.raises(TypeError, match="floating point"):
        scores.update([0, 1], logits.long(), labels)
    scores.update([0, 1], logits, labels)
    with pytest.raises(ValueError, match="scored twice"):
        scores.update([1], logits[:1], labels[:1])
