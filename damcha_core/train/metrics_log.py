"""metrics.jsonl: one JSON object a line, one line a step and one a validation."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from damcha_core.files import disk_errors, replace_text


class MetricsLog:
    """Appends to metrics.jsonl; resuming first cuts what came after the checkpoint.

    Args:
        path: the file.
        resume_step: keep the lines up to this step and drop the rest.
        validated: whether the validation after that step belongs to what is kept; False where
            the checkpoint was taken before it, so that it is made again.

    Raises:
        DiskError: the file cannot be written.
    """

    def __init__(self, path: Path, *, resume_step: int = 0, validated: bool = True) -> None:
        self.path = path
        if path.exists():
            kept = [
                line
                for line in read_metrics(path)
                if line["step"] < resume_step
                or (line["step"] == resume_step and (validated or line.get("split") == "train"))
            ]
            replace_text(path, "".join(_line(record) for record in kept))
        with disk_errors(path):
            self._file = path.open("a", encoding="utf-8", newline="\n")

    def write(self, record: dict[str, Any]) -> None:
        """Append one record; a reader sees it at once."""
        with disk_errors(self.path):
            self._file.write(_line(record))
            self._file.flush()

    def sync(self) -> None:
        """Bring the lines to the disk, before the checkpoint that refers to them."""
        with disk_errors(self.path):
            os.fsync(self._file.fileno())

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        # Closing tries once more to write what did not fit before.
        with disk_errors(self.path):
            self._file.close()


class NoLog:
    """What a process keeps that does not write the run folder: nothing."""

    def write(self, record: dict[str, Any]) -> None:
        """Leave a record to the process that leads."""

    def sync(self) -> None:
        """Nothing is waiting to be written."""


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a metrics.jsonl; a last line that a crash cut short is left out."""
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                return
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                yield record


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, allow_nan=False) + "\n"
