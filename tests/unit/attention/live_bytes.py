"""Counter of the bytes of the tensors that are alive while a piece of code runs."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Sums the storages that operators return, until the storage is freed.

    Args:
        known: tensors that exist already; their storages do not count.

    Attributes:
        peak: most bytes alive at one time.
    """

    def __init__(self, *known: Tensor) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self.storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.known = {t.untyped_storage()._cdata for t in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.storages or key in self.known:
            return
        n_bytes = storage.nbytes()

        def forget(_: object) -> None:
            self.live -= n_bytes
            del self.storages[key]

        self.storages[key] = weakref.ref(storage, forget)
        self.live += n_bytes
        self.peak = max(self.peak, self.live)
