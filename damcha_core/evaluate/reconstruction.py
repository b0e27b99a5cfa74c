"""Scoring masked reconstruction, with the trivial answers beside the model's."""

from __future__ import annotations

from torch import Tensor, nn

from damcha_core.evaluate.evaluator import Evaluation, Evaluator, with_units
from damcha_core.evaluate.floors import FLOOR_NAMES, floor_predictions, mean_picture
from damcha_core.evaluate.item_lines import item_lines
from damcha_core.evaluate.reconstruction_scores import ReconstructionScores, hidden_pixels
from damcha_core.models.patches import unpatchify
from damcha_core.tasks.reconstruction import ReconstructionTask
from damcha_core.tasks.task import Batch


class ReconstructionEvaluator(Evaluator):
    """Errors on hidden pixels, PSNR and SSIM on the composite; see reconstruction_scores.

    Args:
        task: a reconstruction task.
    """

    task: ReconstructionTask

    def prepare(self, split: str, *, for_report: bool) -> None:
        """Forget earlier batches."""
        self.begin(training_mean(self.task) if for_report else None)
        self.keeps_items = for_report

    def begin(self, mean_picture_CSS: Tensor | None) -> None:
        """Forget earlier batches; with a mean training picture the floors are scored too."""
        self.keeps_items = False
        patch_size = self.task.config.model.patch_size
        self.mean_picture = mean_picture_CSS
        self.scores = ReconstructionScores(patch_size)
        names = FLOOR_NAMES if mean_picture_CSS is not None else ()
        self.floor_scores = {name: ReconstructionScores(patch_size) for name in names}

    def update(self, model: nn.Module, batch: Batch) -> None:
        """Predict the hidden patches of a batch and score them."""
        images_BCSS, hidden_BP = batch["images"], batch["hidden"]
        predicted_BCSS = self.predict(model, images_BCSS, hidden_BP)
        self.score(batch["ids"].tolist(), images_BCSS, predicted_BCSS, hidden_BP)

    def predict(self, model: nn.Module, images_BCSS: Tensor, hidden_BP: Tensor) -> Tensor:
        """The model's pictures [B, C, S, S], not clipped, visible patches included."""
        patches_BPE = model(images_BCSS, hidden_BP)
        patch_size = self.task.config.model.patch_size
        return unpatchify(patches_BPE, patch_size, images_BCSS.shape[1])

    def score(
        self, ids: list[int], images_BCSS: Tensor, predicted_BCSS: Tensor, hidden_BP: Tensor
    ) -> None:
        """Score predictions, and the floors where they are wanted."""
        self.scores.update(ids, images_BCSS, predicted_BCSS, hidden_BP)
        if self.mean_picture is None:
            return
        patch_size, side = self.task.config.model.patch_size, images_BCSS.shape[-1]
        hidden_B1SS = hidden_pixels(hidden_BP.cpu(), patch_size, side)
        floors = floor_predictions(images_BCSS.cpu(), hidden_B1SS, self.mean_picture)
        for name, floor_BCSS in floors.items():
            self.floor_scores[name].update(ids, images_BCSS, floor_BCSS, hidden_BP)

    def result(self, split: str) -> Evaluation:
        """Scores of everything since prepare."""
        metrics = with_units(self.scores.compute(), self.task.row.metrics)
        return Evaluation(
            split=split,
            loss=metrics["masked_mse"].value,
            size=len(self.scores.ids()),
            metrics=metrics,
            details={
                "mask_ratio": self.task.config.data.mask_ratio,
                "ssim_window": self.scores.window,
                "identical_pictures": self.scores.n_identical,
            },
            floors={
                name: with_units(scores.compute(), self.task.row.metrics)
                for name, scores in self.floor_scores.items()
            },
            files={"jsonl": self._item_lines(split)} if self.keeps_items else {},
        )

    def _item_lines(self, split: str) -> str:
        per_image = self.scores.per_image()
        return item_lines(
            self.scores.ids(),
            self.task.split(split).names,
            scores={spec.name: per_image[spec.name] for spec in self.task.row.metrics},
            sums=self.scores.sums(),
        )


def training_mean(task: ReconstructionTask) -> Tensor:
    """Mean training picture [C, S, S] of a task, float64 in [0, 1]."""
    train = task.split("train")
    return mean_picture(train.images, train.peak)
