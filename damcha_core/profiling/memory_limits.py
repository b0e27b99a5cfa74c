"""How much memory there is, and code that may need more than that."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from damcha_core.errors import is_failed_allocation

T = TypeVar("T")
USABLE_SHARE = 0.9
"""Of the available memory, what tensors may take: kernels and the allocator need some as well."""


@dataclass(frozen=True)
class OutOfMemory:
    """Stands in place of a figure that could not be measured.

    Attributes:
        predicted: True where the code was not run, because it would not have fitted; False where it
            was, and an allocation failed.
        needed_bytes: what it needs in tensors; 0: not known.
        available_bytes: what there was before; None: not known.
    """

    predicted: bool
    needed_bytes: int
    available_bytes: int | None


def out_of_memory_guard(
    run: Callable[[], T], device: torch.device | str, *, needed_bytes: int = 0
) -> T | OutOfMemory:
    """Run code, unless it would not fit, and survive it where it does not.

    Args:
        run: the code. What it allocated is given back when it fails, if nothing else holds it;
            gradients of a model that lives on are for the caller to drop.
        device: where it computes.
        needed_bytes: what it adds to the tensors that are there, as far as that is known.

    Returns:
        What the code returns, or the marker.

    Raises:
        Exception: whatever the code raises for another reason than a lack of memory.
    """
    available = available_memory(device)
    if not would_fit(needed_bytes, device):
        return OutOfMemory(True, needed_bytes, available)
    try:
        return run()
    except Exception as error:
        if not is_failed_allocation(error):
            raise
    # Behind the handler, where the traceback no longer holds the tensors of its frames.
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.empty_cache()
    return OutOfMemory(False, needed_bytes, available)


def would_fit(needed_bytes: int, device: torch.device | str) -> bool:
    """Whether tensors of so many bytes more can be held, with a tenth of the memory to spare.

    Args:
        needed_bytes: bytes beyond those that are in use, at least 0.
        device: where.

    Returns:
        True also where the available memory is not known.
    """
    available = available_memory(device)
    return available is None or needed_bytes <= USABLE_SHARE * available


def available_memory(device: torch.device | str) -> int | None:
    """Bytes that could be allocated beyond those in use; None: not known.

    Of a CUDA device what is free, and what torch's allocator holds without using it. Of the machine
    the least of what the system can give without swapping, what the control groups of the process
    leave it, and what its limit of address space (`ulimit -v`) does; known on Linux alone.

    Args:
        device: where.
    """
    device = torch.device(device)
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    limits = [*machine_memory(), *group_memory(), *address_space()]
    return max(0, min(limits)) if limits else None


def machine_memory(table: Path = Path("/proc/meminfo")) -> Iterator[int]:
    """What the system can give without swapping, where it says so."""
    for line in lines_of(table):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield 1024 * int(value.split()[0])


def group_memory(
    membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[int]:
    """What each control group that the process is in, and each one around it, leaves of its limit.

    Args:
        membership: lists the groups of the process, one hierarchy a line.
        root: where the hierarchies are mounted; version 1 has one for memory.
    """
    for line in lines_of(membership):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, limit, usage = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, usage = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # In a container the path may be one outside of it, so each part that is there is asked.
        place = base / path.lstrip("/")
        for group in (place, *place.parents):
            most, used = number_in(group / limit), number_in(group / usage)
            if most is not None and used is not None:
                yield most - used + reclaimable(group / "memory.stat")
            if group == base:
                break


def reclaimable(table: Path) -> int:
    """Bytes of files that a control group keeps in memory and gives up when asked."""
    found = dict(line.split(" ", 1) for line in lines_of(table) if " " in line)
    return int(found.get("total_inactive_file", found.get("inactive_file", 0)))


def address_space() -> Iterator[int]:
    """What the limit of the process's address space leaves, where there is one."""
    if sys.platform != "linux":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = lines_of(Path("/proc/self/statm"))
    if limit != resource.RLIM_INFINITY and pages:
        yield limit - int(pages[0].split()[0]) * resource.getpagesize()


def lines_of(file: Path) -> list[str]:
    """Lines of a system's file; none where there is no such file or it is not ours to read."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def number_in(file: Path) -> int | None:
    """The whole number that a file holds; None where it holds another word, such as max."""
    lines = lines_of(file)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None
