"""File names as they are hashed and as they are shown, and checksums of what is in the files."""

from __future__ import annotations

import hashlib
import os


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
