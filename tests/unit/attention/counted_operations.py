"""Counters of what a piece of code computes, so that no test needs a clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode


class CountedOperations(TorchDispatchMode):
    """Counts operators and the elements that they return.

    Attributes:
        n_operators: how many were called.
        n_elements: elements of all tensors that they returned.
    """

    def __init__(self) -> None:
        super().__init__()
        self.n_operators = 0
        self.n_elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.n_operators += 1
        self.n_elements += sum(t.numel() for t in tree_leaves(result) if isinstance(t, Tensor))
        return result


@contextmanager
def counted_metrics(body: nn.Module) -> Iterator[list[int]]:
    """A list that gets the number of contexts of each call of a generator's body."""
    calls: list[int] = []
    hook = body.register_forward_hook(
        lambda _, inputs, output: calls.append(output.numel() // output.shape[-1])
    )
    yield calls
    hook.remove()


@contextmanager
def counted_flops() -> Iterator[dict[str, int]]:
    """A dictionary that has the operations of each operator once the block is left."""
    found: dict[str, int] = {}
    with FlopCounterMode(display=False) as counter:
        yield found
    counts = counter.get_flop_counts().get("Global", {})
    found.update({str(operator): count for operator, count in counts.items()})
