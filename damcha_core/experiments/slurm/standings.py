"""What the queue of a cluster adds to where cells stand by their files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from damcha_core.experiments.cell_run import reason
from damcha_core.experiments.cell_state import Standing, State
from damcha_core.experiments.slurm.queue import Listed, look
from damcha_core.experiments.slurm.submission import Job, last_jobs
from damcha_core.experiments.study_folder import StudyFolder

UNFINISHED = (State.MISSING, State.INTERRUPTED)
LOG_BYTES = 20_000


def with_queue(folder: StudyFolder, standings: Mapping[str, Standing]) -> dict[str, Standing]:
    """Where cells stand, those included whose jobs wait or are at work elsewhere.

    Args:
        folder: of the study.
        standings: by their files alone.

    Raises:
        SlurmUnreachable: squeue gave no answer; it is asked only if jobs may be left.
    """
    known = last_jobs(folder)
    jobs = {
        cell: known[cell]
        for cell, now in standings.items()
        if now.state in UNFINISHED and cell in known
    }
    listed = look(job.array for job in jobs.values())
    told = {cell: job_standing(job, found_in(listed, job)) for cell, job in jobs.items()}
    return {cell: told.get(cell, now) for cell, now in standings.items()}


def found_in(listed: Mapping[str, Listed], job: Job) -> Listed | None:
    """A job in what squeue lists; None: gone, or its number is another job's by now."""
    found = listed.get(job.id)
    return found if found is not None and found.name == job.name else None


def job_standing(job: Job, found: Listed | None) -> Standing:
    """Where an unfinished cell stands by its job.

    Args:
        job: that the cell was last given to.
        found: what squeue lists of it.
    """
    if found is None or not found.alive:
        return without_answer(job, found)
    why = "" if found.reason in ("", "None") else f" ({found.reason})"
    state = State.PENDING if found.waits else State.RUNNING
    return Standing(state, f"job {job.id} {found.state.lower()}{why}")


def without_answer(job: Job, found: Listed | None) -> Standing:
    """Where a cell stands whose job is over, though the cell is not."""
    how = f"ended ({found.state})" if found is not None else "is gone"
    first = f"job {job.id} {how} and left no result; its log: {job.log}"
    return Standing(State.INTERRUPTED, "\n".join([first, *last_error(job)]))


def last_error(job: Job) -> list[str]:
    """The last lines of the last error in the log of a job; none where it tells of none."""
    try:
        with job.log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    life = text.rpartition("Starting with JobEnvironment")[2]
    return reason(0, life).split("\n") if "error: " in life else []


def step_on_disk(folder: StudyFolder, cell: str) -> int:
    """The step of the last line of a run's metrics.jsonl; 0: there is none."""
    import json

    try:
        with folder.run(cell).metrics_file.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            lines = file.read().split(b"\n")
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            found: Any = json.loads(line)
            return int(found["step"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0
