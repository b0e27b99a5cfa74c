"""Text from text: translation and concept-to-text, with one conditional language model.

Shape suffixes: B pairs, N tokens, T scored tokens, V vocabulary.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any

from torch import nn
from torch.nn.functional import cross_entropy

from damcha_core.catalog.loading import load
from damcha_core.data.order import SampleKey
from damcha_core.data.text.encoded_pairs import EncodedPairs, encode_pairs
from damcha_core.data.text.pairs import TextData
from damcha_core.data.text.questions import Question, questions
from damcha_core.data.text.text_cache import TextCache
from damcha_core.data.text.text_dataset import TextDataset
from damcha_core.data.text.token_batches import bucketed_batches, length_sorted_batches
from damcha_core.data.text.tokenizer import Tokenizer
from damcha_core.data.text.tokenizer_training import TrainedTokenizer, cached_tokenizer
from damcha_core.errors import DataError
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.tasks.task import Batch, LossSum, Task, TaskFacts, require_counts

TOKENIZER = "tokenizer.model"
EVALUATION_TOKENS = 16_384
"""Tokens of an evaluation batch at most, so that long texts need no smaller eval.batch_size."""


@dataclass(frozen=True)
class TextFacts(TaskFacts):
    """What a model needs to know of its texts, and what they were.

    Attributes:
        vocab_size: tokens of the tokenizer, marks included.
        samples: pairs of each split that are used.
        content: sha256 of each split.
        origin: what the texts were made from, such as {"cldr": "48"}.
    """

    vocab_size: int
    samples: dict[str, int] = field(default_factory=dict)
    content: dict[str, str] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """Sizes and the beginning of the hash of each split."""
        return ", ".join(
            f"{split} {n} pairs (sha256 {self.content.get(split, '')[:8]})"
            for split, n in self.samples.items()
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> TextFacts:
        """The inverse of to_mapping.

        Raises:
            KeyError: there is no vocab_size.
            TypeError: a key is unknown, or a value is of another type.
            ValueError: a number is below 1.
        """
        if "vocab_size" not in mapping:
            raise KeyError("vocab_size")
        facts = cls(**mapping)
        for table, kind in ((facts.samples, int), (facts.content, str), (facts.origin, str)):
            if not isinstance(table, dict):
                raise TypeError("samples, content and origin must be tables")
            if not all(isinstance(value, kind) for value in table.values()):
                raise TypeError(f"a value that is no {kind.__name__} in {sorted(table)}")
        require_counts((facts.vocab_size, *facts.samples.values()))
        return facts


class TextTask(Task):
    """Cross-entropy of the target and its end mark, given the source.

    A sequence is `<s> source <sep> target </s>`; the tokens of the source and `<sep>` are read and
    not learnt.
    """

    unit = "tokens"
    facts_type = TextFacts
    asset_names = (TOKENIZER,)

    @property
    def facts(self) -> TextFacts:
        """Facts of the texts, read on first use."""
        facts = super().facts
        assert isinstance(facts, TextFacts)
        return facts

    @cached_property
    def data(self) -> TextData:
        """All splits, read on first use."""
        settings = self.config.data
        data: TextData = load(self.row.data)(
            root=settings.root,
            source_lang=settings.source_lang,
            target_lang=settings.target_lang,
            notify=self.notify,
        )
        return data

    @cached_property
    def cache(self) -> TextCache:
        """Where encoded texts and tokenizers are kept between runs."""
        return TextCache()

    @cached_property
    def trained_tokenizer(self) -> TrainedTokenizer:
        """The stored tokenizer, or one that is trained on both sides of the training pairs."""
        if self._assets is not None:
            return TrainedTokenizer(Tokenizer(self._assets[TOKENIZER]), ())
        settings = self.config.data
        return cached_tokenizer(
            self.data.split("train"),
            vocab_size=settings.vocab_size,
            kind=settings.tokenizer,
            cache=self.cache,
            notify=self.notify,
        )

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the run."""
        return self.trained_tokenizer.tokenizer

    @property
    def assets(self) -> Mapping[str, bytes]:
        """The tokenizer's model."""
        return {TOKENIZER: self.tokenizer.model}

    def content_hash(self, split: str) -> str:
        """sha256 of the texts of a split, all its pairs."""
        return self.data.split(split).content_hash

    def origin(self, split: str) -> dict[str, str]:
        """What the texts of a split are made from as they are now, with their hash."""
        return {**self.data.origin, "sha256": self.content_hash(split)}

    def split_notices(self, split: str) -> tuple[str, ...]:
        """What was left out or cut, and whether the encoded texts could be kept."""
        lines = self.pairs(split).notices(self.data.split(split).name)
        return (*lines, *self.cache.notices)

    @cached_property
    def _encoded(self) -> dict[str, EncodedPairs]:
        return {}

    @property
    def max_source_tokens(self) -> int:
        """Longest source that is read whole when a text is written, in tokens."""
        return self.config.data.max_tokens

    def pairs(self, split: str) -> EncodedPairs:
        """The encoded pairs of a split.

        Raises:
            UsageError: there is no such split.
            DataError: no pair of it can be used.
        """
        if split not in self._encoded:
            source = self.data.split(split)
            encoded = encode_pairs(
                source,
                self.tokenizer,
                max_tokens=self.config.data.max_tokens,
                over_long="drop" if split == "train" else "cut",
                cache=self.cache,
                threads=self.config.run.threads or os.cpu_count() or 1,
                notify=self.notify,
            )
            if not len(encoded):
                raise DataError(
                    f"{source.name}: none of its {len(source)} pairs can be used: "
                    f"{'; '.join(encoded.notices(source.name))}"
                )
            self._encoded[split] = encoded
        return self._encoded[split]

    def questions(self, split: str) -> list[Question]:
        """What a model is asked of a split, as text."""
        source, encoded = self.data.split(split), self.pairs(split)
        kept = [False] * len(source)
        for line in encoded.lines.tolist():
            kept[line] = True
        return questions(compress(source, kept), grouped=self.row.grouped)

    @property
    def notices(self) -> tuple[str, ...]:
        """What was left out, cut or shrunk."""
        lines = [*self.data.notices, *self.trained_tokenizer.notices]
        for name, source in self.data.splits.items():
            lines += self.pairs(name).notices(source.name)
        return (*lines, *self.cache.notices)  # the cache knows only now whether it can be written

    def read_facts(self) -> TextFacts:
        """Size of the vocabulary, and sizes and content of the splits."""
        return TextFacts(
            vocab_size=self.tokenizer.vocab_size,
            samples={name: len(self.pairs(name)) for name in self.data.splits},
            content={name: source.content_hash for name, source in self.data.splits.items()},
            origin=dict(self.data.origin),
        )

    def build_model(self) -> nn.Module:
        """A fresh ConditionalLM."""
        return ConditionalLM(
            self.facts.vocab_size,
            transformer=self.build_transformer(),
            dropout=self.config.model.dropout,
        )

    def dataset(self, split: str, *, training: bool) -> TextDataset:
        """Sequences of token numbers; see TextDataset."""
        return TextDataset(self.pairs(split), self.tokenizer)

    def training_batches(self, epoch: int, consumed: int) -> Sequence[list[SampleKey]]:
        """The rest of a shuffled epoch, texts of like length together."""
        train = self.config.train
        return bucketed_batches(
            self.pairs("train").n_tokens,
            seed=self.config.run.seed,
            epoch=epoch,
            batch_tokens=train.batch_tokens,
            batch_size=train.batch_size,
        ).after(consumed)

    def evaluation_batches(self, split: str, batch_size: int) -> Sequence[list[SampleKey]]:
        """Every pair of a split once, texts of like length together."""
        return length_sorted_batches(
            self.pairs(split).n_tokens, batch_size, batch_tokens=EVALUATION_TOKENS
        )

    def size(self, batch: Batch) -> int:
        """Tokens of source and target, marks included, padding not."""
        return int(batch["n_tokens"].sum())

    def items(self, batch: Batch) -> int:
        """Tokens of the target with its end mark."""
        return int(batch["scored"].sum())

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        """Sum of the smoothed cross-entropies of the scored tokens."""
        scored_BN = batch["scored"]
        logits_TV = model(batch["tokens"], where_BN=scored_BN)
        wanted_T = batch["next_tokens"][scored_BN]
        total = cross_entropy(
            logits_TV,
            wanted_T,
            reduction="sum",
            label_smoothing=self.config.train.label_smoothing,
        )
        return LossSum(total, len(wanted_T))
