"""What tests do in child processes that are killed: train, save in a loop, use the command line.

Children are forked from a server process that has imported torch once and computed nothing, so
that starting one takes some hundredths of a second and no thread is copied.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from tiny_data import tiny_root
from tiny_runs import Recorder, child_environment, go_on, train

from damcha_core.errors import DamchaError
from damcha_core.tasks.task import Batch
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.checkpoint_store import CheckpointStore
from damcha_core.train.learner import Learner, Update
from damcha_core.train.observer import StepReport

PRELOADED = [
    "pytest",
    "child_runs",
    "damcha_cli.app",
    "damcha_cli.commands.train",
    "damcha_cli.progress",
    "damcha_cli.report",
    "damcha_core.data.cifar10",
    "damcha_core.evaluate.reconstruction",
    "damcha_core.models.masked_image",
    # The first optimiser and the first picture of a process import these for seconds.
    "torch._dynamo",
    "torchvision.transforms.v2",
]
"""What a child would import while it works; imported once, by the server."""

HOLD_SECONDS = 100.0
"""How long a child waits to be killed."""


def start_child(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """A child process that runs a function of a test module.

    Args:
        target: a function that a module defines by name.
        arguments: its arguments; they are pickled.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    tiny_root()  # made here, so that all children share it
    os.environ["PYTHONPATH"] = child_environment()["PYTHONPATH"]
    child = context.Process(target=run_forked, args=(target, *arguments), daemon=False)
    child.start()
    return child


def run_forked(target: Callable[..., None], *arguments: Any) -> None:
    """Run a function in a child whose own children (data workers) are its direct ones."""
    multiprocessing.set_start_method("fork", force=True)
    target(*arguments)


def wait_for(what: Callable[[], bool], child: BaseProcess, seconds: float = 60.0) -> None:
    """Wait until something holds, while a child is at work on it."""
    until = time.monotonic() + seconds
    while not what():
        assert child.is_alive(), f"the child ended with {child.exitcode} before that"
        assert time.monotonic() < until, "the child never came that far"
        time.sleep(0.001)


def train_and_hold(out: Path, resumes: bool, hold_at: int, changes: dict[str, object]) -> None:
    """Train or resume a tiny run; from a step on wait for the kill instead of going on."""

    def hold(report: StepReport) -> None:
        if hold_at and report.step >= hold_at:
            time.sleep(HOLD_SECONDS)

    try:
        (go_on if resumes else train)(out, Recorder(hold), **changes)
    except DamchaError as error:
        os._exit(error.exit_code)


def train_watched(
    out: Path, resumes: bool, hold_at: int, seen: Path, changes: dict[str, object]
) -> None:
    """train_and_hold, with a line "step id id ..." in a file for the samples of each step."""
    update = Learner.update

    def watched(self: Learner, batches: Sequence[Batch], *, step: int, dropout_seed: int) -> Update:
        ids = [str(int(sample)) for batch in batches for sample in batch["ids"]]
        with seen.open("a", encoding="utf-8") as file:
            file.write(f"{step} {' '.join(ids)}\n")
        return update(self, batches, step=step, dropout_seed=dropout_seed)

    Learner.update = watched  # type: ignore[method-assign]
    train_and_hold(out, resumes, hold_at, changes)


def big_checkpoint(step: int, n_bytes: int) -> Checkpoint:
    """A checkpoint whose every number is its step."""
    weights = torch.full((n_bytes // 4,), float(step))
    return Checkpoint(step, {"w": weights}, {"o": torch.ones(1)}, {"step": step}, "hash")


def save_forever(folder: Path, first_step: int, n_bytes: int) -> None:
    """Save one checkpoint after the other, as a run does."""
    store, step = CheckpointStore(folder), first_step
    while True:
        store.save(big_checkpoint(step, n_bytes), best=step % 5 == 0, keep_last=2)
        step += 1


def overwrite_forever(path: Path, n_bytes: int) -> None:
    """Write a file of tensors in place again and again, as a run must not."""
    content = save({"w": torch.zeros(n_bytes // 4)})
    while True:
        path.write_bytes(content)


def run_command_line(arguments: list[str], output: Path) -> None:
    """The damcha program in a session of its own, its output in a file."""
    os.setsid()
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["damcha", *arguments]
    from damcha_cli.app import main

    main()
