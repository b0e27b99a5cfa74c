"""What the commands of `damcha suite` print at their end."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from damcha_cli.output import duration, notice, print_json, print_table, say, score
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_run import main_score
from damcha_core.experiments.cell_state import (
    UNSUCCESSFUL,
    Standing,
    State,
    planned_identity,
    seen_standing,
)
from damcha_core.experiments.data_check import read_data
from damcha_core.experiments.identity import UNKNOWN, code_hash
from damcha_core.experiments.runner import StudyOutcome, threads_of_a_job
from damcha_core.experiments.slurm.job_options import JobOptions
from damcha_core.experiments.slurm.queue import SlurmUnreachable
from damcha_core.experiments.slurm.standings import with_queue
from damcha_core.experiments.slurm.submission import ALL_AT_ONCE, job_name, printed_command
from damcha_core.experiments.study import Study


def print_commands(study: Study, cells: Sequence[Cell], jobs: int | None) -> None:
    """The command of every cell, one a line, for a shell."""
    threads = threads_of_a_job(max(1, jobs or 1))
    for cell in cells:
        say(shlex.join(cell.command(study.folder.run(cell.id).path, threads=threads)))


def print_jobs(study: Study, cells: Sequence[Cell], options: JobOptions, jobs: int | None) -> None:
    """What Slurm would be asked for, as a comment, and the command of each job, one a line."""
    at_a_time = max(1, jobs or ALL_AT_ONCE)
    say(f"# {shlex.join(options.sbatch_words(job_name(study.folder), len(cells), at_a_time))}")
    for cell in cells:
        say(printed_command(study.folder, cell))


def print_outcome(
    study: Study, cells: Sequence[Cell], outcome: StudyOutcome, as_json: bool
) -> None:
    """What a study came to."""
    if as_json:
        print_json({**study_record(study, cells, outcome.standings), "left_out": outcome.missing})
        return
    print_cells(study, cells, outcome.standings)


def print_status(study: Study, *, check_data: bool, as_json: bool) -> None:
    """How far a study has come."""
    standings = seen_standings(study, check_data=check_data)
    if as_json:
        print_json(study_record(study, study.cells, standings))
    else:
        print_cells(study, study.cells, standings)


def print_overview(studies: Sequence[Study], as_json: bool) -> None:
    """How far several studies have come, one a line."""
    found = {study.folder.path: seen_standings(study, check_data=False) for study in studies}
    if as_json:
        print_json(
            [study_record(study, study.cells, found[study.folder.path]) for study in studies]
        )
        return
    states = [state for state in State if any(state in counts(of) for of in found.values())]
    rows = [
        [str(path), str(len(of)), *(str(counts(of)[state]) for state in states)]
        for path, of in found.items()
    ]
    print_table("studies", ["folder", "cells", *map(str, states)], rows)


def seen_standings(study: Study, *, check_data: bool) -> dict[str, Standing]:
    """Where each cell stands, without working on any."""
    code = code_hash()
    hashes: Mapping[str, str] = read_data(study.cells).hashes if check_data else {}
    found = {
        cell.id: seen_standing(
            study.folder,
            cell,
            planned_identity(
                cell, study.folder.run(cell.id).path, code, hashes.get(cell.id, UNKNOWN)
            ),
        )
        for cell in study.cells
    }
    try:
        return with_queue(study.folder, found)
    except SlurmUnreachable as problem:
        notice(f"note: jobs of {study.folder.path} are not looked up: {problem}")
        return found


def counts(standings: Mapping[str, Standing]) -> Counter[State]:
    """How many cells are in each state."""
    return Counter(standing.state for standing in standings.values())


def study_record(
    study: Study, cells: Sequence[Cell], standings: Mapping[str, Standing]
) -> dict[str, Any]:
    """A study in plain types."""
    return {
        "folder": str(study.folder.path),
        "suite": study.name,
        "states": {str(state): n for state, n in counts(standings).items()},
        "cells": [
            cell_record(study, cell, standings[cell.id]) for cell in cells if cell.id in standings
        ],
    }


def cell_record(study: Study, cell: Cell, standing: Standing) -> dict[str, Any]:
    """A cell in plain types."""
    found = main_score(study.folder, cell)
    record = standing.record or {}
    return {
        "cell": cell.id,
        "task": cell.task,
        "attention": cell.attention,
        "seed": cell.seed,
        "state": str(standing.state),
        "reason": standing.reason,
        "metric": found[0] if found else None,
        "value": found[1] if found else None,
        "seconds": record.get("seconds"),
    }


def print_cells(study: Study, cells: Sequence[Cell], standings: Mapping[str, Standing]) -> None:
    """A table of cells, how many there are of each state, and the reasons of failures."""
    rows = []
    for cell in cells:
        if cell.id in standings:
            record = cell_record(study, cell, standings[cell.id])
            seconds = record["seconds"]
            value = f"{record['metric']} {score(record['value'])}" if record["metric"] else ""
            took = "" if seconds is None else duration(seconds)
            rows.append([cell.id, record["state"], value, took])
    title = f"{study.folder.path}: {summary(standings)}"
    print_table(title, ["cell", "state", "test score", "time"], rows)
    for name, standing in standings.items():
        if standing.state in UNSUCCESSFUL:
            notice(f"{name} {standing.state}: {standing.reason.partition(chr(10))[0]}")
            notice(f"    log: {study.folder.log(name)}")
        elif standing.reason and standing.state is State.INTERRUPTED:  # by its job
            notice(f"{name} {standing.state}: {standing.reason}")


def summary(standings: Mapping[str, Standing]) -> str:
    """Such as "27 of 28 done, 1 failed"."""
    found = counts(standings)
    rest = [
        f"{found[state]} {state}" for state in State if state is not State.DONE and found[state]
    ]
    return ", ".join([f"{found[State.DONE]} of {len(standings)} done", *rest])
