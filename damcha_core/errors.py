"""Errors that are the user's to mend, each with the exit code the command line ends with.

Anything else that is raised is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence


class DamchaError(Exception):
    """A problem to report in plain words: what happened, why, and what to do next."""

    exit_code = 1


class UsageError(DamchaError):
    """A command, flag or combination of them that cannot be carried out."""

    exit_code = 2


class ConfigError(UsageError, ValueError):
    """Settings that are not valid; every problem found is listed, not the first alone.

    Args:
        problems: one plain line each, naming the place, the value and what is allowed.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class DataError(DamchaError):
    """A data set that is missing, incomplete or not what it claims to be."""

    exit_code = 3


class CheckpointError(DamchaError):
    """A run or a checkpoint that is missing, damaged or made for something else."""

    exit_code = 4


class NonFiniteError(DamchaError):
    """A loss or a gradient that is NaN or infinite; the weights were not changed by it."""

    exit_code = 5


class OutOfMemoryError(DamchaError):
    """The device or the machine has too little memory for the settings."""

    exit_code = 6


class DiskError(DamchaError):
    """The disk is full or cannot be written."""

    exit_code = 7


class Interrupted(DamchaError):  # noqa: N818 (being asked to stop is no error)
    """A signal asked the run to stop; its state has been saved.

    Args:
        message: where the state is and how to go on.
        signal_number: 2 (SIGINT) gives exit code 130, 15 (SIGTERM) gives 143.
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class ShapeError(ValueError):
    """A tensor whose shape does not fit the layer or the other tensors it came with."""


FAILED_ALLOCATIONS = (
    "DefaultCPUAllocator",
    "can't allocate memory",
    "out of memory",
    "bad_alloc",
    "ALLOC_FAILED",
)
"""Words of torch, of the C++ library, and of CUDA's libraries, in this order."""


def is_failed_allocation(error: BaseException) -> bool:
    """Whether an error says that there was too little memory, of the machine or of a device.

    torch has a class of its own for it on CUDA alone; elsewhere the text has to tell.

    Args:
        error: anything that was raised.
    """
    if isinstance(error, MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and any(words in text for words in FAILED_ALLOCATIONS)
