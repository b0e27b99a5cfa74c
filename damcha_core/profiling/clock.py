"""The clocks that a step is timed with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from damcha_core.profiling.profile_record import ClockName

CPU_TIME: ClockName = "cpu time"
WALL_TIME: ClockName = "wall time"
COARSEST = 1e-5
"""Seconds between two readings that a clock for short steps has to tell apart."""


@dataclass(frozen=True)
class Instant:
    """Both clocks at one moment, in seconds from some start.

    Attributes:
        wall: time that passed.
        cpu: time that this process computed, its threads added up. What other programs do in the
            meantime does not enter it.
    """

    wall: float
    cpu: float

    def since(self, earlier: Instant) -> Instant:
        """The time in between."""
        return Instant(self.wall - earlier.wall, self.cpu - earlier.cpu)


Clock = Callable[[], Instant]


def device_clock(device: torch.device) -> Clock:
    """A clock that waits until the device has done what it was told to."""

    def now() -> Instant:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elif device.type == "mps":
            torch.mps.synchronize()
        return Instant(time.perf_counter(), time.process_time())

    return now


def steady_clock(device: torch.device, n_threads: int) -> ClockName:
    """Which clock ratios are taken from.

    One thread on the CPU computes all the time, so that the time of the process is the time of the
    work; with more threads some of them spin while they wait, and elsewhere the CPU hardly works.

    Returns:
        CPU_TIME or WALL_TIME.
    """
    fine = time.get_clock_info("process_time").resolution <= COARSEST
    return CPU_TIME if fine and device.type == "cpu" and n_threads == 1 else WALL_TIME
