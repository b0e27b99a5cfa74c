"""Restoring single pictures, with their scores and the rows of a picture grid.

Shape suffixes: B batch, C channels, S picture side, P patches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from damcha_core.data.image_data import ImageSplit
from damcha_core.data.reconstruction_dataset import ReconstructionDataset
from damcha_core.evaluate.evaluator import Evaluation, reported_value
from damcha_core.evaluate.picture_grid import TITLES, GridGeometry, PictureRow
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

    def records(self, geometry: GridGeometry) -> list[dict[str, Any]]:
        """What is known of each picture, in plain types.

        Args:
            geometry: of the grid that shows the first of them.

        Returns:
            For each picture its name, its scores, and, where it is drawn, the box (left, top,
            right, bottom) of its panels in the grid.
        """
        records: list[dict[str, Any]] = [
            {
                "name": name,
                **{metric: reported_value(v[i]) for metric, v in self.per_picture.items()},
            }
            for i, name in enumerate(self.names)
        ]
        for record, boxes in zip(records, geometry.boxes, strict=False):
            record["panels"] = {t: list(box) for t, box in zip(TITLES, boxes, strict=True)}
        return records


def restore(
    task: ReconstructionTask,
    model: nn.Module,
    pictures: ImageSplit,
    *,
    mean_picture_CSS: Tensor,
    split_name: str,
    one_mask: bool = False,
) -> Restoration:
    """Hide patches of pictures and paint them with a model.

    The mask of a picture is a function of run.seed and its place among the pictures, as it is in
    an evaluation.

    Args:
        task: gives patch size, mask ratio and seed.
        model: a masked image model.
        pictures: at least one.
        mean_picture_CSS: mean training picture, for the floors.
        split_name: what the report calls these pictures.
        one_mask: True hides the patches of the first place in all of them, so that the result of
            a picture depends on no other.
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
        images_BCSS, hidden_BP = batch["images"].to(parameter), batch["hidden"]
        if one_mask:
            hidden_BP = dataset[0, 0]["hidden"].expand_as(hidden_BP)
        hidden_BP = hidden_BP.to(parameter.device)
        with torch.no_grad():
            predicted_BCSS = evaluator.predict(model, images_BCSS, hidden_BP)
        evaluator.score(batch["ids"].tolist(), images_BCSS, predicted_BCSS, hidden_BP)
        pixels_B1SS = hidden_pixels(hidden_BP.cpu(), config.model.patch_size, images_BCSS.shape[-1])
        rows += list(zip(images_BCSS.cpu(), predicted_BCSS.cpu(), pixels_B1SS, strict=True))
    per_picture = evaluator.scores.per_image()
    names = pictures.names or tuple(str(i) for i in range(len(pictures)))
    captions = map(_caption, names, per_picture["masked_psnr"])
    return Restoration(
        rows=tuple(PictureRow(*row, caption) for row, caption in zip(rows, captions, strict=True)),
        names=names,
        evaluation=evaluator.result(split_name),
        per_picture=per_picture,
        n_hidden=dataset.n_hidden,
        n_patches=dataset.n_patches,
    )


def _caption(name: str, masked_psnr: float | None) -> tuple[str, ...]:
    return (name,) if masked_psnr is None else (name, f"masked PSNR {masked_psnr:.2f} dB")
