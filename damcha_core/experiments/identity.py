"""What makes the outcome of a cell the outcome of this plan, these data and this code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import damcha_core
from damcha_core.tasks.task import TaskFacts

PLANS = "experiments"
"""The part of the package that plans and reports runs; no number of a run depends on it."""
UNKNOWN = ""


@dataclass(frozen=True)
class Identity:
    """Hashes of everything that decides the numbers of a cell.

    Attributes:
        config_hash: of the settings as planned, before the run fixes train.horizon_steps.
        data: of what the task knows of its data; empty: not known.
        code: version of the package and a hash of its source.
    """

    config_hash: str
    data: str
    code: str

    def to_mapping(self) -> dict[str, str]:
        """Plain types for JSON."""
        return {"config_hash": self.config_hash, "data": self.data, "code": self.code}

    def differences(self, stored: object) -> list[str]:
        """What a stored identity has otherwise.

        Args:
            stored: the mapping of another identity.

        Returns:
            Some of "settings", "data" and "code"; data that are not known here count as equal.
        """
        other = stored if isinstance(stored, dict) else {}
        words = {"config_hash": "settings", "data": "data", "code": "code"}
        own = self.to_mapping()
        return [
            word
            for key, word in words.items()
            if own[key] != other.get(key) and not (key == "data" and own[key] == UNKNOWN)
        ]


def data_hash(facts: TaskFacts) -> str:
    """Hash of what a task knows of its data: sizes, and the content of the splits."""
    text = json.dumps(facts.to_mapping(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def code_hash() -> str:
    """The version of the package, and a hash of its source.

    Returns:
        Such as "0.1.0+3f...": 64 hexadecimal digits after the plus. All files of damcha_core
        count but those of experiments/ and what Python compiled.
    """
    digest = hashlib.sha256()
    for name, entry in source_files(Path(damcha_core.__file__).parent):
        content = entry.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return f"{damcha_core.__version__}+{digest.hexdigest()}"


def source_files(folder: Path, above: str = "") -> Iterator[tuple[str, Path]]:
    """All files of a package with their names, in a fixed order."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = above + entry.name
        if name == PLANS or entry.name == "__pycache__" or entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from source_files(entry, f"{name}/")
        elif entry.suffix not in (".pyc", ".pyo"):
            yield name, entry
