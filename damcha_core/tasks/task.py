"""What every task gives to the training loop and to the evaluation.

The loop knows batches, models and summed losses; everything that depends on what is being
learnt stands behind this interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.utils.data import Dataset

from damcha_core.catalog.tasks import TaskRow
from damcha_core.config.schema import RunConfig
from damcha_core.data.image_data import Notify, no_notice
from damcha_core.data.order import SampleKey

Batch = dict[str, Tensor]


def move_batch(batch: Batch, like: Tensor) -> Batch:
    """A batch on the device of a tensor, floating tensors in its number format."""
    return {
        name: t.to(like.device, like.dtype if t.is_floating_point() else None)
        for name, t in batch.items()
    }


@dataclass(frozen=True)
class LossSum:
    """A loss summed over the items of a batch.

    The loop divides by the number of items of the whole update, so that splitting an update into
    micro-batches of any size changes nothing.
    """

    total: Tensor
    """Sum over the items, a scalar that gradients flow through."""
    items: int
    """What the loss is a sum over: hidden pixels, pictures, target tokens."""


@dataclass(frozen=True)
class TaskFacts:
    """What a model needs to know of its data; kept in the run folder, so it can be moved."""

    channels: int
    image_size: int
    class_names: tuple[str, ...] = ()
    samples: dict[str, int] = field(default_factory=dict)
    """Number of samples of each split."""

    def to_mapping(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return {**asdict(self), "class_names": list(self.class_names)}

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> TaskFacts:
        """The inverse of to_mapping.

        Raises:
            KeyError: there are no class names.
            TypeError: keys are missing or unknown, or a value is of another type.
            ValueError: a number is below 1.
        """
        facts = cls(**{**mapping, "class_names": tuple(mapping["class_names"])})
        if not all(isinstance(name, str) for name in facts.class_names):
            raise TypeError("class_names must be text")
        if not isinstance(facts.samples, dict):
            raise TypeError("samples must be numbers by split")
        for number in (facts.channels, facts.image_size, *facts.samples.values()):
            if type(number) is not int:
                raise TypeError(f"{number!r} where a whole number belongs")
            if number < 1:
                raise ValueError(f"{number} where a number of at least 1 belongs")
        return facts


class Task(ABC):
    """One thing to learn.

    Args:
        row: the task's row of the catalogue.
        config: the resolved settings of the run.
        facts: what a stored run knew of its data; None reads them from the data.
        notify: told how far reading or fetching the data has come.
    """

    unit: ClassVar[str] = "samples"
    """What metrics.jsonl counts for this task."""

    def __init__(
        self,
        row: TaskRow,
        config: RunConfig,
        *,
        facts: TaskFacts | None = None,
        notify: Notify = no_notice,
    ) -> None:
        self.row = row
        self.config = config
        self._facts = facts
        self.notify = notify

    @property
    def facts(self) -> TaskFacts:
        """Facts of the data, read on first use."""
        if self._facts is None:
            self._facts = self.read_facts()
        return self._facts

    @abstractmethod
    def read_facts(self) -> TaskFacts:
        """Facts from the data itself.

        Raises:
            DataError: the data set is missing or not what it claims to be.
        """

    @property
    @abstractmethod
    def notices(self) -> tuple[str, ...]:
        """Plain lines about the data that the user should see, such as skipped files."""

    @abstractmethod
    def build_model(self) -> nn.Module:
        """A fresh model, initialised from torch's global generator."""

    @abstractmethod
    def dataset(self, split: str, *, training: bool) -> Dataset[Batch]:
        """The samples of a split; training draws augmentation and masks anew each epoch."""

    @abstractmethod
    def training_batches(self, epoch: int, consumed: int) -> list[list[SampleKey]]:
        """The micro-batches of an epoch that are still to come after `consumed` samples."""

    @abstractmethod
    def evaluation_batches(self, split: str, batch_size: int) -> list[list[SampleKey]]:
        """Every sample of a split once, in order."""

    @abstractmethod
    def items(self, batch: Batch) -> int:
        """How many items the loss of this batch will be a sum over."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """Run the model on a batch and sum its loss."""
