"""Restoring single pictures, with their scores and the rows of a picture grid.

Shape suffixes: B batch, C channels, S picture side, P patches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torchvision.transforms.v2 import functional

from damcha_core.data.image_data import ImageSplit
from damcha_core.data.picture import PictureError, open_rgb
from damcha_core.data.reconstruction_dataset import ReconstructionDataset
from damcha_core.errors import DataError
from damcha_core.evaluate.evaluator import Evaluation
from damcha_core.evaluate.picture_grid import PictureRow
from damcha_core.evaluate.reconstruction import ReconstructionEvaluator
from damcha_core.evaluate.reconstruction_scores import hidden_pixels
from damcha_core.tasks.reconstruction import ReconstructionTask


@dataclass(frozen=True)
class Restoration:
    """Restored pictures.

    Attributes:
        rows: for the picture grid.
        names: one a picture.
        evaluation: scores over these pictures alone, floors included.
        per_picture: metric name to one value a picture.
        n_hidden: hidden patches in each picture.
        n_patches: patches of each picture.
    """

    rows: tuple[PictureRow, ...]
    names: tuple[str, ...]
    evaluation: Evaluation
    per_picture: dict[str, list[float | None]]
    n_hidden: int
    n_patches: int


def open_pictures(
    paths: Sequence[Path], *, image_size: int, channels: int
) -> tuple[ImageSplit, tuple[str, ...]]:
    """Picture files as a split of their own.

    Args:
        paths: the files.
        image_size: side they are brought to, in pixels.
        channels: 3 for RGB, 1 for grey.

    Returns:
        The pictures that could be read, and a line for each that could not.

    Raises:
        DataError: none could be read.
    """
    images, names, notices = [], [], []
    for path in paths:
        try:
            image_CSS = open_rgb(path, image_size)
        except PictureError as error:
            notices.append(f"skipped {error}")
            continue
        images.append(functional.rgb_to_grayscale(image_CSS) if channels == 1 else image_CSS)
        names.append(path.name)
    if not images:
        raise DataError("no picture could be read:\n" + "\n".join(notices))
    return ImageSplit(torch.stack(images), names=tuple(names)), tuple(notices)


def first_pictures(split: ImageSplit, count: int, split_name: str) -> ImageSplit:
    """The first pictures of a split, named after their place in it."""
    count = min(count, len(split))
    names = split.names or tuple(f"{split_name} {i}" for i in range(len(split)))
    return ImageSplit(split.images[:count], peak=split.peak, names=names[:count])


def restore(
    task: ReconstructionTask,
    model: nn.Module,
    pictures: ImageSplit,
    *,
    mean_picture_CSS: Tensor,
    split_name: str,
) -> Restoration:
    """Hide patches of pictures and paint them with a model.

    The mask of a picture is a function of run.seed and its place among the pictures.

    Args:
        task: gives patch size, mask ratio and seed.
        model: a masked image model.
        pictures: at least one.
        mean_picture_CSS: mean training picture, for the floors.
        split_name: what the report calls these pictures.
    """
    config = task.config
    dataset = ReconstructionDataset(
        pictures,
        patch_size=config.model.patch_size,
        mask_ratio=config.data.mask_ratio,
        seed=config.run.seed,
        training=False,
    )
    parameter = next(model.parameters())
    evaluator = ReconstructionEvaluator(task)
    evaluator.begin(mean_picture_CSS)
    rows = []
    for start in range(0, len(pictures), config.eval.batch_size):
        stop = min(start + config.eval.batch_size, len(pictures))
        batch = dataset.__getitems__([(0, i) for i in range(start, stop)])
        images_BCSS = batch["images"].to(parameter)
        hidden_BP = batch["hidden"].to(parameter.device)
        with torch.no_grad():
            predicted_BCSS = evaluator.predict(model, images_BCSS, hidden_BP)
        evaluator.score(batch["ids"].tolist(), images_BCSS, predicted_BCSS, hidden_BP)
        pixels_B1SS = hidden_pixels(
            batch["hidden"], config.model.patch_size, images_BCSS.shape[-1]
        )
        rows += [
            PictureRow(image.cpu(), predicted.cpu(), pixels)
            for image, predicted, pixels in zip(
                images_BCSS, predicted_BCSS, pixels_B1SS, strict=True
            )
        ]
    per_picture = evaluator.scores.per_image()
    names = pictures.names or tuple(str(i) for i in range(len(pictures)))
    captioned = tuple(
        PictureRow(row.original, row.predicted, row.hidden, _caption(name, decibels))
        for row, name, decibels in zip(rows, names, per_picture["masked_psnr"], strict=True)
    )
    return Restoration(
        rows=captioned,
        names=names,
        evaluation=evaluator.result(split_name),
        per_picture=per_picture,
        n_hidden=dataset.n_hidden,
        n_patches=dataset.n_patches,
    )


def _caption(name: str, masked_psnr: float | None) -> tuple[str, ...]:
    return (name,) if masked_psnr is None else (name, f"masked PSNR {masked_psnr:.2f} dB")
