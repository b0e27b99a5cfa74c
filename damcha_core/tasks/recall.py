"""Multi-query associative recall: a causal language model looks keys up in pairs it was shown.

Shape suffixes: B sequences, N tokens, T queries of a batch, V vocabulary.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import torch.nn.functional as F
from torch import nn

from damcha_core.catalog.loading import load
from damcha_core.data.order import SampleKey, batches, epoch_order
from damcha_core.data.recall import RecallDataset, RecallSplit
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.tasks.task import Batch, LossSum, Task, TaskFacts, require_counts


@dataclass(frozen=True)
class RecallFacts(TaskFacts):
    """What a model needs to know of its sequences, and what they were.

    Attributes:
        vocab_size: tokens of the vocabulary.
        samples: sequences of each split (for train: of an epoch).
        content: sha256 of valid and test. Training sequences depend on the seed and the epoch, and
            have none.
    """

    vocab_size: int
    samples: dict[str, int] = field(default_factory=dict)
    content: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """Sizes and the beginning of the hash of each split that has one."""
        hashes = {split: f" (sha256 {digest[:8]})" for split, digest in self.content.items()}
        return ", ".join(
            f"{split} {n} sequences{hashes.get(split, '')}" for split, n in self.samples.items()
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> RecallFacts:
        """The inverse of to_mapping.

        Raises:
            KeyError: there is no vocab_size.
            TypeError: a key is unknown, or a value is of another type.
            ValueError: a number is below 1.
        """
        if "vocab_size" not in mapping:
            raise KeyError("vocab_size")
        facts = cls(**mapping)
        if not isinstance(facts.samples, dict):
            raise TypeError("samples must be numbers by split")
        if not isinstance(facts.content, dict) or not all(
            isinstance(digest, str) for digest in facts.content.values()
        ):
            raise TypeError("content must be hashes by split")
        require_counts((facts.vocab_size, *facts.samples.values()))
        return facts


class RecallTask(Task):
    """Cross-entropy of the value that belongs to each key that is asked for."""

    facts_type = RecallFacts

    @property
    def facts(self) -> RecallFacts:
        """Facts of the sequences."""
        facts = super().facts
        assert isinstance(facts, RecallFacts)
        return facts

    @property
    def notices(self) -> tuple[str, ...]:
        """None: nothing is read."""
        return ()

    def split(self, name: str) -> RecallSplit:
        """The sequences of "train", "valid" or "test", as they are scored.

        Raises:
            UsageError: there is no such split.
        """
        return self._split(name, training=False)

    def _split(self, name: str, *, training: bool) -> RecallSplit:
        draw = load(self.row.data)
        split: RecallSplit = draw(self.config.data, name, self.config.run.seed, training=training)
        return split

    def content_hash(self, split: str) -> str:
        """sha256 of valid or test; none of train, which is drawn anew each epoch."""
        return "" if split == "train" else _content_hash(self.split(split))

    def read_facts(self) -> RecallFacts:
        """Size of the vocabulary, and sizes and content of the splits."""
        names = self.row.splits
        return RecallFacts(
            vocab_size=self.config.data.vocab_size,
            samples={name: len(self.split(name)) for name in names},
            content={name: self.content_hash(name) for name in names if name != "train"},
        )

    def build_model(self) -> nn.Module:
        """A fresh ConditionalLM."""
        return ConditionalLM(
            self.facts.vocab_size,
            transformer=self.build_transformer(),
            dropout=self.config.model.dropout,
        )

    def dataset(self, split: str, *, training: bool) -> RecallDataset:
        """Sequences with their answers; see RecallDataset. The key's epoch tells what is drawn."""
        return RecallDataset(self._split(split, training=training))

    def training_batches(self, epoch: int, consumed: int) -> list[list[SampleKey]]:
        """The rest of a shuffled epoch in micro-batches of train.batch_size."""
        order = epoch_order(self.config.run.seed, epoch, self.facts.samples["train"])
        return _keys(epoch, batches(order, consumed, self.config.train.batch_size))

    def evaluation_batches(self, split: str, batch_size: int) -> list[list[SampleKey]]:
        """Every sequence of a split once; of train those of epoch 0."""
        return _keys(0, batches(range(len(self.split(split))), 0, batch_size))

    def items(self, batch: Batch) -> int:
        """Queries."""
        return int(batch["scored"].sum())

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """Sum of the smoothed cross-entropies of the queries, in nats."""
        scored_BN = batch["scored"]
        logits_TV = model(batch["tokens"], where_BN=scored_BN)
        total = F.cross_entropy(
            logits_TV,
            batch["answers"][scored_BN],
            reduction="sum",
            label_smoothing=self.config.train.label_smoothing,
        )
        return LossSum(total, len(logits_TV))


@lru_cache(maxsize=16)
def _content_hash(split: RecallSplit) -> str:
    return split.content_hash()


def _keys(epoch: int, id_batches: list[list[int]]) -> list[list[SampleKey]]:
    return [[(epoch, sample) for sample in ids] for ids in id_batches]
