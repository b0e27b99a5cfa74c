"""Top-1, top-5 and cross entropy over a split.

A class ranks before the true one if its logit is larger, or equal with a smaller class index.
`top1` asks for rank 0 and `top5` for a rank below 5; with five classes or fewer every sample is
in the top 5. `loss` is the plain cross entropy in nats, without label smoothing.

Legend: B batch, L classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from damcha_core.errors import NonFiniteError, ShapeError
from damcha_core.evaluate.picture_sums import as_float64
from damcha_core.evaluate.sample_scores import SampleScores, Score, Value


def cross_entropy(logits: Sequence[float], label: int) -> float:
    """Cross entropy log(sum(exp(logits))) - logits[label] of one sample.

    Args:
        logits: one a class.
        label: index of the true class.

    Returns:
        Nats, at least 0; NaN if a logit is NaN or plus infinity, infinity if the true class has
        minus infinity.
    """
    largest = max(logits)
    if not math.isfinite(largest) or any(map(math.isnan, logits)):
        return math.nan
    # One correctly rounded sum a sample; a batched one could round differently by batch size.
    return math.log(math.fsum(math.exp(x - largest) for x in logits)) - (logits[label] - largest)


def true_class_ranks(logits_BL: Tensor, labels_B: Tensor) -> Tensor:
    """How many classes rank before the true one; see the tie rule of this file.

    Args:
        logits_BL: no NaN.
        labels_B: int64 in [0, L).

    Returns:
        (B) int64 in [0, L).
    """
    true_B1 = logits_BL.gather(1, labels_B[:, None])
    earlier_BL = torch.arange(logits_BL.shape[1], device=logits_BL.device) < labels_B[:, None]
    return ((logits_BL > true_B1) | ((logits_BL == true_B1) & earlier_BL)).sum(dim=1)


class ClassificationScores:
    """Collects the scores of a split, batch by batch, kept by sample id.

    Neither the batch size nor the order of the samples changes a bit of the result.
    """

    def __init__(self) -> None:
        self._table = SampleScores(("top1", "top5", "loss", "predicted", "label"))

    def update(self, ids: Sequence[int], logits_BL: Tensor, labels_B: Tensor) -> None:
        """Score a batch.

        Args:
            ids: the samples' ids in the split.
            logits_BL: any floating dtype.
            labels_B: integers, the true classes.

        Raises:
            ShapeError: ids, logits and labels do not fit each other.
            TypeError: logits of integers.
            ValueError: a label outside [0, L), or a sample that was scored before.
            NonFiniteError: a loss that is NaN or infinite.
        """
        if (
            logits_BL.ndim != 2
            or labels_B.ndim != 1
            or not len(ids) == len(logits_BL) == len(labels_B)
        ):
            raise ShapeError(
                f"{len(ids)} ids, logits {tuple(logits_BL.shape)} and labels "
                f"{tuple(labels_B.shape)} do not fit: (batch), (batch, classes) and (batch)."
            )
        logits_BL, labels_B = as_float64(logits_BL), labels_B.cpu().long()
        logits, labels = logits_BL.tolist(), labels_B.tolist()
        n_classes = logits_BL.shape[1]
        for sample_id, label in zip(ids, labels, strict=True):
            if not 0 <= label < n_classes:
                raise ValueError(
                    f"Sample {sample_id} has label {label}, but the model has classes 0 to "
                    f"{n_classes - 1}."
                )
        losses = list(map(cross_entropy, logits, labels))
        for sample_id, loss in zip(ids, losses, strict=True):
            if not math.isfinite(loss):
                raise NonFiniteError(
                    f"The loss of sample {sample_id} is {loss}; the model cannot be scored."
                )
        ranks = true_class_ranks(logits_BL, labels_B).tolist()
        self._table.add(
            ids,
            {
                "top1": [float(rank < 1) for rank in ranks],
                "top5": [float(rank < 5) for rank in ranks],
                "loss": losses,
                "predicted": [row.index(max(row)) for row in logits],
                "label": labels,
            },
        )

    def compute(self) -> dict[str, Score]:
        """Metrics of everything scored so far.

        Returns:
            `top1` and `top5` in [0, 1] and `loss` in nats, n the samples; None where n is 0.
        """
        return {name: self._table.mean(name) for name in ("top1", "top5", "loss")}

    def ids(self) -> list[int]:
        """Ids scored so far, ascending: the order of `per_image`."""
        return self._table.ids()

    def per_image(self) -> dict[str, list[Value]]:
        """The three values of every sample, in the order of `ids`."""
        return {name: self._table.column(name) for name in ("top1", "top5", "loss")}

    def classes(self) -> dict[str, list[Value]]:
        """The class that ranks first ("predicted") and the true one ("label"), as `per_image`."""
        return {name: self._table.column(name) for name in ("predicted", "label")}
