"""Results that take long to make, kept on disk and shared between runs."""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from damcha_core.files import printable_name, read_json_object, sync_file, sync_folder

_SCHEMA = 1
_META_FILE = "meta.json"
# Larger files are known by their size alone: reading them all would cost what the cache saves.
_HASHED_BYTES = 16 * 2**20
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class CacheEntry:
    """One result.

    Attributes:
        folder: where its files are; they are not to be changed.
        facts: what its maker wished to know again.
    """

    folder: Path
    facts: Mapping[str, Any]


Build = Callable[[Path], Mapping[str, object]]
"""Fills an empty folder with files and returns facts that JSON can hold."""


class TextCache:
    """A folder of results, each made once, by whichever process is first.

    An entry is a folder that appears complete or not at all. One that is damaged (a file is
    missing or has another size or, up to 16 MiB, other content) is made again. Nothing else is
    ever removed: delete the folder to free its space.

    If the folder cannot be written, as in a read-only home, entries that are there are used and
    others are made in a temporary folder, which is removed when the process ends; `notices` then
    says so.

    Args:
        folder: where to keep results; None: `$DAMCHA_CACHE`, else `$XDG_CACHE_HOME/damcha`, else
            `~/.cache/damcha`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = default_folder() if folder is None else Path(folder)
        self._notices: list[str] = []
        self._spare: Path | None = None
        if self._folder is None:
            self._use_spare("there is no home folder to keep the cache in")

    @property
    def folder(self) -> Path | None:
        """Where results are looked for and kept; None if there is no home folder either.

        Whether it can be written turns out with the first result that is made.
        """
        return self._folder

    @property
    def notices(self) -> tuple[str, ...]:
        """Plain lines that the user should see: at most one, that nothing can be kept."""
        return tuple(self._notices)

    def entry(self, what: str, key: str, build: Build) -> CacheEntry:
        """The result of that key, made if it is not there.

        Args:
            what: kind of result, part of the folder's name.
            key: whatever the result depends on, hashed, in hexadecimal digits.
            build: makes the result; what it raises comes through and leaves nothing behind.

        Raises:
            OSError: the disk is full, or failed in some other way while the result was written.
        """
        name = f"{what}-{key[:40]}"
        if self._folder is not None:
            found = _read(self._folder / name, key)
            if found is not None:
                return found
            if self._spare is None:
                try:
                    return _made_once(self._folder, name, key, build)
                except _UnwritableError as error:
                    self._use_spare(
                        f"the cache folder {printable_name(self._folder)} cannot be written "
                        f"({error})"
                    )
        assert self._spare is not None
        return _made_once(self._spare, name, key, build)

    def _use_spare(self, reason: str) -> None:
        self._spare = _process_folder()
        self._notices.append(
            f"{reason}: tokenized text is kept for this process alone. Set DAMCHA_CACHE to a "
            "folder that can be written"
        )


class _UnwritableError(Exception):
    """The folder cannot be made, written or locked, for another reason than a full disk."""


def default_folder() -> Path | None:
    """`$DAMCHA_CACHE`, else `$XDG_CACHE_HOME/damcha`, else `~/.cache/damcha`, if there is a ~."""
    if own := os.environ.get("DAMCHA_CACHE"):
        return Path(own)
    # Relative paths in this variable are to be ignored (XDG Base Directory Specification).
    if (base := os.environ.get("XDG_CACHE_HOME")) and os.path.isabs(base):
        return Path(base) / "damcha"
    home = os.path.expanduser("~")
    # A user without an entry in the password file, as in some containers, has none.
    return Path(home) / ".cache" / "damcha" if os.path.isabs(home) else None


def _made_once(folder: Path, name: str, key: str, build: Build) -> CacheEntry:
    """The entry as another process has made it meanwhile, or else made here."""
    lock = _locked(folder, name)
    try:
        found = _read(folder / name, key)
        if found is None:
            work = _cleared(folder, name)
            try:
                _fill(work, key, build)
                os.rename(work, folder / name)
                sync_folder(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
            found = _read(folder / name, key)
            assert found is not None, "an entry that was just made is damaged"
        return found
    finally:
        lock.release()


def _locked(folder: Path, name: str) -> FileLock:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f".{name}.lock")
        lock.acquire()
    except (OSError, NotImplementedError) as error:  # the latter: the file system has no locks
        raise _not_writable(error) from error
    return lock


def _cleared(folder: Path, name: str) -> Path:
    """An empty folder to work in; what a killed process or damage left behind is removed."""
    work = folder / f".{name}.tmp"
    try:
        for leftover in (work, folder / name):
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)
        work.mkdir()
    except OSError as error:
        raise _not_writable(error) from error
    return work


def _not_writable(error: Exception) -> Exception:
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return error
    return _UnwritableError(getattr(error, "strerror", None) or str(error))


def _fill(work: Path, key: str, build: Build) -> None:
    facts = dict(build(work))
    files = {file.name: _mark_of(file) for file in sorted(work.iterdir())}
    meta = {"schema": _SCHEMA, "key": key, "files": files, "facts": facts}
    (work / _META_FILE).write_text(json.dumps(meta, indent=1), encoding="utf-8")
    for file in work.iterdir():
        sync_file(file)
    sync_folder(work)


def _read(folder: Path, key: str) -> CacheEntry | None:
    """The entry in the folder, or None if it is missing, damaged or not to be read."""
    try:
        meta = read_json_object(folder / _META_FILE)
        good = meta["schema"] == _SCHEMA and meta["key"] == key
        good = good and all(_mark_of(folder / n) == mark for n, mark in meta["files"].items())
        return CacheEntry(folder, dict(meta["facts"])) if good else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _mark_of(file: Path) -> dict[str, object]:
    """Size of a file, and its sha256 unless it is large."""
    size = file.stat().st_size
    if size > _HASHED_BYTES:
        return {"bytes": size}
    return {"bytes": size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


@cache
def _process_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="damcha-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked process inherits this and must leave it alone
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
