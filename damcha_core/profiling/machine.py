"""The machine a profile is made on, and the most that it can do there."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from damcha_core.profiling.clock import CPU_TIME, Clock
from damcha_core.profiling.profile_record import ClockName
from damcha_core.profiling.subject import NumberFormat

PEAK_TRIES = 7
MATRIX_SIDE = {"cpu": 768, "cuda": 8192, "mps": 4096}
COPY_BYTES = {"cpu": 2**26, "cuda": 2**30, "mps": 2**28}


@dataclass(frozen=True)
class MachineLimits:
    """Where figures were measured.

    Attributes:
        processor: name of the CPU or the GPU.
        cores: CPU cores that this process may use.
        load: mean number of programs that wanted a core in the last minute; None: not known.
        matmul_flops: operations a second of a large product of matrices, the best of some tries.
        copy_bytes: bytes a second that a large copy reads and writes, the best of some tries.
    """

    processor: str
    cores: int
    load: float | None
    matmul_flops: float
    copy_bytes: float


def measure_machine(number_format: NumberFormat, clock: Clock, steady: ClockName) -> MachineLimits:
    """Describe the machine and measure its two limits.

    Args:
        number_format: in which products are computed, and where.
        clock: of the device.
        steady: which of its times counts (`clock.steady_clock`).
    """
    return MachineLimits(
        processor=processor_name(number_format.device),
        cores=usable_cores(),
        load=load_average(),
        matmul_flops=matmul_peak(number_format, clock, steady),
        copy_bytes=copy_peak(number_format.device, clock, steady),
    )


def matmul_peak(number_format: NumberFormat, clock: Clock, steady: ClockName) -> float:
    """Operations a second of a product of two square matrices."""
    side = MATRIX_SIDE[number_format.device.type]
    shape = (side, side)
    left = torch.ones(shape, device=number_format.device, dtype=number_format.dtype)
    right = left.clone()

    def multiply() -> None:
        with number_format.autocast(), torch.no_grad():
            torch.matmul(left, right)

    return 2 * side**3 / fastest(multiply, clock, steady)


def copy_peak(device: torch.device, clock: Clock, steady: ClockName) -> float:
    """Bytes a second that a copy within the device's memory reads and writes."""
    n_bytes = COPY_BYTES[device.type]
    source = torch.ones(n_bytes, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    return 2 * n_bytes / fastest(lambda: target.copy_(source), clock, steady)


def fastest(run: Callable[[], object], clock: Clock, steady: ClockName) -> float:
    """Seconds of the fastest of PEAK_TRIES runs after one that does not count."""
    run()
    seconds = []
    for _ in range(PEAK_TRIES):
        started = clock()
        run()
        time = clock().since(started)
        seconds.append(time.cpu if steady == CPU_TIME else time.wall)
    return max(min(seconds), 1e-9)


def processor_name(device: torch.device) -> str:
    """What the processor is called, as far as the system says."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def usable_cores() -> int:
    """CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_average() -> float | None:
    """Programs that wanted a core in the last minute; None where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
