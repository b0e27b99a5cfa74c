"""Bytes that the operators of a piece of code read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def measure_traffic(run: Callable[[], object]) -> int:
    """Run code once and add up what its operators read and write.

    Every operator counts each of its tensors once, those it reads and those it returns; a view
    moves nothing. What a kernel reads again because a cache is too small, and what stays in a cache
    between two operators, is not seen, so the figure is a model of the machine, and the same in
    every run.

    Args:
        run: the code.

    Returns:
        Bytes.
    """
    with Traffic() as traffic:
        run()
    return traffic.n_bytes


class Traffic(TorchDispatchMode):
    """Adds up the bytes of the arguments and results of operators.

    Attributes:
        n_bytes: the sum so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.n_bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.n_bytes += tensor_bytes((args, kwargs)) + tensor_bytes(result)
        return result


def tensor_bytes(tree: Any) -> int:
    """Bytes of the elements of all tensors in nested arguments."""
    leaves = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves)
