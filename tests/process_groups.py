"""Several processes that train one run, started as torchrun starts them, or by torchrun itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from child_runs import run_command_line
from safetensors.torch import load_file
from tiny_runs import child_environment, last_folder, metrics
from torch import Tensor

from damcha_core.config.schema import RunConfig
from damcha_core.errors import DamchaError
from damcha_core.train.observer import Observer
from damcha_core.train.run import resume, start
from damcha_core.train.world import joined_world

SECONDS = 120.0
"""How long anything here may take before it counts as hanging."""


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_ranks(
    child: Callable[..., BaseProcess], n: int, target: Callable[..., None], *arguments: Any
) -> list[BaseProcess]:
    """Processes that run a function of a test module, in the environment of torchrun.

    Args:
        child: the fixture.
        n: how many processes.
        target: a function that a module defines by name.
        arguments: its arguments.
    """
    common = {
        "WORLD_SIZE": str(n),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(launcher_store().port),
        # As torchrun, which keeps the store.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    return [child(run_as_rank, rank, common, target, *arguments) for rank in range(n)]


STORES: list[dist.TCPStore] = []


def launcher_store() -> dist.TCPStore:
    """What torchrun keeps for the processes of one start; it lives as long as this process."""
    STORES.append(dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False))
    return STORES[-1]


def run_as_rank(
    rank: int, common: Mapping[str, str], target: Callable[..., None], *arguments: Any
) -> None:
    """Run a function with the variables that torchrun sets."""
    os.environ |= {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    target(*arguments)


def start_by_hand(
    child: Callable[..., BaseProcess], n: int, target: Callable[..., None], *arguments: Any
) -> list[BaseProcess]:
    """As start_ranks, with no launcher: the variables are set and rank 0 keeps the store."""
    common = {
        "WORLD_SIZE": str(n),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    return [child(run_as_rank, rank, common, target, *arguments) for rank in range(n)]


def joined(processes: Sequence[BaseProcess]) -> list[int | None]:
    """Exit codes, once all have ended."""
    for process in processes:
        process.join(SECONDS)
    return [process.exitcode for process in processes]


def train_in_world(config: RunConfig, observer: Observer | None = None) -> None:
    """Train a new run as one of its processes."""
    world, failed = joined_world(), True
    try:
        start(config, observer or Observer(), world)
        failed = False
    except DamchaError as error:
        sys.exit(error.exit_code)
    finally:
        world.close(failed=failed)


def resume_in_world(out: Path, changes: dict[str, object]) -> None:
    """Go on with a run as one of its processes."""
    world = joined_world()
    resume(out, Observer(), flags=changes, world=world)
    world.close(failed=False)


def train_in_ranks(child: Callable[..., BaseProcess], n: int, config: RunConfig) -> None:
    """Train a new run with n processes, to its end."""
    assert joined(start_ranks(child, n, train_in_world, config)) == [0] * n


def resume_in_ranks(
    child: Callable[..., BaseProcess], n: int, out: Path, **changes: object
) -> None:
    """Go on with a run with n processes, to its end."""
    assert joined(start_ranks(child, n, resume_in_world, out, changes)) == [0] * n


def start_command(
    child: Callable[..., BaseProcess], n: int, folder: Path, *arguments: str
) -> list[BaseProcess]:
    """The damcha program in n processes, each with its output in folder/output-RANK."""
    return start_ranks(child, n, run_command_of_rank, folder, list(arguments))


def run_command_of_rank(folder: Path, arguments: list[str]) -> None:
    """The damcha program as one process of a run."""
    run_command_line(arguments, folder / f"output-{os.environ['RANK']}")


def outputs(folder: Path, n: int) -> list[str]:
    """What the processes of start_command wrote."""
    return [(folder / f"output-{rank}").read_text(encoding="utf-8") for rank in range(n)]


def torchrun(*arguments: str, n: int = 2) -> subprocess.Popen[str]:
    """The real torchrun with the damcha program, in a session of its own."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "damcha_cli", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment(),
        start_new_session=True, text=True,
    )  # fmt: skip


def differences(one: Path, other: Path) -> dict[str, float]:
    """How far two runs are apart.

    Returns:
        loss, grad_norm: the largest relative difference of a step or a validation; weights: the
        largest difference of a number of the model, the optimiser or the average, relative to
        the largest number of its tensor.
    """
    lines = list(zip(metrics(one), metrics(other), strict=True))
    found = {}
    for key in ("loss", "grad_norm"):
        pairs = [(a[key], b[key]) for a, b in lines if a[key] is not None]
        found[key] = max(abs(a - b) / abs(a) for a, b in pairs)
    for a, b in lines:
        for key in ("step", "epoch", "split", "lr", "samples", "tokens"):
            assert a.get(key) == b.get(key), f"{key} of {a} and {b}"
    found["weights"] = 0.0
    for name in ("weights.safetensors", "train_state.safetensors"):
        tensors, others = (load_file(last_folder(run) / name) for run in (one, other))
        assert tensors.keys() == others.keys()
        for key in tensors.keys() - {"random/cpu"}:
            a, b = without_key_bias(key, tensors[key]), without_key_bias(key, others[key])
            gap = (a - b).abs().max().item() / max(a.abs().max().item(), 1e-3)
            found["weights"] = max(found["weights"], gap)
    return found


def without_key_bias(name: str, tensor: Tensor) -> Tensor:
    """A tensor without the bias of mha's keys.

    It adds the same to all scores of a query, so its gradient is rounding and nothing else, and
    AdamW makes steps of its own of that.
    """
    if "qkv.bias" not in name or tensor.ndim == 0:
        return tensor
    query, _key, value = tensor.chunk(3)
    return torch.cat([query, value])
