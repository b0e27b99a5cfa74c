"""Pictures of a batch as floats, augmented where the caller trains.

Letters: B batch, C channels, S image side.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from damcha_core.data.augment import N_DRAWS, Augment
from damcha_core.data.image_data import ImageSplit
from damcha_core.data.order import SampleKey
from damcha_core.data.randomness import raw_draws


def image_batch(
    split: ImageSplit, keys: Sequence[SampleKey], *, seed: int, augment: Augment | None
) -> Tensor:
    """Pictures of the keys, a function of (seed, epoch, id) and of nothing else.

    Args:
        split: where the pictures are.
        keys: (epoch, id) of each picture.
        seed: the run's seed.
        augment: change the pictures so; None leaves them as they are.

    Returns:
        float32 (B, C, S, S), between 0 and 1.
    """
    images_BCSS = split.images[torch.tensor([sample for _, sample in keys], dtype=torch.int64)]
    if augment is not None and not augment.changes_nothing:
        rows = [(seed, epoch, sample) for epoch, sample in keys]
        images_BCSS = augment(images_BCSS, raw_draws("augment", rows, N_DRAWS))
    return images_BCSS.to(torch.float32).div_(split.peak)
