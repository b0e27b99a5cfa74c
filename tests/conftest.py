"""Fixtures that several kinds of tests share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

# Before anything imports torch, and for every child process: two test processes share the cores,
# and the bits of a sum depend on the number of threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Encoded texts of tests are kept for this session alone; its child processes inherit the place.
if "DAMCHA_TEST_CACHE" not in os.environ:
    os.environ["DAMCHA_TEST_CACHE"] = tempfile.mkdtemp(prefix="damcha-tests-cache-")
    atexit.register(shutil.rmtree, os.environ["DAMCHA_TEST_CACHE"], ignore_errors=True)
os.environ["DAMCHA_CACHE"] = os.environ["DAMCHA_TEST_CACHE"]

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
