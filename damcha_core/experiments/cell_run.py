"""Carrying out one cell: training, the one scoring of the test split, the record."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import damcha_core
from damcha_core.errors import NonFiniteError
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_lock import CellLock
from damcha_core.experiments.cell_state import State
from damcha_core.experiments.child_processes import ChildProcesses, child_environment
from damcha_core.experiments.study_folder import StudyFolder
from damcha_core.files import disk_errors, find_json_object, replace_json

SCHEMA = 1
PROGRAM = (sys.executable, "-m", "damcha_cli")
SOURCE = Path(damcha_core.__file__).parents[1]
REASON_LINES = 5
ASKED_TO_STOP = (130, 143)
"""Exit codes of a run that saved itself because someone asked it to."""


@dataclass(frozen=True)
class Ending:
    """How the commands of a cell ended.

    Attributes:
        state: done, failed or diverged; interrupted where the cell can go on later.
        exit_code: of the last command.
        reason: the last lines of a failure.
    """

    state: State
    exit_code: int = 0
    reason: str = ""


class CellRun:
    """The commands of one cell, under its lock.

    Args:
        cell: what is trained.
        folder: of the study.
        lock: of the cell, held; the commands hold it too.
        children: runs the commands.
        threads: of each command.
    """

    def __init__(
        self,
        cell: Cell,
        folder: StudyFolder,
        *,
        lock: CellLock,
        children: ChildProcesses,
        threads: int,
    ) -> None:
        self.cell = cell
        self.folder = folder
        self.lock = lock
        self.children = children
        self.threads = threads
        self.run = folder.run(cell.id)

    def carry_out(self, identity: dict[str, Any], *, resumes: bool) -> dict[str, Any] | None:
        """Train, score, and keep the record.

        Args:
            identity: what the run folder was begun under.
            resumes: whether a run is there to go on with.

        Returns:
            The record; None: the cell was interrupted, or another process trains it.

        Raises:
            Stopped: the study is being stopped.
            DiskError: the record cannot be written.
        """
        started = time.monotonic()
        ending = self.train(resumes)
        if ending.state is State.DONE and not self.folder.has_scores(self.cell.id):
            ending = self.score()
        if ending.state is State.INTERRUPTED:
            return None
        record = {
            "schema": SCHEMA,
            "cell": self.cell.id,
            "task": self.cell.task,
            "attention": self.cell.attention,
            "seed": self.cell.seed,
            "settings": dict(self.cell.settings),
            "command": shlex.join(self.cell.command(self.run.path, threads=self.threads)),
            "identity": identity,
            "state": ending.state.value,
            "reason": ending.reason,
            "exit_code": ending.exit_code,
            "seconds": round(time.monotonic() - started, 3),
        }
        self.folder.store_record(self.cell.id, record)
        return record

    def train(self, resumes: bool) -> Ending:
        """Run `damcha train`."""
        if resumes:
            words = ["train", "--resume", str(self.run.path)]
        else:
            words = self.cell.command(self.run.path, threads=self.threads)[1:]
        code, said = self.command(words)
        if code == 0:
            return Ending(State.DONE)
        if code in ASKED_TO_STOP or self.children.stopping.is_set():
            return Ending(State.INTERRUPTED, code)
        if code == 2 and self.folder.is_training(self.cell.id):
            return Ending(State.INTERRUPTED, code)
        diverged = code == NonFiniteError.exit_code
        return Ending(State.DIVERGED if diverged else State.FAILED, code, reason(code, said))

    def score(self) -> Ending:
        """Run `damcha eval --split test` and keep what it says as test.json."""
        output = self.run.path / ".tmp-test-scores"
        output.unlink(missing_ok=True)
        words = ["eval", str(self.run.path), "--split", "test", "--json"]
        try:
            code, said = self.command(words, output)
            if code in ASKED_TO_STOP or self.children.stopping.is_set():
                return Ending(State.INTERRUPTED, code)
            if code != 0:
                return Ending(State.FAILED, code, reason(code, said))
            scores = find_json_object(output)
            if scores is None:
                return Ending(State.FAILED, code, "damcha eval printed no scores")
            replace_json(self.folder.test_file(self.cell.id), scores)
        finally:
            output.unlink(missing_ok=True)
        if not self.folder.has_scores(self.cell.id):
            return Ending(State.FAILED, 0, "test.json scores another checkpoint than result.json")
        return Ending(State.DONE)

    def command(self, words: Sequence[str], output: Path | None = None) -> tuple[int, str]:
        """Run a command of the program; its start is noted in the log.

        Returns:
            Its exit code, and what it said.
        """
        log = self.folder.log(self.cell.id)
        with disk_errors(log), log.open("a", encoding="utf-8") as file:
            file.write(f"$ damcha {shlex.join(words)}\n")
            file.flush()
            start = file.tell()
        code = self.children.run(
            [*PROGRAM, *words],
            log=log,
            output=output,
            environment=child_environment(SOURCE, self.threads),
            inherited=self.lock.inherited,
        )
        with log.open("rb") as told:
            told.seek(start)
            return code, told.read().decode("utf-8", "replace")


def reason(code: int, said: str) -> str:
    """Why a command failed, from its last lines.

    Args:
        code: its exit code.
        said: everything it said.

    Returns:
        At most five lines; from the last error message on, where there is one.
    """
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", said) if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    last = lines[errors[-1] :] if errors else lines[-REASON_LINES:]
    if code < 0:
        last = [*last, f"ended by signal {-code}"]
    return "\n".join(last[-REASON_LINES:])


def main_score(folder: StudyFolder, cell: Cell) -> tuple[str, float | None] | None:
    """Name and value of a finished cell's main metric on the test split."""
    test = find_json_object(folder.test_file(cell.id)) or {}
    metrics = test.get("metrics")
    if not isinstance(metrics, dict) or not metrics:
        return None
    name, metric = next(iter(metrics.items()))
    return name, metric.get("value") if isinstance(metric, dict) else None
