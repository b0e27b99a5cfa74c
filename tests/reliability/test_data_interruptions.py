"""R5: what a run sees over many interruptions is what an unbroken run sees, to the bit."""

from __future__ import annotations

import hashlib

import pytest
import torch

from damcha_core.data.augment import Augment
from damcha_core.data.image_data import ImageSplit
from damcha_core.data.loader import make_loader
from damcha_core.data.order import batches, epoch_order
from damcha_core.data.reconstruction_dataset import ReconstructionDataset

N, BATCH_SIZE, EPOCHS, SEED = 67, 8, 3, 11


@pytest.fixture(scope="module")
def dataset():
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (N, 3, 12, 12), generator=random, dtype=torch.uint8)
    return ReconstructionDataset(
        ImageSplit(images),
        patch_size=3,
        mask_ratio=0.6,
        seed=SEED,
        training=True,
        augment=Augment(2, flip=True),
    )


def seen(dataset, epoch, consumed, *, workers, limit=None, order_epoch=None):
    """Fingerprint and ids of each batch from a position on."""
    order = epoch_order(SEED, epoch if order_epoch is None else order_epoch, N)
    keys = [[(epoch, i) for i in ids] for ids in batches(order, consumed, BATCH_SIZE)]
    for number, batch in enumerate(make_loader(dataset, keys, workers)):
        if limit is not None and number == limit:
            return
        content = hashlib.sha256()
        for name in ("images", "hidden", "ids"):
            content.update(batch[name].numpy().tobytes())
        yield content.hexdigest(), batch["ids"].tolist()


@pytest.fixture(scope="module")
def unbroken(dataset):
    return [list(seen(dataset, epoch, 0, workers=0)) for epoch in range(EPOCHS)]


def test_each_id_once_an_epoch_and_other_pixels_in_the_next(unbroken):
    for epoch in unbroken:
        assert sorted(i for _, ids in epoch for i in ids) == list(range(N))
        assert len(epoch[-1][1]) == N % BATCH_SIZE
    assert len({batch for epoch in unbroken for batch, _ in epoch}) == EPOCHS * len(unbroken[0])


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_ten_interruptions(dataset, unbroken, workers):
    stops = [0, 1, 1, 2, 0, 3, 1, 4, 2, 1]  # batches made before each interruption
    found, epoch, consumed, done = [[] for _ in range(EPOCHS)], 0, 0, 0
    while epoch < EPOCHS:
        limit = stops[done] if done < len(stops) else None
        for batch, ids in seen(dataset, epoch, consumed, workers=workers, limit=limit):
            found[epoch].append((batch, ids))
            consumed += len(ids)
        done += 1
        if consumed == N:
            epoch, consumed = epoch + 1, 0
    assert done > len(stops)
    assert found == unbroken


def test_control_that_forgets_the_position_differs(dataset, unbroken):
    again = list(seen(dataset, 0, 0, workers=0, limit=3))
    assert unbroken[0][:3] + again != unbroken[0][:6]


def test_control_that_replays_the_first_order_differs(dataset, unbroken):
    replayed = list(seen(dataset, 1, 0, workers=0, order_epoch=0))
    assert replayed != unbroken[1]
