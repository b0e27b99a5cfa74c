"""Files: their names in messages, reading JSON, and writing so that a file is whole or not there.

A write goes to a temporary file beside the target, is synced, and is renamed over the target. So a
reader sees the old content or the new one, and a kill leaves a `.tmp-` file at most.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from damcha_core.errors import DiskError

DISK_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES}


def printable_name(name: str | os.PathLike[str]) -> str:
    """The name with bytes that are no UTF-8, and control characters, written as escapes."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def name_position(name: str) -> float:
    """Position of a relative posix path in [0, 1): the leading 64 bits of its sha256."""
    digest = hashlib.sha256(os.fsencode(name)).digest()
    # 53 bits are what a float holds; more could round up to 1.
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def md5_of(path: str | os.PathLike[str]) -> str:
    """md5 of a file as published lists of checksums give it; no protection against malice."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_json_object(path: Path, *, finite: bool = False) -> dict[str, Any]:
    """The JSON object that a file holds.

    Args:
        path: the file.
        finite: read nan and the infinities as None.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no JSON in UTF-8, or something else than an object.
    """
    text = path.read_text(encoding="utf-8")
    try:
        if finite:
            value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
        else:
            value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def find_json_object(path: Path, *, finite: bool = False) -> dict[str, Any] | None:
    """`read_json_object`, or None where there is no such file or it cannot be read as one."""
    try:
        return read_json_object(path, finite=finite)
    except (OSError, ValueError):
        return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def temporary_beside(path: Path) -> Path:
    """Name of the temporary file of a target; short, however long the target's name is."""
    return path.with_name(f".tmp-{os.getpid()}-{zlib.crc32(os.fsencode(path.name)):08x}")


def replace_file(path: Path, write: Callable[[Path], object], *, needed_bytes: int = 0) -> None:
    """Write a file whole or not at all.

    Args:
        path: the target; its folder exists.
        write: called with the temporary file to write.
        needed_bytes: about how much is written, for the message; 0 if unknown.

    Raises:
        DiskError: the disk is full, read-only or not to be written.
        OSError: another failure of the file system, such as a missing folder.
    """
    temporary = temporary_beside(path)
    with disk_errors(path, needed_bytes):
        try:
            write(temporary)
            sync_file(temporary)
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def replace_bytes(path: Path, content: bytes) -> None:
    """`replace_file` with given content."""
    replace_file(path, lambda file: file.write_bytes(content), needed_bytes=len(content))


def replace_text(path: Path, text: str) -> None:
    """`replace_file` with text in UTF-8 and line feeds as they are."""
    replace_bytes(path, text.encode("utf-8"))


def replace_json(path: Path, value: Any) -> None:
    """`replace_text` of indented JSON; nan and inf are refused as a defect of ours."""
    replace_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def sync_file(path: Path) -> None:
    """Ask the operating system to put a file on the disk."""
    # Windows syncs only what is open for writing.
    with path.open("rb" if os.name != "nt" else "rb+") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Ask the operating system to put a folder's entries on the disk, where it can."""
    if os.name == "nt":  # Windows has no handle on a folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def disk_errors(target: Path, needed_bytes: int = 0) -> Iterator[None]:
    """Turn a full or read-only disk into a DiskError that says what was needed and what is free.

    Args:
        target: the file or folder being written.
        needed_bytes: about how much is to be written; 0 if unknown.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ERRNOS:
            raise
        raise _disk_error(target, needed_bytes, os.strerror(error.errno)) from error
    except Exception as error:
        # safetensors reports an input/output failure as its own error with the text in it.
        if "I/O error" not in str(error) and "os error" not in str(error).lower():
            raise
        raise _disk_error(target, needed_bytes, str(error)) from error


def _disk_error(target: Path, needed_bytes: int, reason: str) -> DiskError:
    place = next(p for p in [target, *target.parents] if p.exists())
    free = shutil.disk_usage(place).free
    needed = f"{needed_bytes:,} bytes needed, " if needed_bytes else ""
    return DiskError(
        f"cannot write {target}: {reason} ({needed}{free:,} bytes free).\n"
        "Make room or choose another --out; what was saved before is intact."
    )
