"""The most memory that is in use at one time while code runs, counted on any device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ENTERS = torch.ops.aten.lift_fresh.default
"""The operator that a tensor made from Python numbers passes: what it reads is new, not old."""


@dataclass(frozen=True)
class MemoryUse:
    """Bytes of tensors, by their storages.

    Attributes:
        peak_bytes: the most at one time, with what was there at the start.
        start_bytes: what was there at the start. Of what the code touches: parameters, inputs,
            gradients, a graph that is run backward. On CUDA all that is allocated, touched or not.
    """

    peak_bytes: int
    start_bytes: int

    @property
    def added_bytes(self) -> int:
        """The peak above the start: what the code itself needs."""
        return self.peak_bytes - self.start_bytes


def measure_memory(run: Callable[[], object], device: torch.device | str) -> MemoryUse:
    """Run code once and follow what it allocates.

    On CUDA it is the allocator's own peak. Elsewhere every storage that an operator returns or
    reads is followed from then until its last tensor dies: results, gradients, what autograd keeps
    for the backward pass, and the buffers of our own operators. Views and results in place are no
    new storage. The figure is exact for tensors and the same in every run. It leaves out what a
    kernel allocates and frees inside (fused attention: about a megabyte a thread), Python, and
    what the allocator keeps, so that the process is larger.

    Args:
        run: the code. What it returns is dropped at its end.
        device: where the code computes; tensors elsewhere are not counted.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return measured_by_allocator(run, device)
    with LiveStorages(device.type) as live:
        run()
    return MemoryUse(peak_bytes=live.peak, start_bytes=live.start)


def measured_by_allocator(run: Callable[[], object], device: torch.device) -> MemoryUse:
    """The figures of torch's allocator of a CUDA device."""
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    start = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    return MemoryUse(peak_bytes=torch.cuda.max_memory_allocated(device), start_bytes=start)


class LiveStorages(TorchDispatchMode):
    """Follows the storages that operators read and return until they are freed.

    A storage that an operator reads before any has returned it was there from the start. It is
    noticed late, but has been alive at every moment so far, so it is added to the peak so far too.

    Args:
        device_type: tensors of other devices are not counted.

    Attributes:
        live: bytes alive now.
        peak: most bytes alive at one time.
        start: bytes that were there before.
    """

    def __init__(self, device_type: str) -> None:
        super().__init__()
        self.device_type = device_type
        self.live = self.peak = self.start = 0
        self._followed: dict[int, Followed] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        for storage in self._storages(() if func is ENTERS else (args, kwargs)):
            if storage._cdata not in self._followed:
                self.start += storage.nbytes()
                self.peak += storage.nbytes()
                self._follow(storage)
        result = func(*args, **kwargs)
        # An operator may also give a storage that it was handed another size.
        for storage in self._storages((result, args, kwargs)):
            self._follow(storage)
        return result

    def _storages(self, tree: Any) -> Iterator[torch.UntypedStorage]:
        for leaf in tree_leaves(tree):
            if isinstance(leaf, Tensor) and leaf.device.type == self.device_type:
                yield leaf.untyped_storage()

    def _follow(self, storage: torch.UntypedStorage) -> None:
        # The object of a storage in Python lives as long as the storage, and its address as well.
        key, n_bytes = storage._cdata, storage.nbytes()
        known = self._followed.get(key)
        if known is None:
            known = Followed(weakref.ref(storage, lambda _: self._forget(key)))
            self._followed[key] = known
        self.live += n_bytes - known.n_bytes
        known.n_bytes = n_bytes
        self.peak = max(self.peak, self.live)

    def _forget(self, key: int) -> None:
        self.live -= self._followed.pop(key).n_bytes


@dataclass
class Followed:
    """A storage that is alive.

    Attributes:
        alive: calls back when the storage is freed.
        n_bytes: its size when it was last seen.
    """

    alive: weakref.ref[torch.UntypedStorage]
    n_bytes: int = 0
