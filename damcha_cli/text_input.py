"""Lines of text that a user hands in: from a file, from stdin or from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from damcha_core.errors import DataError, UsageError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextmanager
def open_lines(file: Path | None, texts: Sequence[str] | None) -> Iterator[Iterator[str]]:
    """Lines without their ends, read as they are asked for.

    A line ends with \\n alone (a \\r before it is taken off); other separators are text.

    Args:
        file: a file in UTF-8; None: stdin, unless there are texts.
        texts: lines from the command line; none or empty: not given.

    Raises:
        UsageError: a text from the command line holds a line break or is not UTF-8.
        DataError: the file cannot be read, or a line is not UTF-8.
    """
    if texts:
        for text in texts:
            if "\n" in text:
                raise UsageError("--text holds a line break: give --text once a line")
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise UsageError("--text is not UTF-8: set the terminal to UTF-8, or give a file")
        yield iter(texts)
        return
    if file is None:
        yield decoded(sys.stdin.buffer, "stdin")
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error
    with opened:
        yield decoded(opened, str(file))


def decoded(stream: BinaryIO, name: str) -> Iterator[str]:
    """The lines of a stream of bytes.

    Args:
        stream: of bytes in UTF-8.
        name: for messages.

    Raises:
        DataError: it cannot be read, or a line is not UTF-8.
    """
    try:
        for number, line in enumerate(stream, start=1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{name}: line {number} is not UTF-8 ({error.reason}); convert the file first"
                ) from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from error
