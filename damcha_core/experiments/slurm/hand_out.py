"""Giving to Slurm what is left of a study and nobody has in hand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from filelock import FileLock, Timeout

from damcha_core.errors import UsageError
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_preparation import make_ready
from damcha_core.experiments.cell_state import Standing
from damcha_core.experiments.slurm.job_options import JobOptions
from damcha_core.experiments.slurm.ledger import Ledger
from damcha_core.experiments.slurm.queue import look
from damcha_core.experiments.slurm.standings import found_in
from damcha_core.experiments.slurm.submission import FOLDER, last_jobs, submit
from damcha_core.files import disk_errors

SUBMITTER_SECONDS = 120.0
"""How long another submitter of the same study is waited for."""


def hand_out(ledger: Ledger, cells: Sequence[Cell], job_options: JobOptions) -> None:
    """Submit what is left of some cells as one array; note who has the others in hand.

    Args:
        ledger: of the study; it is brought up to date.
        cells: some of its cells.
        job_options: what is asked of Slurm.

    Raises:
        UsageError: sbatch refused, or another process is submitting all the time.
        SlurmUnreachable: squeue does not say what is in the queue already.
        DiskError: the folder cannot be written.
    """
    place = ledger.folder.path / FOLDER
    with disk_errors(place):
        place.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(FileLock(place / ".submitting", timeout=SUBMITTER_SECONDS))
        except Timeout:
            raise UsageError(
                f"another process has been submitting jobs of {ledger.folder.path} for "
                f"{SUBMITTER_SECONDS:g} s; try again when it is through"
            ) from None
        left = sort_out(ledger, cells, held)
        if not left:
            return
        # Submitted before anything is cleared away: a refusal changes nothing, and a job that
        # starts at once waits for the locks.
        mine = [cell for cell, _ in left]
        jobs = submit(ledger.folder, mine, job_options, at_a_time=ledger.options.jobs)
        for cell, now in left:
            make_ready(ledger.folder, cell, now, ledger.identity(cell))
            ledger.put_in_hand(cell, jobs[cell.id])
    first = jobs[mine[0].id]
    ledger.observer.submitted(first.array, tuple(mine), first.log.parent)


def sort_out(ledger: Ledger, cells: Sequence[Cell], held: ExitStack) -> list[tuple[Cell, Standing]]:
    """What is to be submitted, with where it stands; the locks of those cells are held."""
    known = last_jobs(ledger.folder)
    listed = look(known[cell.id].array for cell in cells if cell.id in known)
    left: list[tuple[Cell, Standing]] = []
    elsewhere: list[Cell] = []
    for cell in cells:
        job = known.get(cell.id)
        found = found_in(listed, job) if job is not None else None
        if found is not None and found.alive:
            ledger.put_in_hand(cell, job)
            continue
        lock = ledger.folder.lock(cell.id)
        taken = lock.acquire()
        if taken:
            held.callback(lock.release)
        if not taken or ledger.folder.is_training(cell.id):
            ledger.put_in_hand(cell, None)
            elsewhere.append(cell)
            continue
        now = ledger.standing(cell)
        if ledger.is_left(cell, now):
            left.append((cell, now))
        else:
            ledger.tell_finished(cell, now)
    if elsewhere:
        ledger.observer.waiting(tuple(elsewhere))
    return left
