"""The executor of a Slurm cluster: what is left of a study becomes one job array."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType

from damcha_core.errors import Interrupted
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_state import Standing, State
from damcha_core.experiments.data_check import StudyData
from damcha_core.experiments.runner import RunOptions, StudyOutcome
from damcha_core.experiments.slurm.follower import Follower
from damcha_core.experiments.slurm.hand_out import hand_out
from damcha_core.experiments.slurm.job_options import JobOptions, read_job_options
from damcha_core.experiments.slurm.ledger import Ledger
from damcha_core.experiments.slurm.queue import look, require_slurm
from damcha_core.experiments.slurm.standings import found_in, job_standing
from damcha_core.experiments.study import Study
from damcha_core.experiments.study_observer import StudyObserver
from damcha_core.train.signals import SignalWatch

POLL_SECONDS = 2.0
"""How often is looked at first; more and more seldom later."""
LONGEST_POLL_SECONDS = 30.0


@dataclass(frozen=True)
class SlurmExecutor:
    """Gives the cells that are left to Slurm, and waits for them.

    Attributes:
        options: what is asked of Slurm for each job.
        waits: whether to wait until every cell has ended.
    """

    options: JobOptions = field(default_factory=read_job_options)
    waits: bool = True

    def __call__(
        self,
        study: Study,
        cells: Sequence[Cell],
        data: StudyData,
        options: RunOptions,
        observer: StudyObserver,
    ) -> StudyOutcome:
        """See the cells through.

        Raises:
            UsageError: this machine cannot submit jobs, or sbatch refused; nothing was submitted.
            SlurmUnreachable: squeue gave no answer, before anything was submitted or for long.
            DiskError: the folder cannot be written.
            Interrupted: a signal came while it waited; the jobs go on.
        """
        require_slurm()
        ledger = Ledger(study, cells, data, options, observer)
        for task, text in data.missing.items():
            observer.notice(f"{task} is left out: {' '.join(text.split())}")
        observer.planned(len(ledger.cells), ledger.n_open)
        with Watch() as watch:
            hand_out(ledger, ledger.cells, self.options)
            if self.waits:
                self.wait(ledger, watch)
            else:
                leave(ledger)
        order = {cell.id: ledger.standings[cell.id] for cell in ledger.cells}
        return StudyOutcome(order, dict(data.missing))

    def wait(self, ledger: Ledger, watch: Watch) -> None:
        """Follow all cells to their ends.

        Raises:
            UsageError, SlurmUnreachable, DiskError, Interrupted: see above.
        """
        follower, started = Follower(ledger), time.monotonic()
        while ledger.waiting:
            waited = time.monotonic() - started
            watch.pause(min(LONGEST_POLL_SECONDS, POLL_SECONDS + waited / 20))
            if watch.signal_number:
                raise interrupted(ledger, watch.signal_number)
            free = follower.look()
            if free:
                for cell in free:
                    del ledger.waiting[cell.id]
                hand_out(ledger, free, self.options)


class Watch(SignalWatch):
    """Ctrl-C and SIGTERM end the waiting; a second one ends this process at once."""

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number:
            os._exit(128 + number)
        super()._handle(number, frame)

    def pause(self, seconds: float) -> None:
        """Sleep, but not over a signal."""
        until = time.monotonic() + seconds
        while not self.signal_number and (left := until - time.monotonic()) > 0:
            time.sleep(min(0.1, left))


def leave(ledger: Ledger) -> None:
    """Note where the cells stand that are left in the hands of others.

    Raises:
        SlurmUnreachable: squeue gave no answer.
    """
    waiting = ledger.waiting
    listed = look(one.job.array for one in waiting.values() if one.job is not None)
    for name, one in waiting.items():
        if one.job is None:
            ledger.standings[name] = Standing(State.RUNNING)
            continue
        found = found_in(listed, one.job)
        # Slurm may not list yet what it took a moment ago.
        taken = Standing(State.PENDING, f"job {one.job.id}")
        known = found is not None and found.alive
        ledger.standings[name] = job_standing(one.job, found) if known else taken


def interrupted(ledger: Ledger, number: int) -> Interrupted:
    """What is said when a signal ends the waiting."""
    arrays = dict.fromkeys(one.job.array for one in ledger.waiting.values() if one.job)
    cancel = f"; scancel {' '.join(arrays)} ends them" if arrays else ""
    return Interrupted(
        f"stopped waiting by signal {number}; the jobs go on{cancel}\n"
        f"the same command waits on, and damcha suite status {ledger.folder.path} tells of them",
        number,
    )
