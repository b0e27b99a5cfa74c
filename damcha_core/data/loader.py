"""Batches from a data set, made in this process or by data workers, in the order asked for."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from damcha_core.data.order import SampleKey
from damcha_core.errors import DataError

Batch = dict[str, Tensor]


def make_loader(
    dataset: Dataset[Batch], key_batches: Iterable[Sequence[SampleKey]], workers: int
) -> Iterator[Batch]:
    """Batches of a data set, one for each list of keys and in the same order.

    The batches do not depend on the number of workers. Workers live as long as the iterator;
    they ignore SIGINT and SIGTERM, so that a signal to the whole process group stops the trainer
    cleanly and not the data under it. No global random state is read or changed.

    Args:
        dataset: a data set with `__getitems__(keys)` that returns a whole batch.
        key_batches: keys (epoch, id) of each batch.
        workers: data worker processes; 0 makes the batches in this process.

    Raises:
        ValueError: workers is negative.
        DataError: a worker died, most often for lack of shared memory.
    """
    if workers < 0:
        raise ValueError(f"data.workers must be at least 0, not {workers}")
    return _batches(dataset, key_batches, workers)


def _batches(
    dataset: Dataset[Batch], key_batches: Iterable[Sequence[SampleKey]], workers: int
) -> Iterator[Batch]:
    try:
        yield from _raw_batches(dataset, key_batches, workers)
    except (RuntimeError, OSError, EOFError) as error:
        if not (workers and _is_worker_trouble(error)):
            raise
        raise DataError(
            f"a data worker ended early ({_last_line(error)}). Mostly this is too little shared "
            f"memory (/dev/shm): set data.workers = 0 (now {workers}), or give the container "
            "more, for instance docker run --shm-size=1g"
        ) from error


def _raw_batches(
    dataset: Dataset[Batch], key_batches: Iterable[Sequence[SampleKey]], workers: int
) -> Iterator[Batch]:
    with warnings.catch_warnings():
        # Both warnings are about the machine (fewer cores than workers; forking beside idle
        # compute threads) and ask for nothing that the user did not choose.
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork")
        loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_sampler=key_batches,  # type: ignore[arg-type]
            num_workers=workers,
            # Workers that are started afresh (the default of Python 3.14 on Linux) outlive a
            # trainer that was killed; forked ones end with it.
            multiprocessing_context="fork" if workers and sys.platform == "linux" else None,
            collate_fn=_as_it_is,
            worker_init_fn=partial(_begin_work, os.getpid()),
            # A generator of its own: the default one would advance torch's global state.
            generator=torch.Generator(),
        )
        with _signals_held_back():
            batches: Any = iter(loader)
    if not workers:
        yield from batches
        return
    # Torch ends its workers when the iterator is collected, which a traceback that is still held
    # can put off until Python ends workers with SIGTERM and waits: for ever, as they ignore it.
    # So they are told to end, at the latest before Python's own clean-up. There is no public way.
    stop = batches._shutdown_workers
    atexit.register(stop)
    try:
        yield from batches
    finally:
        atexit.unregister(stop)
        stop()


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back while workers are started.

    A forked worker keeps the mask, so not even the moment before it learns to ignore the signals
    is open; the trainer gets its own signal when the mask is lifted.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _as_it_is(batch: Any) -> Any:
    return batch


def _begin_work(trainer: int, worker: int) -> None:
    """Make a worker immune to signals, and end it if its trainer is gone already.

    Torch's workers watch the process that is their parent when they begin to watch. A trainer that
    was killed before that has handed them to another one, which they would serve for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.getppid() != trainer:
        os._exit(1)


def _is_worker_trouble(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | EOFError):
        return True
    text = str(error)
    signs = ("DataLoader worker", "shared memory", "shm", "No space left", "ancdata")
    return any(sign in text for sign in signs)


def _last_line(error: BaseException) -> str:
    """The line that tells: torch puts a worker's whole traceback into the message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
