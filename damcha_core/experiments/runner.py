"""Working off a study: a few cells at a time, beside any number of other runners.

The queue is the folder. A runner takes a cell by its lock and looks at the files again under it,
so what another runner did meanwhile is seen, and a killed runner leaves nothing to clear up.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from damcha_core.errors import Interrupted, UsageError
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_lock import CellLock
from damcha_core.experiments.cell_preparation import is_left, make_ready
from damcha_core.experiments.cell_run import CellRun, main_score
from damcha_core.experiments.cell_state import (
    UNSUCCESSFUL,
    Standing,
    State,
    planned_identity,
    standing,
)
from damcha_core.experiments.child_processes import ChildProcesses, Stopped
from damcha_core.experiments.data_check import StudyData, read_data
from damcha_core.experiments.identity import code_hash
from damcha_core.experiments.study import Study
from damcha_core.experiments.study_observer import Score, StudyObserver

POLL_SECONDS = 0.5
"""How often cells that other processes work on are looked at."""


@dataclass(frozen=True)
class RunOptions:
    """How a study is worked off.

    Attributes:
        jobs: cells at a time; None: one at a time here, all at once on a cluster.
        retry: take up again what has failed or diverged before this runner started.
        rerun: start over what is out of date; the old run folder is moved aside.
        skip_missing: leave out the tasks whose data are missing.
    """

    jobs: int | None = None
    retry: bool = False
    rerun: bool = False
    skip_missing: bool = False


@dataclass(frozen=True)
class StudyOutcome:
    """What a study came to.

    Attributes:
        standings: of each cell by its id, in the order of the study.
        missing: what was not found, by task that was left out.
    """

    standings: dict[str, Standing]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0, or 1 where a cell failed, diverged or was stopped by someone."""
        bad = (*UNSUCCESSFUL, State.INTERRUPTED)
        return int(any(one.state in bad for one in self.standings.values()))


Executor = Callable[[Study, Sequence[Cell], StudyData, RunOptions, StudyObserver], StudyOutcome]
"""Sees the cells of a study through, whose data are there and whose plan is stored."""


def run_study(
    study: Study,
    options: RunOptions | None = None,
    observer: StudyObserver | None = None,
    *,
    only: Sequence[Cell] | None = None,
    executor: Executor | None = None,
) -> StudyOutcome:
    """Work off a study.

    Args:
        study: what is planned; it is stored in its folder.
        options: how.
        observer: told what happens.
        only: the cells to work on; None: all.
        executor: where they run; None: here, as child processes.

    Returns:
        Where every cell of `only` stands.

    Raises:
        UsageError: jobs is below 1, or the folder holds the study of another suite.
        DataError: data are missing and are not to be skipped; nothing was started.
        DiskError: the folder cannot be written; cells that were at work have been stopped.
        Interrupted: a signal came; cells that were at work have saved themselves.
        Others: as the executor says.
    """
    options = options or RunOptions()
    observer = observer or StudyObserver()
    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs}: give the number of cells at a time, at least 1")
    cells = study.cells if only is None else tuple(only)
    data = read_data(cells, observer.progress)
    if not options.skip_missing:
        data.require_all()
    study.store()
    study.folder.prepare()
    return (executor or run_here)(study, cells, data, options, observer)


def run_here(
    study: Study,
    cells: Sequence[Cell],
    data: StudyData,
    options: RunOptions,
    observer: StudyObserver,
) -> StudyOutcome:
    """The executor of this machine: cells are child processes."""
    return Runner(study, cells, data, options=options, observer=observer).work()


