"""What tasks give to the loop: facts, batches, models and summed losses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tiny_data import N_TRAIN, N_VALID, write_pictures
from tiny_runs import tiny_config

from damcha_core.data.loader import make_loader
from damcha_core.errors import UsageError
from damcha_core.models.masked_image import MaskedImageModel
from damcha_core.models.patches import patchify
from damcha_core.models.vision_transformer import VisionTransformer
from damcha_core.tasks.build import build_task
from damcha_core.tasks.classification import ClassificationTask
from damcha_core.tasks.image_task import ImageFacts
from damcha_core.tasks.reconstruction import ReconstructionTask
from damcha_core.tasks.task import Task, move_batch


def task_of(name: str, **changes: object) -> Task:
    return build_task(tiny_config(Path("unused"), **{"run.task": name, **changes}))


def first_batch(task: Task, *, training: bool = True) -> dict[str, torch.Tensor]:
    dataset = task.dataset("train", training=training)
    return next(make_loader(dataset, task.training_batches(0, 0), 0))


DIGITS: dict[str, object] = {"data.image_size": 8, "model.patch_size": 2}


@pytest.mark.parametrize(
    ("name", "changes", "kind", "model"),
    [
        ("digits", DIGITS, ReconstructionTask, MaskedImageModel),
        ("digits-cls", DIGITS, ClassificationTask, VisionTransformer),
        ("cifar10", {}, ReconstructionTask, MaskedImageModel),
        ("cifar10-cls", {}, ClassificationTask, VisionTransformer),
    ],
)
def test_a_row_of_the_catalogue_builds_its_task(name, changes, kind, model):
    task = task_of(name, **changes)
    assert isinstance(task, kind)
    assert isinstance(task.build_model(), model)
    assert task.row.name == name
    assert task.unit == "samples"


def test_the_digits_are_what_they_are():
    facts = task_of("digits-cls", **DIGITS).facts
    assert (facts.channels, facts.image_size, len(facts.class_names)) == (1, 8, 10)
    assert facts.samples == {"train": 1297, "valid": 250, "test": 250}


@pytest.mark.parametrize("name", ["images", "images-cls"])
def test_folders_of_pictures_are_a_task(tmp_path, name):
    write_pictures(tmp_path, n_each=4)
    told: list[tuple[str, int, int]] = []
    config = tiny_config(
        tmp_path,
        **{"run.task": name, "data.root": str(tmp_path), "data.image_size": 16},
    )
    task = build_task(config, notify=lambda *what: told.append(what))
    assert task.facts.samples == {"train": 8, "valid": 2, "test": 2}
    assert task.facts.class_names == (("left", "right") if name == "images-cls" else ())
    assert task.notices == ()
    assert told


def test_stored_facts_need_no_data():
    facts = ImageFacts(3, 32, tuple("ab"), {"train": 4, "valid": 1, "test": 1})
    config = tiny_config(Path("unused"), **{"run.task": "cifar10-cls", "data.root": "/nowhere"})
    task = build_task(config, facts)
    assert task.facts is facts
    assert task.build_model().head.out_features == 2
    assert len(task.training_batches(0, 0)) == 1


def test_facts_survive_plain_types():
    content = {"train": "ab", "valid": "cd", "test": "ef"}
    facts = ImageFacts(3, 32, ("a", "b"), {"train": 4, "valid": 1, "test": 1}, content)
    assert ImageFacts.from_mapping(facts.to_mapping()) == facts


def test_facts_of_an_earlier_version_have_no_hashes_and_still_serve():
    facts = task_of("cifar10").facts
    stored = facts.to_mapping()
    del stored["content"]
    old = ImageFacts.from_mapping(stored)
    assert old.content == {}
    assert old.is_same_data(facts)
    assert facts.is_same_data(facts)
    assert not old.is_same_data(replace(facts, samples={**facts.samples, "train": 44}))
    assert not facts.is_same_data(replace(facts, content={**facts.content, "test": "0"}))


@pytest.mark.parametrize(
    "changed",
    [
        lambda split: replace(
            split,
            images=split.images
            + (torch.arange(split.images.numel()) == 7).view_as(split.images).to(torch.uint8),
        ),
        lambda split: replace(split, labels=split.labels.flip(0)),
        lambda split: replace(split, labels=None),
        lambda split: replace(split, images=split.images.flip(0)),
        lambda split: replace(split, peak=254),
    ],
)
def test_one_changed_pixel_or_label_is_noticed(changed):
    task = task_of("cifar10-cls")
    before = task.facts
    split = task.split("valid")
    task.data = replace(task.data, valid=changed(split))
    after = task.read_facts()
    assert after.samples == before.samples
    assert not before.is_same_data(after)
    assert after.content["train"] == before.content["train"]
    assert f"valid 5 pictures (sha256 {after.content['valid'][:8]})" in after.summary
    assert split.content_hash == replace(split, names=("a",) * 5).content_hash


def test_an_epoch_has_every_sample_once_and_goes_on_where_it_stopped():
    task = task_of("cifar10")
    whole = task.training_batches(2, 0)
    ids = [sample for batch in whole for _, sample in batch]
    assert sorted(ids) == list(range(N_TRAIN))
    assert {epoch for batch in whole for epoch, _ in batch} == {2}
    assert task.training_batches(2, 16) == whole[2:]
    assert task.training_batches(2, N_TRAIN) == []
    assert task.training_batches(3, 0) != whole


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_an_evaluation_has_every_sample_once_in_order(batch_size):
    batches = task_of("cifar10").evaluation_batches("valid", batch_size)
    assert [sample for batch in batches for _, sample in batch] == list(range(N_VALID))
    assert all(len(batch) <= batch_size for batch in batches)


@pytest.mark.parametrize("name", ["validation", "", "Train"])
def test_other_splits_are_refused(name):
    with pytest.raises(UsageError, match="choose train, valid or test"):
        task_of("cifar10").split(name)


def test_the_reconstruction_loss_counts_hidden_numbers_alone():
    task = task_of("cifar10")
    model = task.build_model().double().eval()
    batch = move_batch(first_batch(task), next(model.parameters()))
    result = task.loss(model, batch)
    predicted = model(batch["images"], batch["hidden"])
    truth = patchify(batch["images"], 8)
    expected = (predicted - truth)[batch["hidden"]].square()
    assert result.items == expected.numel() == 8 * 8 * 192 == task.items(batch)
    assert result.total.item() == pytest.approx(expected.sum().item(), rel=1e-12)
    assert result.total.requires_grad


def test_a_nan_under_a_visible_patch_of_the_target_does_not_reach_the_loss():
    """Errors are selected, not multiplied by a mask: 0 times NaN would be NaN."""
    task = task_of("cifar10")
    batch = first_batch(task)

    def model(images, hidden):
        predicted = torch.zeros(len(images), 16, 192)
        predicted[~hidden] = float("nan")
        return predicted

    assert torch.isfinite(task.loss(model, batch).total)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_classification_loss_is_a_summed_cross_entropy(smoothing):
    task = task_of("cifar10-cls", **{"train.label_smoothing": smoothing})
    batch = first_batch(task)
    model = task.build_model().eval()
    result = task.loss(model, batch)
    logs = F.log_softmax(model(batch["images"]), dim=1)
    right = logs.gather(1, batch["labels"][:, None])[:, 0]
    expected = -((1 - smoothing) * right + smoothing * logs.mean(dim=1)).sum()
    assert result.items == 8
    assert result.total.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["cifar10", "cifar10-cls"])
def test_training_pictures_are_augmented_and_others_are_not(name):
    task = task_of(name)
    plain = first_batch(task, training=False)
    once, again = first_batch(task), first_batch(task)
    assert all(torch.equal(once[key], again[key]) for key in once)
    assert not torch.equal(once["images"], plain["images"])
    assert torch.equal(plain["images"] * 255, task.split("train").images[plain["ids"]].float())


def test_a_batch_moves_to_the_format_of_the_weights():
    batch = {"x": torch.zeros(2), "ids": torch.tensor([1]), "hidden": torch.tensor([True])}
    moved = move_batch(batch, torch.zeros(1, dtype=torch.float64))
    assert [moved[key].dtype for key in batch] == [torch.float64, torch.int64, torch.bool]


def test_the_data_are_read_once():
    task = task_of("cifar10")
    assert task.data is task.data
