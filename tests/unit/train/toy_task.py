"""A task small enough to check every number of an update by hand.

Letters: B batch, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from damcha_core.attention.parameter_groups import Factors
from damcha_core.catalog.tasks import task_row
from damcha_core.config.resolve import resolve
from damcha_core.config.schema import TrainSection
from damcha_core.data.order import SampleKey
from damcha_core.tasks.image_task import ImageFacts
from damcha_core.tasks.task import Batch, LossSum, Task
from damcha_core.train.learner import Learner
from damcha_core.train.precision import Precision

N_FEATURES = 5
CPU = torch.device("cpu")


class ToyModel(nn.Module):
    """Two linear layers with dropout between; the first counts three times in the norm."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = ToyLinear(N_FEATURES, 4)
        self.dropout = nn.Dropout(dropout)
        self.second = nn.Linear(4, 2)

    def forward(self, x_BF: Tensor) -> Tensor:
        return self.second(self.dropout(torch.tanh(self.first(x_BF))))


class ToyLinear(nn.Linear):
    """A linear layer whose weight stands for three equal blocks."""

    def parameter_factors(self) -> dict[str, Factors]:
        return {"weight": Factors(lr=3.0, decay=1.0 / 3.0, norm=3.0)}


class ToyTask(Task):
    """Squared error of random targets; a sample counts as many items as its id says."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__(task_row("digits"), resolve())
        self.dropout = dropout

    def read_facts(self) -> ImageFacts:
        return ImageFacts(1, 8, (), {"train": 16, "valid": 1, "test": 1})

    @property
    def notices(self) -> tuple[str, ...]:
        return ()

    def build_model(self) -> nn.Module:
        return ToyModel(self.dropout)

    def dataset(self, split: str, *, training: bool) -> Dataset[Batch]:
        raise NotImplementedError

    def training_batches(self, epoch: int, consumed: int) -> list[list[SampleKey]]:
        raise NotImplementedError

    def evaluation_batches(self, split: str, batch_size: int) -> list[list[SampleKey]]:
        raise NotImplementedError

    def items(self, batch: Batch) -> int:
        return int((batch["ids"] + 1).sum())

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        error_BF = model(batch["images"]) - batch["targets"]
        weights_B1 = (batch["ids"] + 1)[:, None]
        return LossSum((weights_B1 * error_BF.square()).sum(), self.items(batch))


def toy_batch(ids: Sequence[int]) -> Batch:
    """Samples by id, the same whatever batch they come in."""
    rows = [torch.randn(7, generator=torch.Generator().manual_seed(i)).double() for i in ids]
    values = torch.stack(rows)
    return {
        "images": values[:, :N_FEATURES],
        "targets": values[:, N_FEATURES:],
        "ids": torch.tensor(list(ids)),
    }


def toy_settings(**changes: Any) -> TrainSection:
    """Settings with a fixed horizon and everything else off."""
    off: dict[str, Any] = {
        "train.horizon_steps": 40,
        "train.warmup_steps": 0,
        "train.weight_decay": 0.1,
        "train.clip_norm": 0.0,
        "train.lr": 0.01,
        "train.min_lr_ratio": 0.1,
        "train.ema_decay": 0.0,
    }
    return resolve(None, [], {**off, **{f"train.{k}": v for k, v in changes.items()}}).train


def toy_learner(
    *, dropout: float = 0.0, precision: str = "float64", seed: int = 0, **changes: Any
) -> Learner:
    """A learner of the toy task, in float64 unless told otherwise."""
    torch.manual_seed(seed)
    task = ToyTask(dropout)
    return Learner(
        task,
        task.build_model(),
        settings=toy_settings(**changes),
        precision=Precision(precision, CPU),
    )
