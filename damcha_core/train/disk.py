"""Files that appear whole or not at all, and a full disk told apart from a defect."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from damcha_core.errors import DiskError

DISK_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES}


def sync_file(path: Path) -> None:
    """Ask the operating system to put a file on the disk."""
    with path.open("rb") as file:
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


def replace_text(path: Path, text: str) -> None:
    """Write a small text file so that a reader sees the old one or the new one, never a part."""
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    with disk_errors(path, len(text)):
        try:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def replace_json(path: Path, value: Any) -> None:
    """replace_text of indented JSON; nan and inf are refused as a defect of ours."""
    replace_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")
