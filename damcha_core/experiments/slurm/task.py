"""What runs inside a job: a command line, saved and put back into the queue by the time limit."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

BARREN_LIVES = 3
"""After so many lives in a row that saved nothing new, a job is not put back any more."""
HOLD_SECONDS = 300.0
"""How long a job that Slurm told to stop waits to be ended, or put back, by Slurm itself."""
ASKED_TO_STOP = (130, 143, -signal.SIGINT, -signal.SIGTERM)
WARNINGS = ("SIGUSR1", "SIGUSR2")
"""Signals that tell of a near end; Slurm may send them to every process of a job."""


class SlurmTask:
    """A command line as a job; submitit stores this object and calls it when the job starts.

    It holds plain text alone. The run folder is the memory from one life to the next.

    Args:
        command: program and arguments.
        run: the run folder that the command works on.
        barren: how many lives in a row have saved nothing new.
    """

    def __init__(self, command: Sequence[str], run: str, barren: int = 0) -> None:
        self.command = list(command)
        self.run = run
        self.barren = barren

    def __call__(self) -> None:
        """Run the command to its end, and end as it did.

        Raises:
            SystemExit: with its exit code, where that is not 0.
        """
        self.before = saved(Path(self.run))
        # Handed on from here: some clusters signal the first process of a job alone.
        signal.signal(signal.SIGTERM, self.hand_on)
        self.child = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, preexec_fn=ignore_warnings
        )
        wait_for(self.child.pid)
        code = self.child.wait()
        if code in ASKED_TO_STOP:
            time.sleep(HOLD_SECONDS)  # preempted or cancelled: what follows is Slurm's
        if code:
            raise SystemExit(code if code > 0 else 128 - code)

    def hand_on(self, number: int, _frame: FrameType | None) -> None:
        """Ask the command to save itself and to stop."""
        if not ended(self.child.pid):
            os.kill(self.child.pid, number)

    def checkpoint(self) -> DelayedSubmission | None:
        """Called by submitit when the time limit is near, within a signal handler.

        Returns:
            What the next life of the job does; None: there is nothing that it could do.
        """
        from submitit.helpers import DelayedSubmission

        self.hand_on(signal.SIGTERM, None)
        code = wait_for(self.child.pid)
        if code not in (*ASKED_TO_STOP, None):
            return None  # it came to an end of its own
        barren = 0 if saved(Path(self.run)) != self.before else self.barren + 1
        if barren >= BARREN_LIVES:
            # Into the log of the job, where its error is looked for.
            logging.getLogger(__name__).error(
                "error: %d lives of this job in a row ended before anything new was saved\n"
                "  give it more time (--slurm time=...), or save more often "
                "(--set train.save_every_steps=...)",
                barren,
            )
            return None
        return DelayedSubmission(SlurmTask(self.command, self.run, barren))


def ignore_warnings() -> None:
    """Make the coming program deaf to what is meant for this one; by default it would end it."""
    for name in WARNINGS:
        signal.signal(signal.Signals[name], signal.SIG_IGN)


def wait_for(child: int) -> int | None:
    """Wait until a child process has ended, and leave it to be collected.

    Popen.wait holds a lock, on which a signal handler would wait for ever.

    Args:
        child: its id.

    Returns:
        Its exit code; -N: ended by signal N; None: it has been collected already.
    """
    try:
        found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return None
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def ended(child: int) -> bool:
    """Whether a child process has ended."""
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def saved(run: Path) -> tuple[str, ...]:
    """What a run folder has kept so far: the name of its last checkpoint, and its results."""
    try:
        last = (run / "checkpoints" / "last").read_text(encoding="utf-8")
    except OSError:
        last = ""
    return (last, *(name for name in ("result.json", "test.json") if (run / name).is_file()))
