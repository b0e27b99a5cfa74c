"""What the picture tasks share: their data, their epochs and their Transformer stack."""

from __future__ import annotations

import errno
from functools import cached_property

from damcha_core.catalog.loading import load
from damcha_core.config.controls import as_built
from damcha_core.data.file_name import printable_name
from damcha_core.data.image_data import ImageData, ImageSplit
from damcha_core.data.order import SampleKey, batches, epoch_order
from damcha_core.errors import DataError, UsageError
from damcha_core.models.transformer import TransformerPC
from damcha_core.tasks.task import Task, TaskFacts


class ImageTask(Task):
    """A task on square pictures."""

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

    def read_facts(self) -> TaskFacts:
        """Channels, side, classes and sizes of the splits."""
        train = self.split("train")
        return TaskFacts(
            channels=train.images.shape[1],
            image_size=train.images.shape[-1],
            class_names=tuple(self.data.class_names),
            samples={name: len(self.split(name)) for name in ("train", "valid", "test")},
        )

    def training_batches(self, epoch: int, consumed: int) -> list[list[SampleKey]]:
        """The rest of a shuffled epoch in micro-batches of train.batch_size."""
        order = epoch_order(self.config.run.seed, epoch, self.facts.samples["train"])
        return _keys(epoch, batches(order, consumed, self.config.train.batch_size))

    def evaluation_batches(self, split: str, batch_size: int) -> list[list[SampleKey]]:
        """Every picture of a split once, in file order."""
        return _keys(0, batches(range(len(self.split(split))), 0, batch_size))

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


def _keys(epoch: int, id_batches: list[list[int]]) -> list[list[SampleKey]]:
    return [[(epoch, sample) for sample in ids] for ids in id_batches]
