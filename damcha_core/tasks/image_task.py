"""What the picture tasks share: their data, their epochs and their Transformer stack."""

from __future__ import annotations

import errno
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from damcha_core.catalog.loading import load
from damcha_core.data.image_data import ImageData, ImageSplit
from damcha_core.data.order import SampleKey, batches, epoch_order
from damcha_core.errors import DataError, UsageError
from damcha_core.files import printable_name
from damcha_core.tasks.task import Task, TaskFacts, require_counts


@dataclass(frozen=True)
class ImageFacts(TaskFacts):
    """What a model needs to know of its pictures, and what they were.

    Attributes:
        channels: colour channels.
        image_size: side in pixels.
        class_names: by class number; empty where there are no classes.
        samples: pictures of each split.
        content: sha256 of each split; empty in runs that an earlier version started.
    """

    channels: int
    image_size: int
    class_names: tuple[str, ...] = ()
    samples: dict[str, int] = field(default_factory=dict)
    content: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """Size and the beginning of the hash of each split, and the number of classes."""
        hashes = {split: f" (sha256 {digest[:8]})" for split, digest in self.content.items()}
        sizes = [
            f"{split} {n} pictures{hashes.get(split, '')}" for split, n in self.samples.items()
        ]
        return ", ".join([*sizes, f"{len(self.class_names)} classes"])

    def is_same_data(self, present: ImageFacts) -> bool:
        """Whether all is equal, the hashes only where both have them."""
        if not (self.content and present.content):
            return replace(self, content={}) == replace(present, content={})
        return self == present

    def to_mapping(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return {**asdict(self), "class_names": list(self.class_names)}

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> ImageFacts:
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
        if not isinstance(facts.content, dict) or not all(
            isinstance(digest, str) for digest in facts.content.values()
        ):
            raise TypeError("content must be hashes by split")
        require_counts((facts.channels, facts.image_size, *facts.samples.values()))
        return facts


class ImageTask(Task):
    """A task on square pictures."""

    facts_type = ImageFacts

    @property
    def facts(self) -> ImageFacts:
        """Facts of the pictures, read on first use."""
        facts = super().facts
        assert isinstance(facts, ImageFacts)
        return facts

    @cached_property
    def data(self) -> ImageData:
        """All splits in memory, read on first use."""
        settings = self.config.data
        try:
            data: ImageData = load(self.row.data)(
                root=settings.root,
                image_size=settings.image_size,
                verify=settings.verify,
                classes=self.needs_classes,
                notify=self.notify,
            )
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            place = settings.root if error.filename is None else error.filename
            raise DataError(f"{printable_name(place)}: cannot be read: {error.strerror}") from error
        return data

    needs_classes = False

    @property
    def notices(self) -> tuple[str, ...]:
        """Plain lines about the data, such as skipped files."""
        return tuple(self.data.notices)

    def split(self, name: str) -> ImageSplit:
        """The pictures of "train", "valid" or "test"."""
        if name not in ("train", "valid", "test"):
            raise UsageError(f"no split {name!r}: choose train, valid or test")
        split: ImageSplit = getattr(self.data, name)
        return split

    def content_hash(self, split: str) -> str:
        """sha256 of pictures and classes of a split."""
        return self.split(split).content_hash

    def read_facts(self) -> ImageFacts:
        """Channels, side and classes, and sizes and content of the splits."""
        train = self.split("train")
        splits = {name: self.split(name) for name in ("train", "valid", "test")}
        return ImageFacts(
            channels=train.images.shape[1],
            image_size=train.images.shape[-1],
            class_names=tuple(self.data.class_names),
            samples={name: len(split) for name, split in splits.items()},
            content={name: split.content_hash for name, split in splits.items()},
        )

    def training_batches(self, epoch: int, consumed: int) -> list[list[SampleKey]]:
        """The rest of a shuffled epoch in micro-batches of train.batch_size."""
        order = epoch_order(self.config.run.seed, epoch, self.facts.samples["train"])
        return _keys(epoch, batches(order, consumed, self.config.train.batch_size))

    def evaluation_batches(self, split: str, batch_size: int) -> list[list[SampleKey]]:
        """Every picture of a split once, in file order."""
        return _keys(0, batches(range(len(self.split(split))), 0, batch_size))


def _keys(epoch: int, id_batches: list[list[int]]) -> list[list[SampleKey]]:
    return [[(epoch, sample) for sample in ids] for ids in id_batches]
