"""What memory there is, and code that needs more: by files of a made-up system and a real limit."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor

from damcha_core.errors import is_failed_allocation
from damcha_core.profiling import memory_limits
from damcha_core.profiling.memory_limits import (
    OutOfMemory,
    available_memory,
    group_memory,
    machine_memory,
    out_of_memory_guard,
    would_fit,
)

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is available")
TOO_MUCH = 2**50


def write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def test_memory_of_the_machine(tmp_path: Path) -> None:
    table = tmp_path / "meminfo"
    write(table, "MemTotal:  900 kB\nMemFree:  20 kB\nMemAvailable:     300 kB\n")
    assert list(machine_memory(table)) == [300 * 1024]
    assert list(machine_memory(tmp_path / "none")) == []


def test_every_group_around_the_process_has_a_say(tmp_path: Path) -> None:
    """Version 2: files that the group holds in memory can be had back."""
    membership, root = tmp_path / "cgroup", tmp_path / "fs"
    write(membership, "0::/user/job\n")
    write(root / "user/job/memory.max", "max\n")
    write(root / "user/job/memory.current", "70\n")
    write(root / "user/memory.max", "1000\n")
    write(root / "user/memory.current", "600\n")
    write(root / "user/memory.stat", "anon 100\ninactive_file 50\n")
    write(root / "memory.max", "5000\n")
    write(root / "memory.current", "900\n")
    assert list(group_memory(membership, root)) == [1000 - 600 + 50, 5000 - 900]


def test_groups_of_version_1(tmp_path: Path) -> None:
    membership, root = tmp_path / "cgroup", tmp_path / "fs"
    write(membership, "9:name=systemd:/x\n4:cpu,cpuacct:/x\n3:memory:/outside\n0::/\n")
    write(root / "memory/memory.limit_in_bytes", "800\n")
    write(root / "memory/memory.usage_in_bytes", "500\n")
    write(root / "memory/memory.stat", "inactive_file 1\ntotal_inactive_file 30\n")
    assert list(group_memory(membership, root)) == [800 - 500 + 30]


def test_a_system_without_such_files_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in ("machine_memory", "group_memory", "address_space"):
        monkeypatch.setattr(memory_limits, source, lambda: iter(()))
    assert available_memory("cpu") is None
    assert would_fit(TOO_MUCH, "cpu")


def test_the_least_figure_counts_and_a_tenth_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "machine_memory", lambda: iter([5000]))
    monkeypatch.setattr(memory_limits, "group_memory", lambda: iter([1000, 7000]))
    monkeypatch.setattr(memory_limits, "address_space", lambda: iter(()))
    assert available_memory("cpu") == 1000
    assert would_fit(900, "cpu")
    assert not would_fit(901, "cpu")


@LINUX
def test_this_machine() -> None:
    available = available_memory("cpu")
    assert available is not None
    assert 0 < available < 2**48
    assert would_fit(1, "cpu")
    assert not would_fit(TOO_MUCH, "cpu")


@LINUX
def test_code_that_would_not_fit_is_not_run() -> None:
    found = out_of_memory_guard(pytest.fail, "cpu", needed_bytes=TOO_MUCH)
    assert isinstance(found, OutOfMemory)
    assert (found.predicted, found.needed_bytes) == (True, TOO_MUCH)
    assert found.available_bytes is not None


def test_code_that_fits_gives_its_result() -> None:
    assert out_of_memory_guard(lambda: 3, "cpu", needed_bytes=1) == 3


def test_a_failed_allocation_is_survived_and_gives_back_what_was_allocated() -> None:
    held: list[weakref.ref[Tensor]] = []

    def run() -> Tensor:
        first = torch.zeros(1000)
        held.append(weakref.ref(first))
        return first + torch.empty(TOO_MUCH)

    found = out_of_memory_guard(run, "cpu")
    assert isinstance(found, OutOfMemory)
    assert (found.predicted, found.needed_bytes) == (False, 0)
    assert held[0]() is None


def test_other_errors_come_through() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        out_of_memory_guard(lambda: torch.zeros(2, 3) @ torch.zeros(2, 3), "cpu")
    with pytest.raises(ZeroDivisionError):
        out_of_memory_guard(lambda: 1 // 0, "cpu")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't ..."), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_says_that_memory_was_lacking(error: BaseException, expected: bool) -> None:
    assert is_failed_allocation(error) is expected


LIMITED = """
import json, resource, sys, torch
from damcha_core.profiling.memory import measure_memory
from damcha_core.profiling.memory_limits import available_memory, out_of_memory_guard, would_fit

MIB = 2**20
def status(name):  # ru_maxrss is that of the parent where that is larger
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

measure_memory(lambda: torch.ones(10).add(1.0).sum(), "cpu")  # the first one imports much
before = status("VmRSS")
use = measure_memory(lambda: torch.ones(25 * MIB).add(1.0).sum(), "cpu")
grown = status("VmHWM") - before

in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = in_use + 256 * MIB
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
available = available_memory("cpu")
def step(mib):
    first = torch.ones(mib * MIB // 8)  # half of it
    return float((first + 1).sum())
sizes = [64, 160, 640, 64, 160]
results = [out_of_memory_guard(lambda: step(size), "cpu") for size in sizes]
predicted = [out_of_memory_guard(lambda: step(size), "cpu", needed_bytes=size * MIB)
             for size in sizes]
print(json.dumps({
    "peak": use.peak_bytes, "grown": grown, "available": available,
    "fits": [would_fit(size * MIB, "cpu") for size in sizes],
    "results": [r if isinstance(r, float) else r.predicted for r in results],
    "predicted": [r if isinstance(r, float) else r.predicted for r in predicted],
}))
"""


@LINUX
def test_a_process_under_a_limit_marks_what_does_not_fit_and_goes_on() -> None:
    """Really out of memory, and foretold: either way the sizes after it still run.

    The process also bounds the counted peak: it has to hold the tensors, and not much more.
    """
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    mib = 2**20
    assert found["peak"] == 2 * 100 * mib
    assert 0.9 * found["peak"] < found["grown"] < 1.2 * found["peak"]
    assert 200 * mib < found["available"] <= 256 * mib
    assert found["fits"] == [True, True, False, True, True]
    sums = [2.0 * size * mib / 8 for size in (64, 160)]
    assert found["results"] == [*sums, False, *sums]
    assert found["predicted"] == [*sums, True, *sums]
