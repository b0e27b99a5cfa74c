"""Several processes that train one run, connected by torch.distributed.

Gradients go through DistributedDataParallel (gloo on the CPU, nccl on CUDA). Everything else that
the processes say to one another is small and goes through a gloo group of its own, which notices
at once when a process is gone.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from damcha_core.errors import DamchaError, UsageError
from damcha_core.train.signals import StopFlag, StopRequest
from damcha_core.train.world import ElsewhereError, LostProcessError, World

T = TypeVar("T")

MEETING_TIME = timedelta(minutes=5)
"""How long a process waits at the start for the others."""
PATIENCE = timedelta(days=30)
"""How long one waits for another that works, such as a long validation; torchrun ends all
processes when one has died."""
PARTING_TIME = timedelta(seconds=20)
"""How long the others wait for the leader to speak before they end."""
TOLD = "damcha/told"
LAUNCHER_KEEPS_THE_STORE = "TORCHELASTIC_USE_AGENT_STORE"
"""Set by torchrun; without it the process of rank 0 keeps the store."""
REPEATED_SIGNAL_SECONDS = 5.0
"""A signal to a whole process group comes twice: by itself, and passed on by torchrun."""
SIGNS_OF_LOSS = ("gloo", "Connection closed by peer", "Connection reset", "NCCL", "Broken pipe")


class ManyProcesses(World):
    """One of the processes of a run; see World for what each method promises.

    Args:
        rank: number of this process among all.
        size: number of processes, at least 2.
        local_rank: number of this process among those of its machine.

    Raises:
        UsageError: the others cannot be reached.
    """

    def __init__(self, rank: int, size: int, local_rank: int) -> None:
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self.agreed = False
        self.signal_number = 0
        self.request: StopRequest | None = None
        both = dist.is_nccl_available() and torch.cuda.is_available()
        try:
            self._store, _, _ = next(rendezvous("env://", timeout=MEETING_TIME))
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if both else "gloo",
                store=self._store, rank=rank, world_size=size, timeout=PATIENCE,
            )  # fmt: skip
            group = dist.new_group(backend="gloo", timeout=PATIENCE)
        except (RuntimeError, ValueError) as error:
            raise UsageError(
                f"process {rank} of {size} cannot reach the others: {_first_line(error)}; check "
                "MASTER_ADDR and MASTER_PORT, and that all are started"
            ) from error
        assert isinstance(group, dist.ProcessGroup), "every process is in it"
        self._group = group

    def sums(self, *values: float) -> list[float]:
        """Values added up over all processes; signals that arrived anywhere become known to all."""
        came = self.request.signal_number if self.request is not None else 0
        flags = [float(came == number) for number in (signal.SIGTERM, signal.SIGINT)]
        *totals, terminations, interrupts = self._sums_later(*values, *flags)()
        if not self.signal_number:
            self.signal_number = (
                signal.SIGTERM if terminations else signal.SIGINT if interrupts else 0
            )
        return totals

    def sums_later(self, *values: float) -> Callable[[], list[float]]:
        """As `sums`, without signals, on its way while this process works."""
        return self._sums_later(*values)

    def _sums_later(self, *values: float) -> Callable[[], list[float]]:
        totals = torch.tensor(values, dtype=torch.float64)
        with self.watched():
            work = dist.all_reduce(totals, group=self._group, async_op=True)
        assert work is not None, "this process is in the group"

        def result() -> list[float]:
            with self.watched():
                work.wait()
            numbers: list[float] = totals.tolist()
            return numbers

        return result

    def together(self, work: Callable[[], T]) -> T:
        """Do the same in every process; if one fails, all fail."""
        outcome, error = _attempt(work)
        self._settle(error)
        return outcome  # type: ignore[return-value]

    def in_turn(self, work: Callable[[], T]) -> T:
        """As `together`, the leader first, then one process a machine, then the others."""
        own = 0 if self.leads else 1 if self.local_rank == 0 else 2
        outcome: T | None = None
        for turn in range(3):
            error = None
            if turn == own:
                outcome, error = _attempt(work)
            self._settle(error)
        return outcome  # type: ignore[return-value]

    def from_lead(self, work: Callable[[], T]) -> T:
        """What the leader alone does, and its outcome for all; its error too."""
        outcome, error = _attempt(work) if self.leads else (None, None)
        note = {"value": outcome} if error is None else _note(error)
        note = json.loads(self._from_lead(json.dumps(note)))
        if "value" not in note:
            self._raise(error, note, 0)
        return outcome if self.leads else note["value"]  # type: ignore[return-value]

    def require_same(self, what: str, value: str) -> None:
        """Refuse processes that were not given the same."""
        values = self._gather(value)
        if len(set(values)) > 1:
            other = next(rank for rank, given in enumerate(values) if given != values[0])
            self.agreed = True
            raise UsageError(
                f"process {other} of this run has other {what} than process 0; start all of them "
                "with one command and the same files"
            )

    def fail(self, error: DamchaError | None) -> NoReturn:
        """Raise an error in all processes: their own where they have one, else the first one."""
        self._settle(error)
        raise AssertionError("somebody met an error")

    def _settle(self, error: DamchaError | None) -> None:
        """Raise in all processes if there is an error in one."""
        notes = self._gather("" if error is None else json.dumps(_note(error)))
        for rank, note in enumerate(notes):
            if note:
                self._raise(error, json.loads(note), rank)

    def _raise(self, own: DamchaError | None, note: dict[str, Any], rank: int) -> NoReturn:
        self.agreed = True
        if own is not None:
            raise own
        where = f"process {rank} of {self.size}: " if rank else ""
        raise ElsewhereError(where + note["error"], note["exit_code"])

    def agreed_stop(self, request: StopRequest) -> StopFlag:
        """A wish to stop that all processes see after the same step."""
        self.request = request
        request.repeat_seconds = REPEATED_SIGNAL_SECONDS
        return AgreedStop(self, request)

    def parallel(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model in DistributedDataParallel."""
        ids = [device] if device.type == "cuda" else None
        with self.watched():
            # Every parameter takes part in every loss, so none need be searched for as unused.
            return DistributedDataParallel(model, device_ids=ids)

    def unsynchronised(self, model: nn.Module) -> AbstractContextManager[object]:
        """Passes of a `parallel` model whose gradients stay in this process for now."""
        assert isinstance(model, DistributedDataParallel)
        return model.no_sync()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Context that turns the failures torch has where a process was lost into one error."""
        try:
            yield
        except (RuntimeError, dist.DistError) as error:
            if not isinstance(error, dist.DistError) and not any(
                sign in str(error) for sign in SIGNS_OF_LOSS
            ):
                raise
            raise LostProcessError(
                f"another process of this run ended; process {self.rank} of {self.size} stops.\n"
                "The run goes on from its last checkpoint with --resume."
            ) from error

    def may_tell(self, error: BaseException) -> bool:
        """Whether this process tells of an error that the others do not know of.

        Its own error it always tells. That another one was lost, one process tells, and only if
        nobody has told of an error; without torchrun each does whose only way to ask was the
        leader, which may be the one that is gone.

        Args:
            error: what ends this process.
        """
        lost = isinstance(error, LostProcessError)
        if lost and not (self.leads or os.environ.get(LAUNCHER_KEEPS_THE_STORE) == "True"):
            return True
        try:
            first = int(self._store.add(TOLD, 1)) == 1
        except RuntimeError:  # who kept it is gone
            first = True
        return first or not lost

    def close(self, *, failed: bool) -> None:
        """Leave the others; where all end the same way, not before the leader has spoken."""
        if failed and not self.agreed:
            return  # the others are elsewhere: they notice that this process is gone
        try:
            dist.monitored_barrier(self._group, timeout=PARTING_TIME)
            dist.destroy_process_group()
        except RuntimeError:
            return  # somebody left already

    def _from_lead(self, text: str) -> str:
        """The leader's text in every process."""
        content = _bytes(text)
        length = torch.tensor([len(content)])
        with self.watched():
            dist.broadcast(length, 0, group=self._group)
            if not self.leads:
                content = torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(content, 0, group=self._group)
        return _text(content)

    def _gather(self, text: str) -> list[str]:
        """The text of every process, in every process."""
        content = _bytes(text)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with self.watched():
            dist.all_gather(lengths, torch.tensor([len(content)]), group=self._group)
            longest = max(int(length) for length in lengths)
            padded = torch.zeros(longest, dtype=torch.uint8)
            padded[: len(content)] = content
            rows = [torch.empty_like(padded) for _ in range(self.size)]
            if longest:
                dist.all_gather(rows, padded, group=self._group)
        return [_text(row[: int(n)]) for row, n in zip(rows, lengths, strict=True)]


class AgreedStop:
    """True after the step in which all processes learnt of a signal that one of them got.

    Args:
        world: knows what was agreed.
        request: the signals of this process.
    """

    def __init__(self, world: ManyProcesses, request: StopRequest) -> None:
        self._world = world
        self._request = request

    @property
    def signal_number(self) -> int:
        """The signal; 0: none."""
        return self._world.signal_number

    @property
    def came_here(self) -> bool:
        """Whether this very process got one, known to the others or not."""
        return self._request.came_here

    def __bool__(self) -> bool:
        return self.signal_number != 0


def _attempt(work: Callable[[], T]) -> tuple[T | None, DamchaError | None]:
    try:
        return work(), None
    except LostProcessError:
        raise
    except DamchaError as error:
        return None, error


def _note(error: DamchaError) -> dict[str, Any]:
    return {"error": str(error), "exit_code": error.exit_code}


def _bytes(text: str) -> Tensor:
    content = bytearray(text.encode())
    return (
        torch.frombuffer(content, dtype=torch.uint8)
        if content
        else torch.empty(0, dtype=torch.uint8)
    )


def _text(content: Tensor) -> str:
    return content.numpy().tobytes().decode()


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
