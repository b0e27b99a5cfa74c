"""Slurm's commands as far as a study uses them, over files: sbatch, squeue, srun, scontrol.

Nothing runs by itself: a test says what a job does, and when. Run as a program, this file is one
of the commands; `FakeSlurm` puts them on PATH and looks into their files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = "FAKE_SLURM"
FIRST_ID = 100
COMMANDS = ("sbatch", "squeue", "srun", "scontrol", "scancel")


class FakeSlurm:
    """The commands on PATH, and what they have been asked.

    Args:
        folder: for the programs and their files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        for name in COMMANDS:
            program = self.bin / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} {name} "$@"\n')
            program.chmod(0o755)
        (folder / "jobs.json").write_text("{}")

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process that is to use the commands."""
        path = os.pathsep.join([str(self.bin), os.environ.get("PATH", "")])
        return {"PATH": path, FOLDER: str(self.folder)}

    def calls(self, command: str) -> list[str]:
        """What a command was given, one a call."""
        log = self.folder / "calls"
        lines = log.read_text().split("\n") if log.exists() else []
        return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == command]

    @property
    def jobs(self) -> dict[str, str]:
        """The states of jobs by id."""
        return {job: one["state"] for job, one in read_jobs(self.folder).items()}

    def set_state(self, job: str, state: str, reason: str = "None") -> None:
        """Let a job be in a state; "": Slurm forgets it."""
        jobs = read_jobs(self.folder)
        if state:
            jobs[job] |= {"state": state, "reason": reason}
        else:
            del jobs[job]
        write_jobs(self.folder, jobs)

    def fail(self, command: str, message: str) -> None:
        """Let a command fail with a message; an empty one: let it work again."""
        path = self.folder / f"{command} fails"
        path.write_text(message)
        if not message:
            path.unlink()

    def batch_file(self) -> str:
        """The text of the batch file that was submitted last."""
        return (self.folder / "batch file").read_text()

    def start(self, place: Path, job: str) -> subprocess.Popen[bytes]:
        """Start a job as slurmd does, in a session of its own.

        Args:
            place: the folder that submitit keeps its files in.
            job: id of the job.
        """
        array, _, task = job.partition("_")
        own = {"SLURM_JOB_ID": str(int(array) + 1 + int(task or 0)), "SUBMITIT_EXECUTOR": "slurm"}
        if task:
            own |= {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": task}
        log = place / f"{job}_0_log.out"
        with log.open("ab") as said:
            return subprocess.Popen(
                [sys.executable, "-u", "-m", "submitit.core._submit", str(place)],
                env={**os.environ, **self.environment, **own},
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip


def read_jobs(folder: Path) -> dict[str, dict[str, str]]:
    """What is known of each job."""
    found: dict[str, dict[str, str]] = json.loads((folder / "jobs.json").read_text())
    return found


def write_jobs(folder: Path, jobs: dict[str, dict[str, str]]) -> None:
    """Keep what is known of each job; a reader sees all of it or what was there before."""
    temporary = folder / f"jobs.json.{os.getpid()}"
    temporary.write_text(json.dumps(jobs))
    temporary.replace(folder / "jobs.json")


def sbatch(folder: Path, words: list[str]) -> None:
    """Take a batch file; print the id of the job."""
    text = Path(words[0]).read_text()
    (folder / "batch file").write_text(text)
    jobs = read_jobs(folder)
    number = max([FIRST_ID, *(int(job.partition("_")[0]) + 10 for job in jobs)])
    name = re.search(r"--job-name=(.*)", text)
    array = re.search(r"--array=0-(\d+)", text)
    ids = [f"{number}_{n}" for n in range(int(array[1]) + 1)] if array else [str(number)]
    new = {"state": "PENDING", "reason": "Priority", "name": name[1] if name else ""}
    jobs |= {one: dict(new) for one in ids}
    write_jobs(folder, jobs)
    sys.stdout.write(f"Submitted batch job {number}\n")


def squeue(folder: Path, words: list[str]) -> None:
    """List jobs in the layout that a study asks for."""
    wanted = next(word for word in words if word.startswith("--jobs=")).partition("=")[2].split(",")
    jobs = {job: one for job, one in read_jobs(folder).items() if job.partition("_")[0] in wanted}
    if not jobs:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    for job, one in jobs.items():
        array, _, task = job.partition("_")
        parts = [array, task or "N/A", one["state"], one["reason"], one["name"]]
        sys.stdout.write("|".join(parts) + "\n")


def scontrol(folder: Path, words: list[str]) -> None:
    """Put a job back into the queue."""
    jobs = read_jobs(folder)
    if words[1] in jobs:
        jobs[words[1]] |= {"state": "PENDING", "reason": "BeginTime"}
        write_jobs(folder, jobs)


if __name__ == "__main__":
    here, command, given = Path(os.environ[FOLDER]), sys.argv[1], sys.argv[2:]
    with (here / "calls").open("a") as calls:
        calls.write(f"{command} {' '.join(given)}\n")
    if (here / f"{command} fails").exists():
        sys.exit((here / f"{command} fails").read_text())
    {"sbatch": sbatch, "squeue": squeue, "scontrol": scontrol}[command](here, given)
