"""Ctrl-C, SIGTERM: asked once, a run stops at the next step boundary and saves itself."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from typing_extensions import Self

WATCHED = (signal.SIGINT, signal.SIGTERM)


class StopFlag(Protocol):
    """A wish to stop after the current step; true once there is one."""

    @property
    def signal_number(self) -> int:
        """The signal that asked for it; 0: none."""

    @property
    def came_here(self) -> bool:
        """Whether this process got a signal, whatever the others know."""

    def __bool__(self) -> bool: ...


class SignalWatch:
    """Context in which SIGINT and SIGTERM go to `_handle`; afterwards to whom they went before.

    Attributes:
        signal_number: the first signal that came; 0: none.
    """

    def __init__(self) -> None:
        self.signal_number = 0
        self._previous: dict[signal.Signals, Any] = {}

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.signal_number = self.signal_number or number

    def __enter__(self) -> Self:
        # Only the main thread may set handlers; work inside another thread has none.
        if threading.current_thread() is threading.main_thread():
            self._previous = {s: signal.signal(s, self._handle) for s in WATCHED}
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        for watched, handler in self._previous.items():
            signal.signal(watched, handler)


class StopRequest(SignalWatch):
    """Context in which SIGINT and SIGTERM set a flag instead of ending the process.

    The handler does nothing else, so a checkpoint that is being written is finished first. A
    second signal ends the process at once; the last complete checkpoint stays good.

    Attributes:
        repeat_seconds: for so long after the first one a signal says the same once more.
    """

    def __init__(self) -> None:
        super().__init__()
        # Slurm's signal comes to every process of a job, and once more from the parent of a run.
        self.repeat_seconds = 2.0 if "SLURM_JOB_ID" in os.environ else 0.0
        self._first_at = 0.0

    def __bool__(self) -> bool:
        return self.signal_number != 0

    @property
    def came_here(self) -> bool:
        """Whether a signal arrived."""
        return self.signal_number != 0

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal_number and now - self._first_at < self.repeat_seconds:
            return
        if self.signal_number:
            # Data workers ignore these signals and would outlive us by some seconds.
            for worker in multiprocessing.active_children():
                worker.kill()
            os._exit(128 + number)
        self.signal_number, self._first_at = number, now
