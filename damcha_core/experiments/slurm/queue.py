"""What Slurm says of jobs, by squeue alone: many clusters keep no accounts that sacct could ask."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from damcha_core.errors import DamchaError, UsageError

PROGRAMS = ("sbatch", "squeue", "srun", "scontrol")
ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
"""States of a job that comes to nothing more; in every other one it may still run."""
FORMAT = "%F|%K|%T|%r|%j"
ANSWER_SECONDS = 60.0
UNKNOWN_ID = "Invalid job id"


class SlurmUnreachable(DamchaError):  # noqa: N818 (named for what is the case)
    """squeue gave no answer."""


@dataclass(frozen=True)
class Listed:
    """A job as squeue lists it.

    Attributes:
        state: Slurm's word, such as "PENDING".
        reason: why it is in that state, as far as Slurm says; such as "Resources".
        name: of the job.
    """

    state: str
    reason: str
    name: str

    @property
    def alive(self) -> bool:
        """Whether it may still run."""
        return self.state not in ENDED

    @property
    def waits(self) -> bool:
        """Whether it is in the queue and not at work."""
        return self.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")


def require_slurm() -> None:
    """Refuse a machine that cannot submit jobs.

    Raises:
        UsageError: Slurm's programs, or submitit, are not there.
    """
    from importlib.util import find_spec

    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        raise UsageError(
            f"--executor slurm: {', '.join(absent)} not on PATH; run it where sbatch works, on a "
            "login node of the cluster, or leave it out"
        )
    if find_spec("submitit") is None:
        raise UsageError('--executor slurm needs submitit: pip install "damcha[cluster]"')


def look(jobs: Iterable[str]) -> dict[str, Listed]:
    """What squeue lists of some jobs.

    Args:
        jobs: ids of jobs or of whole arrays, without the numbers of their tasks.

    Returns:
        By id: "123" of a job, "123_0" of a task of an array. What Slurm no longer knows is absent;
        so is a task that was cancelled while it waited.

    Raises:
        SlurmUnreachable: there was no answer.
    """
    wanted = sorted(set(jobs))
    if not wanted:
        return {}
    command = ["squeue", "--noheader", "--array", "--states=all", f"--format={FORMAT}"]
    try:
        done = subprocess.run(
            [*command, f"--jobs={','.join(wanted)}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
            start_new_session=True,  # a Ctrl-C is for us to handle
        )
    except subprocess.TimeoutExpired:
        raise SlurmUnreachable(f"squeue gave no answer in {ANSWER_SECONDS:g} s") from None
    except OSError as error:
        raise SlurmUnreachable(f"squeue cannot be run: {error.strerror}") from None
    said = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode and UNKNOWN_ID not in said:
        raise SlurmUnreachable(" ".join(said.split()) or f"squeue ended with {done.returncode}")
    return parsed(done.stdout.decode("utf-8", "replace"))


def parsed(text: str) -> dict[str, Listed]:
    """The jobs in the output of squeue, by id."""
    found = {}
    for line in text.splitlines():
        parts = line.strip().split("|", 4)
        if len(parts) == 5:
            job, task, state, reason, name = parts
            found[f"{job}_{task}" if task.isdigit() else job] = Listed(state, reason, name)
    return found
