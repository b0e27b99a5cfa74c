"""Submitting cells as one job array, and remembering which job has which cell.

<study>/slurm/<job>.json              the cells of a submission, in the order of its tasks
<study>/slurm/<job>_<task>_0_log.out  what the job of a cell said, over all of its lives
<study>/slurm/...                     what submitit keeps: the batch file, and its own callable
"""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from damcha_core.errors import UsageError
from damcha_core.experiments.cell import PROGRAM, Cell
from damcha_core.experiments.cell_run import SOURCE
from damcha_core.experiments.slurm.job_options import JobOptions
from damcha_core.experiments.slurm.task import SlurmTask
from damcha_core.experiments.study_folder import StudyFolder
from damcha_core.files import disk_errors, find_json_object, replace_json

SCHEMA = 1
FOLDER = "slurm"
COMMAND = (sys.executable, "-m", "damcha_cli")
ALL_AT_ONCE = 256
"""How many tasks of an array may run at once where nothing is said."""


@dataclass(frozen=True)
class Job:
    """The job that a cell was last given to.

    Attributes:
        id: as Slurm writes it: 123, or 123_4 for a task of an array.
        name: of the job.
        log: what it says.
    """

    id: str
    name: str
    log: Path

    @property
    def array(self) -> str:
        """The id without the task, which names the whole submission."""
        return self.id.partition("_")[0]


def job_name(folder: StudyFolder) -> str:
    """What the jobs of a study are called."""
    return f"damcha-{folder.path.resolve().name}"


def cell_words(folder: StudyFolder, cell: Cell) -> list[str]:
    """The command of a job, less the program: the study as stored, this cell alone."""
    return ["suite", "run", str(folder.path.resolve()), "--only", cell.id, "--jobs", "1"]


def printed_command(folder: StudyFolder, cell: Cell) -> str:
    """The command of a job, for a shell."""
    return shlex.join([PROGRAM, *cell_words(folder, cell)])


def submit(
    folder: StudyFolder, cells: Sequence[Cell], options: JobOptions, *, at_a_time: int | None
) -> dict[str, Job]:
    """Submit cells as one array, and keep a note of it.

    Args:
        folder: of the study, which holds its suite.toml.
        cells: at least one.
        options: what is asked of Slurm.
        at_a_time: how many may run at once; None: as many as Slurm finds room for.

    Returns:
        The job of each cell by the cell's id.

    Raises:
        UsageError: sbatch refused, or the folder's name has a sign that Slurm replaces.
        DiskError: the note cannot be written.
    """
    import submitit
    from submitit.core.utils import FailedSubmissionError, UncompletedJobError

    place = folder.path.resolve() / FOLDER
    if "%" in str(place) or "\\" in str(place):
        raise UsageError(
            f"{folder.path}: Slurm replaces % and \\ in names of files; choose another --out"
        )
    with disk_errors(place):
        place.mkdir(parents=True, exist_ok=True)
    name = job_name(folder)
    tasks = [
        SlurmTask([*COMMAND, *cell_words(folder, cell)], str(folder.run(cell.id).path.resolve()))
        for cell in cells
    ]
    executor = submitit.SlurmExecutor(folder=place, max_num_timeout=options.max_timeouts)
    parameters = options.parameters(name, at_a_time or ALL_AT_ONCE)
    source = f"export PYTHONPATH={shlex.quote(str(SOURCE))}${{PYTHONPATH:+:$PYTHONPATH}}"
    executor.update_parameters(**parameters, setup=[source, *options.setup])
    try:
        # submitit repeats there what sbatch said; it is in the error, too.
        with contextlib.redirect_stderr(io.StringIO()), disk_errors(place):
            ids = [str(job.job_id) for job in executor.submit_array(tasks)]
    except (UncompletedJobError, FailedSubmissionError) as error:
        said = " ".join(str(error).split()) or "it said nothing"
        raise UsageError(f"sbatch did not take the jobs: {said}\nnothing was submitted") from error
    array = ids[0].partition("_")[0]
    record = {
        "schema": SCHEMA,
        "job": array,
        "name": name,
        "submitted": time.time(),
        "cells": {cell.id: one for cell, one in zip(cells, ids, strict=True)},
    }
    replace_json(place / f"{array}.json", record)
    return {cell: Job(one, name, log_of(place, one)) for cell, one in record_cells(record)}


def log_of(place: Path, job: str) -> Path:
    """Where a job says what it has to say."""
    return place / f"{job}_0_log.out"


def record_cells(record: dict[str, object]) -> Iterator[tuple[str, str]]:
    """The cells of a note, each with its job."""
    cells = record.get("cells")
    if isinstance(cells, dict):
        yield from ((str(cell), str(job)) for cell, job in cells.items())


def last_jobs(folder: StudyFolder) -> dict[str, Job]:
    """The job that each cell was last given to, by the cell's id; those never submitted lack."""
    place = folder.path.resolve() / FOLDER
    notes = [note for path in place.glob("*.json") if (note := find_json_object(path)) is not None]
    notes.sort(key=lambda note: float(note.get("submitted", 0)))
    return {
        cell: Job(job, str(note.get("name", "")), log_of(place, job))
        for note in notes
        for cell, job in record_cells(note)
    }
