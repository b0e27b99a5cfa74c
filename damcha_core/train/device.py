"""The device of a run, and what happens when its memory does not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from damcha_core.errors import OutOfMemoryError, UsageError, is_failed_allocation
from damcha_core.train.world import ALONE, World


def choose_device(name: str, world: World = ALONE) -> torch.device:
    """The device a name stands for.

    Args:
        name: "auto" (cuda, then mps, then cpu), "cpu", "cuda", "cuda:N" or "mps".
        world: several processes take one GPU each, cuda:LOCAL_RANK.

    Raises:
        UsageError: that device is not there; there is no fallback to another one. Several
            processes were given one GPU, or there are fewer GPUs than processes.
    """
    device = _device_of_one(name)
    return device if world.size == 1 or device.type == "cpu" else _device_of_rank(device, world)


def _device_of_rank(device: torch.device, world: World) -> torch.device:
    if str(device) != "cuda":
        raise UsageError(
            f"--device {device}: {world.size} processes train this run; use --device cuda (each "
            "takes a GPU of its own) or cpu"
        )
    count = torch.cuda.device_count()
    if world.local_rank >= count:
        raise UsageError(
            f"more processes than GPUs: torch sees {count} CUDA devices here; start at most "
            f"{count} processes a machine, or use --device cpu"
        )
    own = torch.device("cuda", world.local_rank)
    torch.cuda.set_device(own)
    return own


def _device_of_one(name: str) -> torch.device:
    if name == "auto":
        return torch.device(_best_available())
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(
            f"--device {name}: no such kind of device; choose auto, cpu, cuda, cuda:N or mps"
        ) from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise UsageError(
                f"--device {name}: torch sees {count} CUDA devices here; use --device auto or cpu"
            )
    elif device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError("--device mps: not available here; use --device auto or cpu")
    elif device.type not in ("cpu", "mps"):
        raise UsageError(f"--device {name}: choose auto, cpu, cuda, cuda:N or mps")
    return device


def _best_available() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn a failed allocation, of the device or the machine, into advice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_failed_allocation(error):
            raise
        on_device = isinstance(error, torch.OutOfMemoryError)
        raise _out_of_memory("the device" if on_device else "the machine") from error


def _out_of_memory(where: str) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"{where} ran out of memory.\nLower train.batch_size and raise train.accumulate by the "
        "same factor (the update stays the same), or choose a smaller model."
    )
