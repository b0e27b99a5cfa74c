"""Marks in a profiler's record that say which part of a model an operator ran for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.profiler import record_function

from damcha_core.attention.cache import StackCache
from damcha_core.attention.damcha import DamchaAttention
from damcha_core.attention.metric_cache import MetricCache

PREFIX = "damcha part: "
OPTIMIZER, METRIC = "optimizer", "metric"
Method = Callable[..., Any]


def part_name(path: str) -> str:
    """The name of a module with the number of its block left out, so that blocks add up."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path, count=1) or "stack"


@contextmanager
def marked_parts(model: nn.Module, cache: StackCache | None = None) -> Iterator[None]:
    """Mark the forward pass of every module, and what damcha does for its metrics.

    Args:
        model: what runs inside the block.
        cache: with which it decodes, if it does.
    """
    handles = []
    for path, module in model.named_modules():
        stack: list[record_function] = []
        handles.append(module.register_forward_pre_hook(_enter(stack, PREFIX + part_name(path))))
        handles.append(module.register_forward_hook(_leave(stack)))
    try:
        with wrapped_metrics(model, cache, lambda method: _marked(method, PREFIX + METRIC)):
            yield
    finally:
        for handle in handles:
            handle.remove()


def has_metric(model: nn.Module) -> bool:
    """Whether a model has layers of damcha."""
    return any(isinstance(module, DamchaAttention) for module in model.modules())


@contextmanager
def wrapped_metrics(
    model: nn.Module, cache: StackCache | None, wrap: Callable[[Method], Method]
) -> Iterator[None]:
    """Put something around all that damcha does between its input and the queries.

    That is pooling, the generator, and the products of the tokens with their metrics.

    Args:
        model: what runs inside the block.
        cache: with which it decodes, if it does.
        wrap: makes the method that is called in place of the one it is given.
    """
    owners: list[Any] = [m for m in model.modules() if isinstance(m, DamchaAttention)]
    if cache is not None:
        owners += [layer for layer in cache.layers if isinstance(layer, MetricCache)]
    for owner in owners:
        owner.__dict__["queries"] = wrap(owner.queries)
    try:
        yield
    finally:
        for owner in owners:
            del owner.__dict__["queries"]


def _enter(stack: list[record_function], name: str) -> Callable[..., None]:
    def hook(*_: object) -> None:
        stack.append(record_function(name))
        stack[-1].__enter__()

    return hook


def _leave(stack: list[record_function]) -> Callable[..., None]:
    def hook(*_: object) -> None:
        stack.pop().__exit__(None, None, None)

    return hook


def _marked(method: Method, name: str) -> Method:
    def run(*arguments: Any, **options: Any) -> Any:
        with record_function(name):
            return method(*arguments, **options)

    return run
