"""Pairs as token ids, made once, kept on disk and read from there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.text.pairs import Pair, PairSource
from damcha_core.data.text.text_cache import TextCache
from damcha_core.data.text.tokenizer import Tokenizer

OverLong = Literal["drop", "cut"]

MARKS_OF_A_SEQUENCE = 3
"""`<s>`, `<sep>` and `</s>`: what a whole sequence has beside source and target."""

_FORMAT = 1
_CHUNK_PAIRS = 20_000
_LINES_SHOWN = 5
_TOKENS, _BOUNDS, _LINES = "tokens.npy", "bounds.npy", "lines.npy"


@dataclass(frozen=True)
class DroppedPairs:
    """What was left out or shortened.

    Attributes:
        n_pairs: pairs of the source, all of them.
        n_blank: pairs left out because a side has no character other than space.
        blank_lines: the first five of their places, counted from 1.
        n_over_long: pairs with more than max_tokens tokens, left out or cut.
        over_long_lines: the first five of their places, counted from 1.
        max_tokens: tokens of a whole sequence at most.
        over_long: "drop" or "cut".
    """

    n_pairs: int
    n_blank: int
    blank_lines: tuple[int, ...]
    n_over_long: int
    over_long_lines: tuple[int, ...]
    max_tokens: int
    over_long: OverLong

    def notices(self, name: str) -> list[str]:
        """Plain lines for the user; none if every pair was kept as it is.

        Args:
            name: of the data, such as "train.en/train.de".
        """
        out = []
        if self.n_blank:
            what = _counted(self.n_blank, "with a blank side", "left out")
            out.append(f"{name}: {what} ({_places(self.blank_lines, self.n_blank)})")
        if self.n_over_long:
            done = "left out" if self.over_long == "drop" else "cut"
            what = _counted(self.n_over_long, f"longer than {self.max_tokens} tokens", done)
            out.append(f"{name}: {what} ({_places(self.over_long_lines, self.n_over_long)})")
        return out


class EncodedPairs:
    """Pairs as token ids, in the order of their source; read from disk when asked for.

    Neither side holds marks: a whole sequence is `<s>` source `<sep>` target `</s>`. Handed to
    another process it is opened there again, not copied.

    Args:
        folder: where `encode_pairs` put it.
        dropped: what is not in it.
    """

    def __init__(self, folder: Path, dropped: DroppedPairs) -> None:
        self._folder = folder
        self._dropped = dropped
        self._tokens = _open(folder / _TOKENS)
        self._bounds = _open(folder / _BOUNDS)
        self._lines = _open(folder / _LINES)

    def __reduce__(self) -> tuple[type[EncodedPairs], tuple[Path, DroppedPairs]]:
        return type(self), (self._folder, self._dropped)

    def __len__(self) -> int:
        return len(self._lines)

    def source(self, i: int) -> NDArray[np.int64]:
        """Token ids of the source of pair i, 0 <= i < len.

        Raises:
            IndexError: there is no such pair.
        """
        return self._side(i, 0)

    def target(self, i: int) -> NDArray[np.int64]:
        """Token ids of the target of pair i, 0 <= i < len.

        Raises:
            IndexError: there is no such pair.
        """
        return self._side(i, 1)

    @cached_property
    def n_source(self) -> NDArray[np.int32]:
        """Tokens of each source (n,), without marks."""
        return (self._bounds[1::2] - self._bounds[:-1:2]).astype(np.int32)

    @cached_property
    def n_tokens(self) -> NDArray[np.int32]:
        """Tokens of each whole sequence (n,): source, target and three marks."""
        return (np.diff(self._bounds[::2]) + MARKS_OF_A_SEQUENCE).astype(np.int32)

    @property
    def lines(self) -> NDArray[np.int64]:
        """Place of each pair in its source (n,), counted from 0."""
        return self._lines

    @property
    def dropped(self) -> DroppedPairs:
        """What was left out or shortened."""
        return self._dropped

    @property
    def nbytes(self) -> int:
        """Bytes on disk of the token ids and of the places."""
        return sum(int(part.nbytes) for part in (self._tokens, self._bounds, self._lines))

    def notices(self, name: str) -> list[str]:
        """Plain lines about pairs left out or shortened.

        Args:
            name: of the data, such as "train.en/train.de".
        """
        return self._dropped.notices(name)

    def _side(self, i: int, side: int) -> NDArray[np.int64]:
        if not 0 <= i < len(self):
            raise IndexError(f"pair {i} of {len(self)}")
        start, end = self._bounds[2 * i + side], self._bounds[2 * i + side + 1]
        return self._tokens[start:end].astype(np.int64)


def encode_pairs(
    pairs: PairSource,
    tokenizer: Tokenizer,
    *,
    max_tokens: int,
    over_long: OverLong = "drop",
    cache: TextCache,
    threads: int = 1,
    notify: Notify = no_notice,
) -> EncodedPairs:
    """The pairs as token ids, from the cache if they were encoded before.

    Pairs with a side that is empty or all space are left out, on both sides. So are over-long
    ones, or they are cut: with `left = max_tokens - 3` tokens for both sides together, a source
    keeps its first `max(left // 2, left - target)` tokens, and a target its first ones up to what
    the source leaves. So one side alone is cut if the other has no more than half.

    Args:
        pairs: where they are from; read once, as a stream.
        tokenizer: encodes both sides.
        max_tokens: tokens of a whole sequence at most, its three marks included; at least 5.
        over_long: what becomes of longer ones, "drop" or "cut".
        cache: where the result is looked for and kept.
        threads: threads that encode, at least 1; the result does not depend on it.
        notify: told about pairs done; not called when nothing is encoded.

    Returns:
        The pairs that are left, perhaps none.

    Raises:
        ValueError: max_tokens is below 5, threads below 1, or over_long neither of the two.
        DataError: a text holds half of a surrogate pair, which is no character.
        OSError: the cache cannot be written any more, as when the disk is full.
    """
    if max_tokens < MARKS_OF_A_SEQUENCE + 2:
        raise ValueError(f"max_tokens must be at least 5, not {max_tokens}")
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    if over_long not in ("drop", "cut"):
        raise ValueError(f"over_long must be drop or cut, not {over_long!r}")
    parts = f"{_FORMAT} {pairs.content_hash} {tokenizer.fingerprint} {max_tokens} {over_long}"
    key = hashlib.sha256(parts.encode()).hexdigest()

    def build(folder: Path) -> Mapping[str, object]:
        encoder = _Encoder(tokenizer, max_tokens, over_long, threads)
        return asdict(encoder.run(pairs, folder, notify))

    entry = cache.entry("pairs", key, build)
    return EncodedPairs(entry.folder, _dropped_from(entry.facts))


class _Encoder:
    """Writes the pairs of one source, chunk by chunk."""

    def __init__(
        self, tokenizer: Tokenizer, max_tokens: int, over_long: OverLong, threads: int
    ) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._over_long = over_long
        self._threads = threads
        self._n_read = 0
        self._blank = _Places()
        self._long = _Places()
        # What grows with the corpus is held in arrays, 24 bytes a pair.
        self._lengths: list[NDArray[np.int32]] = []
        self._lines: list[NDArray[np.int64]] = []

    def run(self, pairs: PairSource, folder: Path, notify: Notify) -> DroppedPairs:
        dtype = np.dtype("<u2" if self._tokenizer.vocab_size <= 2**16 else "<i4")
        with _GrowingArray(folder / _TOKENS, dtype) as tokens:
            for chunk in _chunks(pairs):
                notify(f"encoding {pairs.name}", self._n_read, len(pairs))
                tokens.extend(self._encoded(chunk))
        lengths = np.concatenate([np.zeros(1, np.int32), *self._lengths])
        np.save(folder / _BOUNDS, np.cumsum(lengths, dtype=np.int64))
        np.save(folder / _LINES, np.concatenate([np.zeros(0, np.int64), *self._lines]))
        return DroppedPairs(
            n_pairs=self._n_read,
            n_blank=self._blank.n,
            blank_lines=tuple(self._blank.first),
            n_over_long=self._long.n,
            over_long_lines=tuple(self._long.first),
            max_tokens=self._max_tokens,
            over_long=self._over_long,
        )

    def _encoded(self, chunk: Sequence[Pair]) -> list[list[int]]:
        """Token ids of the pairs to keep: source, target, source, target, and so on."""
        places: list[int] = []
        texts: list[str] = []
        for place, (source, target) in enumerate(chunk, self._n_read):
            if source.strip() and target.strip():
                places.append(place)
                texts += (source, target)
            else:
                self._blank.add(place)
        self._n_read += len(chunk)
        ids = self._tokenizer.encode_all(texts, self._threads)
        kept: list[list[int]] = []
        lines: list[int] = []
        left = self._max_tokens - MARKS_OF_A_SEQUENCE
        for place, source_ids, target_ids in zip(places, ids[::2], ids[1::2], strict=True):
            if len(source_ids) + len(target_ids) > left:
                self._long.add(place)
                if self._over_long == "drop":
                    continue
                source_ids = source_ids[: max(left // 2, left - len(target_ids))]
                target_ids = target_ids[: left - len(source_ids)]
            kept += (source_ids, target_ids)
            lines.append(place)
        self._lengths.append(np.fromiter(map(len, kept), np.int32, len(kept)))
        self._lines.append(np.array(lines, np.int64))
        return kept


class _Places:
    """A count, and the first few places counted from 1."""

    def __init__(self) -> None:
        self.n = 0
        self.first: list[int] = []

    def add(self, place: int) -> None:
        self.n += 1
        if len(self.first) < _LINES_SHOWN:
            self.first.append(place + 1)


class _GrowingArray:
    """A one-dimensional .npy file whose length is known at the end only."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self._path = path
        self._dtype = dtype
        self._n = 0

    def __enter__(self) -> _GrowingArray:
        self._file: IO[bytes] = open(self._path, "wb")
        self._write_header()
        self._start = self._file.tell()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            if error is None:
                self._file.seek(0)
                self._write_header()
                # The format leaves room for a longer first dimension.
                assert self._file.tell() == self._start

    def extend(self, rows: Sequence[Sequence[int]]) -> None:
        flat = np.fromiter(chain.from_iterable(rows), self._dtype, sum(map(len, rows)))
        self._file.write(flat.tobytes())
        self._n += len(flat)

    def _write_header(self) -> None:
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._n,)}
        np.lib.format.write_array_header_1_0(self._file, header)


def _open(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _chunks(pairs: PairSource) -> Iterator[list[Pair]]:
    stream = iter(pairs)
    while chunk := list(islice(stream, _CHUNK_PAIRS)):
        yield chunk


def _dropped_from(facts: Mapping[str, Any]) -> DroppedPairs:
    named = {name: facts[name] for name in DroppedPairs.__dataclass_fields__}
    for name in ("blank_lines", "over_long_lines"):
        named[name] = tuple(named[name])
    return DroppedPairs(**named)


def _counted(n: int, which: str, done: str) -> str:
    return f"{n:,} pair {which} is {done}" if n == 1 else f"{n:,} pairs {which} are {done}"


def _places(first: Sequence[int], n: int) -> str:
    shown = ", ".join(map(str, first)) + (", ..." if n > len(first) else "")
    return f"line {shown}" if n == 1 else f"lines {shown}"
