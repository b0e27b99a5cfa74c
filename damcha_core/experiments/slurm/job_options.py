"""What may be asked of Slurm for the jobs of a study, and what is asked where nothing is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from damcha_core.catalog.names import choices
from damcha_core.errors import UsageError

LONGEST_SHOWN = 64
TIME = re.compile(r"(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?", re.ASCII)
USUAL_NAMES = {
    "walltime": "time",
    "timelimit": "time",
    "queue": "partition",
    "memory": "mem",
    "cpus": "cpus-per-task",
    "ntasks": "cpus-per-task",
    "gpus-per-node": "gpus",
    "project": "account",
}
"""Names from elsewhere, for the hint in a refusal."""


def minutes(text: str) -> int:
    """A time limit as sbatch reads it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S.

    Args:
        text: as typed.

    Returns:
        Whole minutes, rounded up.

    Raises:
        ValueError: it is none, or no time at all.
    """
    found = TIME.fullmatch(text)
    if found is None:
        raise ValueError("a time as sbatch has it, such as 90, 4:00:00 or 2-00")
    days, first, second, third = (int(part or 0) for part in found.groups())
    if found[1] is not None:
        seconds = ((days * 24 + first) * 60 + second) * 60 + third
    elif found[4] is not None:
        seconds = (first * 60 + second) * 60 + third
    else:
        seconds = first * 60 + second
    if seconds == 0:
        raise ValueError("a time above 0, such as 90, 4:00:00 or 2-00")
    return -(-seconds // 60)


def whole(least: int) -> Callable[[str], int]:
    """A reader of whole numbers from a least one on."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < least:
            raise ValueError(f"a whole number, at least {least}")
        return int(text)

    return read


def word(text: str) -> str:
    """Text on one line, handed to Slurm as it is."""
    if not text or any(ord(letter) < 32 for letter in text):
        raise ValueError("text on one line")
    return text


@dataclass(frozen=True)
class JobKey:
    """A key of `--slurm KEY=VALUE`.

    Attributes:
        parameter: its name in submitit; empty: sbatch is handed the key itself.
        meaning: what the value means.
        default: what holds where it is not given; None: what the cluster has.
        read: from text to value; a ValueError says what would do.
    """

    parameter: str
    meaning: str
    default: object = None
    read: Callable[[str], object] = word


KEYS: Mapping[str, JobKey] = MappingProxyType(
    {
        "time": JobKey("time", "limit of one life of a job; it goes on in the next", 240, minutes),
        "cpus-per-task": JobKey("cpus_per_task", "cores, and threads of a cell", 2, whole(1)),
        "mem": JobKey("mem", "memory of a job, such as 8G"),
        "mem-per-cpu": JobKey("mem_per_cpu", "memory for each core"),
        "gpus": JobKey("gpus_per_node", "GPUs of a job, such as 1 or a100:1"),
        "gres": JobKey("gres", "generic resources, such as gpu:1"),
        "partition": JobKey("partition", "partition, or several with commas between"),
        "account": JobKey("account", "account that is charged"),
        "qos": JobKey("qos", "quality of service"),
        "reservation": JobKey("", "reservation"),
        "constraint": JobKey("constraint", "features that a node must have"),
        "nodelist": JobKey("nodelist", "nodes to use"),
        "exclude": JobKey("exclude", "nodes to leave out"),
        "mail-type": JobKey("mail_type", "events that send a mail"),
        "mail-user": JobKey("mail_user", "who gets it"),
        "setup": JobKey("setup", "shell line before the command (module load cuda); repeatable"),
        "signal-delay": JobKey(
            "signal_delay_s", "seconds before the limit at which a cell saves itself", 120, whole(1)
        ),
        "max-timeouts": JobKey("", "lives a job may have beyond its first", 100, whole(0)),
    }
)
"""The one home of the keys and of their defaults."""
OURS = ("setup", "max-timeouts", "signal-delay")
"""Keys that sbatch does not have."""


@dataclass(frozen=True)
class JobOptions:
    """What is asked of Slurm for each job of a study.

    Attributes:
        values: by key of KEYS; those left to the cluster are absent.
    """

    values: Mapping[str, object]

    @property
    def cpus(self) -> int:
        """Cores of a job."""
        return int(str(self.values["cpus-per-task"]))

    @property
    def max_timeouts(self) -> int:
        """How often a job may be put back into the queue by its time limit."""
        return int(str(self.values["max-timeouts"]))

    def parameters(self, name: str, at_a_time: int) -> dict[str, object]:
        """What submitit is to be told.

        Args:
            name: of the job.
            at_a_time: how many tasks of the array may run at once.
        """
        named = {
            KEYS[key].parameter: value
            for key, value in self.values.items()
            if KEYS[key].parameter and key != "setup"
        }
        # A job that may not be requeued would lose its next life; what sbatch is granted, srun
        # of Slurm 22.05 and later does not take over by itself.
        plain: dict[str, object] = {"requeue": True}
        plain |= {key: value for key, value in self.values.items() if key == "reservation"}
        return {
            **named,
            "job_name": name,
            "array_parallelism": at_a_time,
            "additional_parameters": plain,
            "srun_args": ["--cpus-per-task", str(self.cpus)],
            "stderr_to_stdout": True,
            "wckey": None,
        }

    @property
    def setup(self) -> list[str]:
        """Shell lines that come before the command."""
        lines = self.values.get("setup", ())
        return list(lines) if isinstance(lines, tuple) else []

    def sbatch_words(self, name: str, n_tasks: int, at_a_time: int) -> list[str]:
        """The sbatch command that stands for what submitit submits, for people to read."""
        words = ["sbatch", f"--job-name={name}"]
        if n_tasks > 1:
            words.append(f"--array=0-{n_tasks - 1}%{min(n_tasks, at_a_time)}")
        words += [f"--{key}={value}" for key, value in self.values.items() if key not in OURS]
        return [*words, f"--signal=USR2@{self.values['signal-delay']}", "--requeue"]


def read_job_options(given: Sequence[str] = ()) -> JobOptions:
    """The options of `--slurm`.

    Args:
        given: "key=value" each; hyphens and underscores are alike.

    Raises:
        UsageError: a key is not known or given twice, a value does not fit, or the time limit is
            no longer than the time for saving.
    """
    values: dict[str, object] = {
        key: known.default for key, known in KEYS.items() if known.default is not None
    }
    seen: set[str] = set()
    for one in given:
        key, equals, text = one.partition("=")
        key = key.strip().lstrip("-").replace("_", "-")
        shown = f"--slurm {one[:LONGEST_SHOWN]!a}"
        if not equals:
            raise UsageError(f"{shown}: write KEY=VALUE, such as time=4:00:00")
        if key not in KEYS:
            hint = choices(USUAL_NAMES.get(key.casefold(), key), KEYS)
            raise UsageError(f"{shown}: there is no key {key[:LONGEST_SHOWN]!a}; {hint}")
        if key in seen and key != "setup":
            raise UsageError(f"{shown}: {key} is given twice")
        seen.add(key)
        try:
            value = KEYS[key].read(text.strip())
        except ValueError as problem:
            raise UsageError(f"{shown}: give {problem}") from None
        values[key] = (*values.get(key, ()), value) if key == "setup" else value  # type: ignore[misc]
    limit = int(str(values["time"])) * 60
    if int(str(values["signal-delay"])) >= limit:
        raise UsageError(
            f"--slurm signal-delay={values['signal-delay']}: the time limit itself is {limit} s; "
            "give a longer time or a shorter signal-delay"
        )
    return JobOptions(MappingProxyType(values))
