"""Aligned pairs of text, and the splits of a text data set."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from damcha_core.errors import UsageError

Pair = tuple[str, str]
"""(source, target); neither holds a line break."""


class PairSource(ABC):
    """Pairs in a fixed order, read as often as wanted and never all held at once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Where the pairs are from, for messages."""

    @property
    @abstractmethod
    def content_hash(self) -> str:
        """64 hexadecimal digits, the same wherever the same pairs are."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of pairs, those with a blank side included."""

    @abstractmethod
    def __iter__(self) -> Iterator[Pair]:
        """All pairs in order, those with a blank side included, so that places are line numbers."""


class ListedPairs(PairSource):
    """Pairs that are in memory.

    Args:
        name: for messages.
        pairs: the pairs.
    """

    def __init__(self, name: str, pairs: Sequence[Pair]) -> None:
        self._name = name
        self._pairs = tuple(pairs)

    @property
    def name(self) -> str:
        """Where the pairs are from, for messages."""
        return self._name

    @property
    def content_hash(self) -> str:
        """sha256 of the pairs, one a line, the sides parted by a tab."""
        digest = hashlib.sha256()
        for source, target in self._pairs:
            digest.update(f"{source}\t{target}\n".encode())
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._pairs)


@dataclass(frozen=True)
class TextData:
    """The splits of a text data set.

    Attributes:
        splits: by name: "train", "valid", "test" and what else there is.
        absent: why a split that others have is not there, by its name.
        origin: what the content depends on beside our own code, such as {"cldr": "48"}.
        notices: plain lines that the user should see.
    """

    splits: Mapping[str, PairSource]
    absent: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    notices: Sequence[str] = ()

    def split(self, name: str) -> PairSource:
        """The pairs of a split.

        Raises:
            UsageError: there is no such split.
        """
        if name not in self.splits:
            reason = self.absent.get(name, f"choose {', '.join(self.splits)}")
            raise UsageError(f"no split {name!r}: {reason}")
        return self.splits[name]
