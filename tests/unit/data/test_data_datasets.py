"""Batches are a pure function of (seed, epoch, id)."""

from __future__ import annotations

import pytest
import torch

from damcha_core.data.augment import Augment
from damcha_core.data.image_data import ImageSplit
from damcha_core.data.labelled_dataset import LabelledDataset
from damcha_core.data.reconstruction_dataset import ReconstructionDataset

N = 13
SIDE = 8
MOVED = Augment(2, flip=True)


@pytest.fixture
def split():
    images = torch.randint(
        0, 256, (N, 3, SIDE, SIDE), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    return ImageSplit(images, torch.arange(N) % 4)


def reconstruction(split, *, seed=1, training=True, augment=MOVED, ratio=0.5):
    return ReconstructionDataset(
        split, patch_size=2, mask_ratio=ratio, seed=seed, training=training, augment=augment
    )


def test_shapes_and_types(split):
    batch = reconstruction(split).__getitems__([(0, 3), (0, 7), (4, 3)])
    assert batch["images"].shape == (3, 3, SIDE, SIDE)
    assert batch["images"].dtype == torch.float32
    assert batch["hidden"].shape == (3, 16)
    assert batch["hidden"].dtype == torch.bool
    assert batch["ids"].tolist() == [3, 7, 3]
    labelled = LabelledDataset(split, seed=1, training=False)
    batch = labelled.__getitems__([(0, 5), (0, 2)])
    assert batch["labels"].tolist() == [1, 2]
    assert batch["labels"].dtype == torch.int64
    assert len(labelled) == len(reconstruction(split)) == N


@pytest.mark.parametrize("training", [True, False])
def test_a_sample_does_not_depend_on_its_batch(split, training):
    dataset = reconstruction(split, training=training)
    keys = [(2, i) for i in range(N)]
    together = dataset.__getitems__(keys)
    for i, key in enumerate(keys):
        alone = dataset[key]
        for name, value in together.items():
            assert torch.equal(alone[name][0], value[i])


def test_training_changes_with_epoch_and_seed(split):
    keys = [(0, i) for i in range(N)]
    base = reconstruction(split).__getitems__(keys)
    for other in (
        reconstruction(split).__getitems__([(1, i) for i in range(N)]),
        reconstruction(split, seed=2).__getitems__(keys),
    ):
        assert not torch.equal(base["images"], other["images"])
        assert not torch.equal(base["hidden"], other["hidden"])


def test_masks_do_not_depend_on_augmentation(split):
    keys = [(3, i) for i in range(N)]
    plain = reconstruction(split, augment=None).__getitems__(keys)
    assert torch.equal(plain["hidden"], reconstruction(split).__getitems__(keys)["hidden"])


def test_evaluation_masks_depend_on_seed_and_id_alone(split):
    first = reconstruction(split, training=False).__getitems__([(0, i) for i in range(N)])
    later = reconstruction(split, training=False).__getitems__([(9, i) for i in range(N)])
    assert torch.equal(first["hidden"], later["hidden"])
    assert torch.equal(first["images"], split.images / 255)
    other = reconstruction(split, training=False, seed=2).__getitems__([(0, i) for i in range(N)])
    assert not torch.equal(first["hidden"], other["hidden"])


@pytest.mark.parametrize(("ratio", "count"), [(0.0, 0), (0.5, 8), (1.0, 16)])
def test_number_of_hidden_patches_is_known(split, ratio, count):
    dataset = reconstruction(split, ratio=ratio)
    assert (dataset.n_patches, dataset.n_hidden) == (16, count)
    assert dataset[(0, 0)]["hidden"].sum() == count


def test_peak_stands_for_one():
    images = torch.tensor([0, 8, 16, 4], dtype=torch.uint8).view(1, 1, 2, 2)
    dataset = LabelledDataset(
        ImageSplit(images, torch.zeros(1).long(), peak=16), seed=0, training=True
    )
    assert dataset[(0, 0)]["images"].flatten().tolist() == [0, 0.5, 1, 0.25]


def test_evaluation_is_never_augmented(split):
    dataset = LabelledDataset(split, seed=0, training=False, augment=Augment(2, flip=True))
    assert torch.equal(dataset[(0, 4)]["images"][0], split.images[4] / 255)


def test_wrong_settings_are_refused(split):
    for patch_size in (3, 0):
        with pytest.raises(ValueError, match="must divide the image side 8"):
            ReconstructionDataset(
                split, patch_size=patch_size, mask_ratio=0.5, seed=0, training=True
            )
    with pytest.raises(ValueError, match="between 0 and 1"):
        reconstruction(split, ratio=1.5)
    with pytest.raises(ValueError, match="needs pictures with labels"):
        LabelledDataset(ImageSplit(split.images), seed=0, training=True)
