"""What every task gives to the training loop and to the evaluation.

The loop knows batches, models and summed losses; everything that depends on what is being
learnt stands behind this interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn
from torch.utils.data import Dataset

from damcha_core.catalog.tasks import TaskRow
from damcha_core.config.controls import as_built
from damcha_core.config.schema import RunConfig
from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.order import SampleKey
from damcha_core.models.transformer import TransformerPC

if TYPE_CHECKING:
    from typing_extensions import Self

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


class TaskFacts(ABC):
    """What a model needs to know of its data; kept in the run folder, so it can be moved."""

    samples: dict[str, int]
    """Number of samples of each split."""
    content: dict[str, str]
    """sha256 of each split; empty in runs that an earlier version started."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The data in a few words, for a message about data that changed."""

    def is_same_data(self, present: Self) -> bool:
        """Whether these other facts can be of the same data."""
        return self == present

    @abstractmethod
    def to_mapping(self) -> dict[str, Any]:
        """Plain types for JSON."""

    @classmethod
    @abstractmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> Self:
        """The inverse of to_mapping.

        Raises:
            KeyError: a key is missing.
            TypeError: keys are missing or unknown, or a value is of another type.
            ValueError: a value is out of its range.
        """


def require_counts(numbers: Iterable[Any]) -> None:
    """Check numbers that were read from a file.

    Raises:
        TypeError: one is no whole number.
        ValueError: one is below 1.
    """
    for number in numbers:
        if type(number) is not int:
            raise TypeError(f"{number!r} where a whole number belongs")
        if number < 1:
            raise ValueError(f"{number} where a number of at least 1 belongs")


class Task(ABC):
    """One thing to learn.

    Args:
        row: the task's row of the catalogue.
        config: the resolved settings of the run.
        facts: what a stored run knew of its data; None reads them from the data.
        assets: what a stored run kept of its data as files, by name; None makes them from the
            data.
        notify: told how far reading or fetching the data has come.
    """

    unit: ClassVar[str] = "samples"
    """What metrics.jsonl counts for this task."""
    facts_type: ClassVar[type[TaskFacts]]
    """The facts of its data."""
    asset_names: ClassVar[tuple[str, ...]] = ()
    """Files that a run keeps of its data, because the model is of no use without them."""

    def __init__(
        self,
        row: TaskRow,
        config: RunConfig,
        *,
        facts: TaskFacts | None = None,
        assets: Mapping[str, bytes] | None = None,
        notify: Notify = no_notice,
    ) -> None:
        self.row = row
        self.config = config
        self._facts = facts
        self._assets = assets
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
    def assets(self) -> Mapping[str, bytes]:
        """The content of each of asset_names, made from the data where no run kept them."""
        return {}

    def content_hash(self, split: str) -> str:
        """sha256 of a split as it is now; empty where that is not known."""
        return ""

    def has_changed(self, split: str) -> bool:
        """Whether a split is not the one that the run was started with."""
        stored, present = self.facts.content.get(split, ""), self.content_hash(split)
        return bool(stored and present) and stored != present

    def origin(self, split: str) -> dict[str, str]:
        """What a split is made from, by name; it is stated beside its scores."""
        return {}

    def split_notices(self, split: str) -> tuple[str, ...]:
        """Plain lines about one split that a reader of its scores should see."""
        return ()

    @property
    @abstractmethod
    def notices(self) -> tuple[str, ...]:
        """Plain lines about the data that the user should see, such as skipped files."""

    @abstractmethod
    def build_model(self) -> nn.Module:
        """A fresh model, initialised from torch's global generator."""

    def build_transformer(self) -> TransformerPC:
        """The stack that model.* and attention.* of the run file describe."""
        config = as_built(self.config)
        model, attention = config.model, config.attention
        return TransformerPC(
            model.d_model,
            model.n_heads,
            model.d_ff,
            model.n_layers,
            attention=attention.name,
            attention_options=attention.option_values(),
            is_causal=model.causal,
            dropout=model.dropout,
        )

    @abstractmethod
    def dataset(self, split: str, *, training: bool) -> Dataset[Batch]:
        """The samples of a split; training draws augmentation and masks anew each epoch."""

    @abstractmethod
    def training_batches(self, epoch: int, consumed: int) -> Sequence[list[SampleKey]]:
        """The micro-batches of an epoch that are still to come after `consumed` samples."""

    @abstractmethod
    def evaluation_batches(self, split: str, batch_size: int) -> Sequence[list[SampleKey]]:
        """Every sample of a split once."""

    def size(self, batch: Batch) -> int:
        """How much of `unit` a batch holds."""
        return len(batch["ids"])

    @abstractmethod
    def items(self, batch: Batch) -> int:
        """How many items the loss of this batch will be a sum over."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """Run the model on a batch and sum its loss."""
