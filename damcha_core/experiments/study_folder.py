"""The folder of a study: run folders, records of finished cells, logs and locks.

suite.toml            the suite as resolved
<cell>/               the run folder of a cell
cells/<cell>.json     what the cell came to
begun/<cell>.json     the identity that its run folder was begun under
locks/<cell>.lock     held while a process works on the cell
logs/<cell>.log       what its commands said
slurm/                jobs of a cluster: which cell each has, what it said; see slurm.submission
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from damcha_core.errors import CheckpointError
from damcha_core.experiments.cell_lock import CellLock
from damcha_core.files import disk_errors, find_json_object, replace_json
from damcha_core.train.run_folder import RunFolder

FOLDERS = ("cells", "begun", "locks", "logs")


class StudyFolder:
    """Paths and small files of a study.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.suite_file = path / "suite.toml"

    def prepare(self) -> None:
        """Make the folders.

        Raises:
            DiskError: they cannot be made.
        """
        with disk_errors(self.path):
            for name in FOLDERS:
                (self.path / name).mkdir(parents=True, exist_ok=True)

    def run(self, cell: str) -> RunFolder:
        """The run folder of a cell."""
        return RunFolder(self.path / cell)

    def test_file(self, cell: str) -> Path:
        """Where the scores of a cell on the test split are."""
        return self.path / cell / "test.json"

    def log(self, cell: str) -> Path:
        """Where the commands of a cell say what they have to say."""
        return self.path / "logs" / f"{cell}.log"

    def lock(self, cell: str) -> CellLock:
        """The lock of a cell, not yet held."""
        return CellLock(self.path / "locks" / f"{cell}.lock")

    def record(self, cell: str) -> dict[str, Any] | None:
        """What a cell came to; None: it has not ended."""
        return find_json_object(self.path / "cells" / f"{cell}.json")

    def store_record(self, cell: str, record: dict[str, Any]) -> None:
        """Keep what a cell came to.

        Raises:
            DiskError: it cannot be written.
        """
        replace_json(self.path / "cells" / f"{cell}.json", record)

    def begun(self, cell: str) -> dict[str, Any] | None:
        """The identity that a run folder was begun under; None: not known."""
        return find_json_object(self.path / "begun" / f"{cell}.json")

    def store_begun(self, cell: str, identity: dict[str, Any]) -> None:
        """Keep the identity that a run folder is about to be begun under.

        Raises:
            DiskError: it cannot be written.
        """
        replace_json(self.path / "begun" / f"{cell}.json", identity)

    def forget_record(self, cell: str) -> None:
        """Take a cell for one that has not ended.

        Raises:
            DiskError: the record cannot be removed.
        """
        path = self.path / "cells" / f"{cell}.json"
        with disk_errors(path):
            path.unlink(missing_ok=True)

    def set_aside(self, cell: str) -> Path | None:
        """Move a run folder out of the way, to <cell>.old-N with its record in it.

        Returns:
            Where it is now; None: there was nothing to move.

        Raises:
            DiskError: it cannot be moved.
        """
        run, record = self.path / cell, self.path / "cells" / f"{cell}.json"
        aside: Path | None = None
        with disk_errors(run):
            if run.exists():
                number = 1
                while (place := self.path / f"{cell}.old-{number}").exists():
                    number += 1
                os.rename(run, place)
                aside = place
            if record.exists():
                if aside is None:
                    record.unlink()
                else:
                    os.replace(record, aside / "cell.json")
            (self.path / "begun" / f"{cell}.json").unlink(missing_ok=True)
        return aside

    def is_training(self, cell: str) -> bool:
        """Whether a process trains in the run folder; to be asked under the cell's lock."""
        path = self.path / cell / ".lock"
        if not path.exists():
            return False
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    def has_scores(self, cell: str) -> bool:
        """Whether test.json is there and scores the checkpoint that result.json names."""
        test = find_json_object(self.test_file(cell))
        try:
            result = self.run(cell).read_result()
        except CheckpointError:
            return False
        same = ("step", "seed", "task", "attention", "config_hash")
        return test is not None and all(test.get(key) == result.get(key) for key in same)
