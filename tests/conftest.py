"""Fixtures that several kinds of tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

StartChild = Callable[..., BaseProcess]


@pytest.fixture
def child() -> Iterator[StartChild]:
    """Starts child processes (see child_runs) and leaves none behind."""
    from child_runs import start_child

    started: list[BaseProcess] = []

    def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
        started.append(start_child(target, *arguments))
        return started[-1]

    yield start
    for process in started:
        if process.is_alive():
            process.kill()
        process.join()
