"""The processes that train one run together, as the training code sees them.

Most runs have one process: `World`, in which every agreement is the plain call. Several processes
(`damcha_core.train.process_group`) offer the same methods, so that the training code asks once and
knows of no rank where it need not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from damcha_core.errors import DamchaError, UsageError

if TYPE_CHECKING:
    import torch
    from torch import nn

    from damcha_core.train.signals import StopFlag, StopRequest

T = TypeVar("T")

WORLD_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets so that the processes of a run find each other."""


class ElsewhereError(DamchaError):
    """An error that another process of the run met, with its message and its exit code.

    Args:
        message: what that process reports.
        exit_code: what it ends with.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class LostProcessError(DamchaError):
    """Another process of the run ended without a word, and this one cannot go on alone."""


class World:
    """One process that trains alone.

    Attributes:
        rank: number of this process, from 0; the process 0 leads: it alone writes and speaks.
        size: number of processes.
        local_rank: number of this process among those of its machine, which is that of its GPU.
        agreed: True once all processes know of the error that ends them, so that one may tell it.
    """

    rank = 0
    size = 1
    local_rank = 0
    agreed = False

    @property
    def leads(self) -> bool:
        """Whether this process writes the run folder and speaks."""
        return self.rank == 0

    def sums(self, *values: float) -> list[float]:
        """Values added up over all processes."""
        return list(values)

    def sums_later(self, *values: float) -> Callable[[], list[float]]:
        """As `sums`, to be waited for by calling what is returned, as late as possible."""
        return lambda: list(values)

    def together(self, work: Callable[[], T]) -> T:
        """Do the same in every process; if one fails, all fail."""
        return work()

    def in_turn(self, work: Callable[[], T]) -> T:
        """As `together`, the leader first, then one process a machine, then the others.

        For work that leaves something behind that the next one finds: downloads, caches.
        """
        return work()

    def from_lead(self, work: Callable[[], T]) -> T:
        """What the leader alone does, and its outcome (plain types) for all; its error too."""
        return work()

    def require_same(self, what: str, value: str) -> None:
        """Refuse processes that were not given the same.

        Args:
            what: a name of it, for the message.
            value: what this process was given.

        Raises:
            UsageError: another process was given something else.
        """

    def fail(self, error: DamchaError | None) -> NoReturn:
        """Raise an error in all processes.

        Args:
            error: what this process met; None if it met nothing and at least one other did.
        """
        assert error is not None, "somebody met it"
        raise error

    def agreed_stop(self, request: StopRequest) -> StopFlag:
        """A wish to stop that all processes see after the same step."""
        return request

    def parallel(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model whose backward pass gives the mean of the gradients of all processes."""
        return model

    def unsynchronised(self, model: nn.Module) -> AbstractContextManager[object]:
        """Passes of a `parallel` model whose gradients stay in this process for now."""
        return nullcontext()

    def watched(self) -> AbstractContextManager[object]:
        """Context that turns the failures torch has where a process was lost into one error."""
        return nullcontext()

    def close(self, *, failed: bool) -> None:
        """Leave the others; where all end the same way, not before the leader has spoken."""


ALONE = World()


def world_size(environment: Mapping[str, str] = os.environ) -> int:
    """Number of processes that torchrun, or its variables set by hand, start the run with.

    Args:
        environment: variables of the process.

    Raises:
        UsageError: WORLD_SIZE is no number of processes.
    """
    return _number(environment, "WORLD_SIZE", "1", 1)


def joined_world(environment: Mapping[str, str] = os.environ) -> World:
    """The world that the environment says this process belongs to.

    Reads what torchrun sets: RANK, WORLD_SIZE, LOCAL_RANK (by default RANK), MASTER_ADDR and
    MASTER_PORT. Waits for the other processes.

    Args:
        environment: variables of the process.

    Raises:
        UsageError: a variable is missing or not valid, or the other processes cannot be reached.
    """
    size = world_size(environment)
    if size == 1:
        return ALONE
    rank = _number(environment, "RANK", None, 0)
    local_rank = _number(environment, "LOCAL_RANK", str(rank), 0)
    if rank >= size:
        raise UsageError(f"RANK {rank}: must be below WORLD_SIZE {size}; torchrun sets both")
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not environment.get(name):
            raise _missing(name)
    from damcha_core.train.process_group import ManyProcesses

    return ManyProcesses(rank, size, local_rank)


def _number(environment: Mapping[str, str], name: str, default: str | None, least: int) -> int:
    text: Any = environment.get(name, default)
    if text is None:
        raise _missing(name)
    if not text.isdecimal() or int(text) < least:
        raise UsageError(f"{name} {text!r}: must be a whole number of at least {least}")
    return int(text)


def _missing(name: str) -> UsageError:
    return UsageError(
        f"WORLD_SIZE is set and {name} is not: start several processes with torchrun, which sets "
        "both, or unset WORLD_SIZE"
    )