def threads_of_a_job(jobs: int | None) -> int:
    """The cores that this process may use, shared among the cells that run at a time."""
    usable = getattr(os, "sched_getaffinity", None)
    cores = len(usable(0)) if usable is not None else os.cpu_count() or 1
    granted = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if granted.isdigit() and "SLURM_JOB_ID" in os.environ:
        cores = min(cores, int(granted))  # not every cluster binds a job to its cores
    return max(1, cores // (jobs or 1))


class Runner:
    """A pool of threads, each of which sees one cell through at a time.

    Args:
        study: what is planned.
        cells: those of its cells to work on.
        data: what was found of their data.
        options: how.
        observer: told what happens, by one thread at a time.
    """

    def __init__(
        self,
        study: Study,
        cells: Sequence[Cell],
        data: StudyData,
        *,
        options: RunOptions,
        observer: StudyObserver,
    ) -> None:
        self.folder = study.folder
        self.data = data
        self.options = options
        self.observer = observer
        self.cells = [cell for cell in cells if cell.id in data.hashes]
        self.jobs = options.jobs or 1
        self.threads = threads_of_a_job(self.jobs)
        self.children = ChildProcesses()
        self.standings: dict[str, Standing] = {}
        self.pending = list(self.cells)
        # Only what had failed before this runner came is retried: not what another one retries.
        self.failed_before = {cell.id: self.folder.record(cell.id) for cell in self.cells}
        self._queue = threading.Lock()
        self._telling = threading.RLock()
        self._waiting_told = False

    def work(self) -> StudyOutcome:
        """See every cell through.

        Raises:
            DiskError, Interrupted: see run_study.
        """
        for task, text in self.data.missing.items():
            self.observer.notice(f"{task} is left out: {' '.join(text.split())}")
        left = sum(self.failed_before[cell.id] is None for cell in self.cells)
        self.observer.planned(len(self.cells), left)
        with self.children, ThreadPoolExecutor(self.jobs) as pool:
            workers = [pool.submit(self.take_turns) for _ in range(self.jobs)]
            self.await_all(workers)
        if self.children.signal_number:
            raise Interrupted(
                f"stopped by signal {self.children.signal_number}; every cell that was at work "
                f"has saved itself\nthe same command goes on with {self.folder.path}",
                self.children.signal_number,
            )
        order = {cell.id: self.standings[cell.id] for cell in self.cells}
        return StudyOutcome(order, dict(self.data.missing))

    def await_all(self, workers: Sequence[Future[None]]) -> None:
        """Wait for the threads, awake enough to handle signals; the first error stops them all."""
        pending = set(workers)
        while pending:
            done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
            if any(worker.exception() for worker in done):
                self.children.stop()
        for worker in workers:
            worker.result()

    def take_turns(self) -> None:
        """See one cell after the other through, until none is left."""
        while not self.children.stopping.is_set():
            taken = self.take()
            if taken is not None:
                cell, lock = taken
                try:
                    self.see_through(cell, lock)
                except Stopped:
                    return
                finally:
                    lock.release()
            elif not self.pending:
                return
            else:
                self.tell_waiting()
                self.children.stopping.wait(POLL_SECONDS)

    def take(self) -> tuple[Cell, CellLock] | None:
        """The next cell that nobody works on, with its lock held; None: there is none now."""
        with self._queue:
            for cell in self.pending:
                lock = self.folder.lock(cell.id)
                if not lock.acquire():
                    continue
                if self.folder.is_training(cell.id):
                    lock.release()
                    continue
                self.pending.remove(cell)
                return cell, lock
        return None

    def tell_waiting(self) -> None:
        """Say once what other processes are at work on."""
        with self._telling:
            if not self._waiting_told:
                self._waiting_told = True
                self.observer.waiting(tuple(self.pending))

    def see_through(self, cell: Cell, lock: CellLock) -> None:
        """Do what is left to do of a cell."""
        run = self.folder.run(cell.id)
        identity = planned_identity(cell, run.path, code_hash(), self.data.hashes[cell.id])
        now = standing(self.folder, cell, identity)
        if not is_left(
            now,
            retry=self.options.retry,
            rerun=self.options.rerun,
            failed_before=self.failed_before[cell.id],
        ):
            self.tell_finished(cell, now, 0.0)
            return
        resumes = make_ready(self.folder, cell, now, identity)
        with self._telling:
            self.observer.started(cell, resumed=resumes)
        started = time.monotonic()
        work = CellRun(cell, self.folder, lock=lock, children=self.children, threads=self.threads)
        begun = self.folder.begun(cell.id) or identity.to_mapping()
        record = work.carry_out(begun, resumes=resumes)
        if record is None and self.folder.is_training(cell.id):
            with self._queue:  # someone trains it by hand: later
                self.pending.append(cell)
            return
        self.tell_finished(cell, standing(self.folder, cell, identity), time.monotonic() - started)

    def tell_finished(self, cell: Cell, now: Standing, seconds: float) -> None:
        """Keep where a cell stands and tell it, unless nothing happened."""
        found: Any = main_score(self.folder, cell) if now.state is State.DONE else None
        with self._telling:
            self.standings[cell.id] = now
            self.observer.finished(cell, now, Score(*found) if found else None, seconds)
