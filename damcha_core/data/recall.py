"""Multi-query associative recall (MQAR, "Zoology", arXiv 2312.04927), drawn instead of read.

A sequence shows P pairs of a key and a value, `k1 v1 k2 v2 ... kP vP`, and then asks for each key
once, in random order. The value is to be predicted at the key that is asked for; it never stands
there itself. Keys come without replacement from one half of the vocabulary, values from the other,
so the only way to be right is to look the pair up. Longer sequences have blanks between the
queries, at random places.

Training may begin with sequences of few pairs and double them epoch by epoch up to P: a look-up of
a few pairs is learnt within some hundred steps and carries over, while a small model that starts
with 32 pairs stays for thousands of steps at guessing one of the values shown. (The field trains
on sequences of many numbers of pairs at once, to the same end.) Valid and test always have P.

Token 0 is the blank, 1 to S the keys, S + 1 to 2 S the values, with S symbols of each kind.

Shape suffixes: B sequences, N tokens, P pairs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from damcha_core.config.consistency import EASY_PAIRS
from damcha_core.config.schema import DataSection
from damcha_core.data.order import SampleKey
from damcha_core.data.randomness import raw_draws
from damcha_core.errors import UsageError

BLANK = 0
SPLITS = ("train", "valid", "test")
HELD_OUT = 512
"""Sequences of valid, and of test."""

_CHUNK = 256
_CLASSES = 8
_CLASSES_OF_SPLIT = {"valid": {0}, "test": {1}, "train": {2, 3, 4, 5, 6, 7}}
"""The hash of a sequence says which split it may be in, so that no two splits share one."""


@dataclass(frozen=True)
class RecallSplit:
    """The sequences of one split.

    Training sequences are drawn anew each epoch, as (seed, epoch, id) says; those of valid and
    test depend on the id alone, so every seed is scored on the same ones.

    Args:
        name: "train", "valid" or "test".
        n_pairs: pairs P, which is the number of queries too; at least 2.
        sequence_length: tokens N, at least 3 P; 0: 3 for each pair that is shown.
        vocab_size: tokens of the vocabulary, at least 9 and 2 P + 1; an even number has one that
            is never drawn.
        n_samples: sequences (of an epoch).
        seed: the run's seed; it matters for train alone.
        easy_epochs: epochs of EASY_PAIRS pairs; after them the pairs double each epoch up to P.
            0: every epoch has P.
    """

    name: str
    n_pairs: int
    sequence_length: int
    vocab_size: int
    n_samples: int
    seed: int = 0
    easy_epochs: int = 0

    def __post_init__(self) -> None:
        assert self.name in SPLITS
        assert 2 <= self.n_pairs <= self.n_symbols
        assert self.n_symbols >= 4
        assert self.sequence_length == 0 or self.sequence_length >= 3 * self.n_pairs

    def __len__(self) -> int:
        return self.n_samples

    @property
    def n_symbols(self) -> int:
        """Number of keys, and of values."""
        return (self.vocab_size - 1) // 2

    def pairs_of_epoch(self, epoch: int) -> int:
        """Pairs that the sequences of an epoch show."""
        if not self.easy_epochs:
            return self.n_pairs
        n_doublings = max(0, epoch + 1 - self.easy_epochs)
        # beyond 32 doublings every setting has long been reached
        return min(self.n_pairs, EASY_PAIRS << min(n_doublings, 32))

    def draw(self, keys: Sequence[SampleKey]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sequences and what is asked in them.

        Args:
            keys: (epoch, id) of each; all of epochs that show equally many pairs.

        Returns:
            Tokens (B, N); answers (B, N), the value to be predicted at a query and BLANK elsewhere.
        """
        (n_pairs,) = {self.pairs_of_epoch(epoch) for epoch, _ in keys}
        n_tokens = self.sequence_length or 3 * n_pairs
        tokens_BN = np.empty((len(keys), n_tokens), dtype=np.int64)
        answers_BN = np.empty_like(tokens_BN)
        open_rows, attempt = list(range(len(keys))), 0
        while open_rows:
            drawn = self._attempt([keys[row] for row in open_rows], n_pairs, n_tokens, attempt)
            for row, tokens_N, answers_N in zip(open_rows, *drawn, strict=True):
                tokens_BN[row], answers_BN[row] = tokens_N, answers_N
            allowed = _CLASSES_OF_SPLIT[self.name]
            open_rows = [row for row in open_rows if _class_of(tokens_BN[row]) not in allowed]
            attempt += 1
        return tokens_BN, answers_BN

    def _attempt(
        self, keys: Sequence[SampleKey], n_pairs: int, n_tokens: int, attempt: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        rows: list[tuple[int, ...]]
        if self.name == "train":
            rows = [(self.seed, epoch, sample, attempt) for epoch, sample in keys]
        else:
            rows = [(sample, attempt) for _, sample in keys]
        n_symbols = self.n_symbols
        draws_BD = raw_draws(f"recall {self.name}", rows, 4 * n_pairs)
        for_keys, for_values, for_order, for_places = np.split(draws_BD, 4, axis=1)
        keys_BP = 1 + _distinct(for_keys, n_symbols)
        values_BP = 1 + n_symbols + _distinct(for_values, n_symbols)
        asked_BP = _distinct(for_order, n_pairs)
        n_free = n_tokens - 2 * n_pairs
        places_BP = 2 * n_pairs + np.sort(_distinct(for_places, n_free), axis=1)
        tokens_BN = np.full((len(keys), n_tokens), BLANK, dtype=np.int64)
        answers_BN = np.full_like(tokens_BN, BLANK)
        tokens_BN[:, 0 : 2 * n_pairs : 2] = keys_BP
        tokens_BN[:, 1 : 2 * n_pairs : 2] = values_BP
        np.put_along_axis(tokens_BN, places_BP, np.take_along_axis(keys_BP, asked_BP, 1), 1)
        np.put_along_axis(answers_BN, places_BP, np.take_along_axis(values_BP, asked_BP, 1), 1)
        return tokens_BN, answers_BN

    def content_hash(self) -> str:
        """sha256 of what epoch 0 holds."""
        digest = hashlib.sha256()
        for start in range(0, self.n_samples, _CHUNK):
            ids = range(start, min(start + _CHUNK, self.n_samples))
            for array in self.draw([(0, sample) for sample in ids]):
                digest.update(array.astype("<i8").data)
        return digest.hexdigest()


def _class_of(tokens_N: NDArray[np.int64]) -> int:
    digest = hashlib.blake2b(tokens_N.astype("<i8").data, digest_size=1).digest()
    return digest[0] % _CLASSES


def _distinct(draws_BP: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """P different numbers below n from as many raw draws: the start of a Fisher-Yates shuffle."""
    n_rows, n_wanted = draws_BP.shape
    pool_BM = np.tile(np.arange(n, dtype=np.int64), (n_rows, 1))
    row_B = np.arange(n_rows)
    for place in range(n_wanted):
        other_B = place + (draws_BP[:, place] % np.uint64(n - place)).astype(np.int64)
        chosen_B = pool_BM[row_B, other_B]
        pool_BM[row_B, other_B] = pool_BM[:, place]
        pool_BM[:, place] = chosen_B
    return pool_BM[:, :n_wanted]


def recall_split(data: DataSection, name: str, seed: int, *, training: bool = False) -> RecallSplit:
    """The split that settings describe.

    Args:
        data: of a run of recall, checked.
        name: "train", "valid" or "test".
        seed: the run's seed.
        training: whether the number of pairs grows, where the settings say so.

    Raises:
        UsageError: there is no such split.
    """
    if name not in SPLITS:
        raise UsageError(f"no split {name!r}: choose train, valid or test")
    return RecallSplit(
        name,
        n_pairs=data.n_pairs,
        sequence_length=data.sequence_length,
        vocab_size=data.vocab_size,
        n_samples=data.train_samples if name == "train" else HELD_OUT,
        seed=seed,
        easy_epochs=data.easy_epochs if training else 0,
    )


class RecallDataset(Dataset[dict[str, Tensor]]):
    """Batches of a split for a causal language model.

    A batch holds:

    - tokens: int64 (B, N);
    - answers: int64 (B, N), the token to be predicted at a query, BLANK elsewhere;
    - scored: bool (B, N), True at the P queries of each sequence;
    - ids: int64 (B,).

    Args:
        split: what is drawn.
    """

    def __init__(self, split: RecallSplit) -> None:
        self._split = split

    def __len__(self) -> int:
        return len(self._split)

    def __getitems__(self, keys: Sequence[SampleKey]) -> dict[str, Tensor]:
        """The batch of the keys (epoch, id)."""
        tokens_BN, answers_BN = self._split.draw(keys)
        return {
            "tokens": torch.from_numpy(tokens_BN),
            "answers": torch.from_numpy(answers_BN),
            "scored": torch.from_numpy(answers_BN != BLANK),
            "ids": torch.tensor([sample for _, sample in keys], dtype=torch.int64),
        }
