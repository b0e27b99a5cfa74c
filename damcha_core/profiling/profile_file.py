"""The file of a profile."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import ValidationError

from damcha_core.config.values import printable
from damcha_core.errors import DiskError, UsageError
from damcha_core.files import replace_json, temporary_beside
from damcha_core.profiling.profile_record import KIND, SCHEMA, ProfileRecord

LARGEST_FILE = 64 * 2**20


def read_profile(path: Path) -> ProfileRecord:
    """Read a profile that `--out` wrote or `--json` printed.

    Args:
        path: the file.

    Raises:
        UsageError: it cannot be read, is no profile, or one of a later version.
    """
    name = printable(str(path))
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UsageError(f"{name} is no profile: it is larger than any ({LARGEST_FILE:,} B)")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {os.strerror(error.errno or 0)}; give a file that "
            "damcha profile --out FILE wrote"
        ) from None
    except UnicodeDecodeError:
        raise _no_profile(name, "it is no text in UTF-8") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _no_profile(name, "it is no JSON") from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise _no_profile(name, f'it has no "kind": "{KIND}"')
    schema = found.get("schema")
    if type(schema) is int and schema > SCHEMA:
        raise UsageError(
            f"{name} is a profile of a later version (schema {schema}, this one reads {SCHEMA}); "
            "upgrade damcha"
        )
    try:
        return ProfileRecord.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise _no_profile(name, f"{printable(place[:100])}: {first['msg'].lower()}") from None


def _no_profile(name: str, reason: str) -> UsageError:
    return UsageError(f"{name} is no profile: {reason}; damcha profile --out FILE writes one")


def check_place(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is measured for it.

    Raises:
        UsageError: its folder is missing or read-only, or something else than a profile is there.
    """
    try:
        _check_place(path, printable(str(path)))
        # Permissions alone do not tell: only writing does.
        temporary = temporary_beside(path)
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise UsageError(
            f"--out {printable(str(path)[:100])} cannot be written: "
            f"{os.strerror(error.errno or 0)}; name another file"
        ) from None


def _check_place(path: Path, name: str) -> None:
    if path.is_dir():
        raise UsageError(f"--out {name} is a folder; name a file in it")
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"--out {name}: there is no folder {printable(str(folder))}; make it")
    if path.exists():
        try:
            read_profile(path)
        except UsageError:
            raise UsageError(
                f"--out {name} is there and is no profile; name another file"
            ) from None


def write_profile(path: Path, record: ProfileRecord) -> None:
    """Write a profile whole or not at all.

    Args:
        path: where; an older file is replaced.
        record: the profile.

    Raises:
        DiskError: the file cannot be written.
    """
    try:
        replace_json(path, record.plain())
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise DiskError(f"{printable(str(path))} cannot be written: {reason}") from error
