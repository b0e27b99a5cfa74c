"""Parallel text: two UTF-8 files in which line i of one belongs to line i of the other.

A line ends at \\n and nowhere else: U+2028, U+0085, form feed, vertical tab and a \\r inside a
line are text, as for `wc -l`. One \\r at the end of a line is taken off (files with \\r\\n), and
so is a byte order mark at the start of a file. The last line may lack its \\n.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.text.pairs import Pair, PairSource
from damcha_core.errors import DataError
from damcha_core.files import printable_name

_BLOCK = 1 << 20
_STEP = 64 * _BLOCK


@dataclass(frozen=True)
class ScannedFile:
    """What one pass over a text file shows.

    Attributes:
        n_lines: lines, at least 1; a last one without a line break counts.
        digest: sha256 of its bytes.
        state: size, time of the last change in nanoseconds and number of the file.
    """

    n_lines: int
    digest: bytes
    state: tuple[int, int, int]


class FilePairs(PairSource):
    """Two aligned files, read line by line as often as wanted and never held in memory.

    Making one reads both files once, to count, hash and check them.

    Args:
        source: file of the sources, named in messages as it is given.
        target: file of the targets.
        notify: told about the bytes of that pass.

    Raises:
        DataError: a file cannot be scanned, see `scan_file`.
        DataError: the files have different numbers of lines.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        notify: Notify = no_notice,
    ) -> None:
        self._paths = (Path(source), Path(target))
        self._names = (printable_name(source), printable_name(target))
        self._scanned = (scan_file(source, notify=notify), scan_file(target, notify=notify))
        n_source, n_target = (scanned.n_lines for scanned in self._scanned)
        if n_source != n_target:
            raise DataError(
                f"{self._names[0]} has {n_source:,} lines and {self._names[1]} has {n_target:,}: "
                "line i of one must belong to line i of the other, so both need as many lines"
            )

    @property
    def name(self) -> str:
        """Both files, as they were given."""
        return f"{self._names[0]} and {self._names[1]}"

    @property
    def content_hash(self) -> str:
        """sha256 of the two files' sha256, source first."""
        return hashlib.sha256(b"".join(scanned.digest for scanned in self._scanned)).hexdigest()

    @property
    def same_text(self) -> bool:
        """Whether both files hold the same bytes."""
        return self._scanned[0].digest == self._scanned[1].digest

    def __len__(self) -> int:
        return self._scanned[0].n_lines

    def __iter__(self) -> Iterator[Pair]:
        """All pairs in order.

        Raises:
            DataError: a file has changed since it was scanned, or cannot be read any more.
        """
        self._check_unchanged()
        sources, targets = (self._lines(i) for i in range(2))
        for _ in range(len(self)):
            yield next(sources), next(targets)
        # What is appended to a file does no harm; what is rewritten in place would.
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        for i, scanned in enumerate(self._scanned):
            with _opened(self._paths[i]) as file:
                same = _state(file) == scanned.state
            # A copy or a touched file is no change as long as the bytes are the same.
            if not same and scan_file(self._paths[i]).digest != scanned.digest:
                raise self._changed(i)

    def _lines(self, i: int) -> Iterator[str]:
        """Lines of one file; more of them than were scanned, or fewer, is an error."""
        try:
            yield from read_lines(self._paths[i])
        except UnicodeDecodeError as error:
            raise self._changed(i) from error
        raise self._changed(i)

    def _changed(self, i: int) -> DataError:
        return DataError(
            f"{self._names[i]} has changed since it was first read, so its lines may no longer "
            "belong to those of the other file: leave both as they are while damcha runs, and "
            "start again"
        )


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Lines of a UTF-8 file without their line breaks, one at a time.

    Args:
        path: the file.

    Raises:
        DataError: it cannot be opened or read, or is no file.
        UnicodeDecodeError: a line is not UTF-8 (`scan_file` tells where).
    """
    with _opened(path) as file:
        # An empty file has no line to begin with.
        line = file.readline().removeprefix(codecs.BOM_UTF8)
        while line:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            line = file.readline()


def scan_file(path: str | os.PathLike[str], *, notify: Notify = no_notice) -> ScannedFile:
    """Count the lines of a file, hash its bytes and see that it is UTF-8, in one pass.

    Args:
        path: the file, named in messages as it is given.
        notify: told about the bytes, after each 64 MiB.

    Raises:
        DataError: it cannot be opened or read, or is no file.
        DataError: a line is not UTF-8.
        DataError: there is nothing in it.
    """
    name = printable_name(path)
    digest = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8")()
    n_breaks = n_bytes = 0
    last = b""
    with _opened(path) as file:
        state = _state(file)
        while block := file.read(_BLOCK):
            digest.update(block)
            _decode(decoder, block, n_breaks, name)
            n_breaks += block.count(b"\n")
            n_bytes += len(block)
            last = block
            if n_bytes % _STEP == 0:
                notify(f"reading {name}", n_bytes, max(n_bytes, state[0]))
    _decode(decoder, b"", n_breaks, name)
    if last in (b"", codecs.BOM_UTF8):
        raise DataError(f"{name} is empty: it must hold text, one sentence a line")
    return ScannedFile(n_breaks + (not last.endswith(b"\n")), digest.digest(), state)


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, n_breaks: int, name: str) -> None:
    """Check a block (b"": the end), n_breaks line breaks after the start of the file."""
    try:
        decoder.decode(block, final=not block)
    except UnicodeDecodeError as error:
        # What is decoded begins with the rest of the block before, which holds no line break.
        line = n_breaks + error.object[: error.start].count(b"\n") + 1
        raise DataError(
            f"{name} is not UTF-8 in line {line:,} (byte 0x{error.object[error.start]:02x}): "
            "convert it, for instance with iconv -t UTF-8"
        ) from error


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The file open for reading; what the system refuses, then or later, is a DataError."""
    name = printable_name(path)
    try:
        # Asked before opening: a named pipe would wait for somebody to write.
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "not a file that can be read twice"
            raise DataError(f"{name} is {what}: a text file is needed, one sentence a line")
        with open(path, "rb", buffering=_BLOCK) as file:
            yield file
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}") from error


def _state(file: BinaryIO) -> tuple[int, int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino
