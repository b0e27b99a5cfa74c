"""Very small trainings, and what tests ask of their folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiny_data import N_TRAIN, tiny_root

from damcha_core.config.resolve import resolve
from damcha_core.config.schema import RunConfig
from damcha_core.train.checkpoint import read_checkpoint, write_checkpoint
from damcha_core.train.metrics_log import read_metrics
from damcha_core.train.observer import EpochReport, Observer, RunStart, StepReport
from damcha_core.train.run import RunOutcome, resume, start

SETTINGS: dict[str, object] = {
    "run.task": "cifar10",
    "run.seed": 3,
    "run.device": "cpu",
    "run.threads": 1,
    "attention.name": "damcha",
    "attention.init": "random",
    "attention.mlp_hidden": [8],
    "model.d_model": 8,
    "model.n_heads": 2,
    "model.d_ff": 16,
    "model.n_layers": 2,
    "model.dropout": 0.1,
    "model.patch_size": 8,
    "data.image_size": 32,
    "data.mask_ratio": 0.5,
    "data.verify": False,
    "train.epochs": 3,
    "train.batch_size": 8,
    "train.lr": 1e-2,
    "train.warmup_steps": 4,
    "train.weight_decay": 0.05,
    "train.ema_decay": 0.9,
    "eval.batch_size": 2,
}
"""Six steps an epoch; nothing that matters is left to the recipe."""

STEPS_PER_EPOCH = -(-N_TRAIN // 8)


def tiny_config(out: Path, **changes: object) -> RunConfig:
    """Settings of a tiny run into a folder; changes by dotted key."""
    places: dict[str, object] = {"run.out": str(out), "data.root": str(tiny_root())}
    return resolve(None, [], {**SETTINGS, **places, **changes})


class Recorder(Observer):
    """Keeps what a run tells, and calls a function after each step."""

    def __init__(self, after_step: Callable[[StepReport], None] | None = None) -> None:
        self.notices: list[str] = []
        self.starts: list[RunStart] = []
        self.steps: list[StepReport] = []
        self.epochs: list[EpochReport] = []
        self.n_finished = 0
        self._after_step = after_step

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def started(self, start: RunStart) -> None:
        self.starts.append(start)

    def step(self, report: StepReport) -> None:
        self.steps.append(report)
        if self._after_step is not None:
            self._after_step(report)

    def epoch(self, report: EpochReport) -> None:
        self.epochs.append(report)

    def finished(self) -> None:
        self.n_finished += 1


def train(out: Path, observer: Observer | None = None, **changes: object) -> RunOutcome:
    """Train a tiny run from the start."""
    return start(tiny_config(out, **changes), observer or Recorder())


def go_on(out: Path, observer: Observer | None = None, **changes: object) -> RunOutcome:
    """Resume a run, with changed settings by dotted key."""
    return resume(out, observer or Recorder(), flags=changes)


def sha256(path: Path) -> str:
    """Hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def last_folder(run: Path) -> Path:
    """The checkpoint that `last` names."""
    checkpoints = run / "checkpoints"
    return checkpoints / (checkpoints / "last").read_text(encoding="utf-8").strip()


def last_step(run: Path) -> int:
    """Step of `last`; 0 where nothing was saved yet."""
    try:
        return int(last_folder(run).name.removeprefix("step-"))
    except FileNotFoundError:
        return 0


def metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without the seconds."""
    lines = read_metrics(run / "metrics.jsonl")
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def fingerprint(run: Path) -> dict[str, object]:
    """Everything of a run that an interruption must not change."""
    last = last_folder(run)
    scores = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {
        "last": last.name,
        "best": (run / "checkpoints" / "best").read_text(encoding="utf-8"),
        "weights": sha256(last / "weights.safetensors"),
        "state": sha256(last / "train_state.safetensors"),
        "position": json.loads((last / "train_state.json").read_text(encoding="utf-8")),
        "metrics": metrics(run),
        "result": {key: scores[key] for key in ("step", "steps", "epochs", "ended", "metrics")},
    }


def temporaries(run: Path) -> list[Path]:
    """Temporary files and folders anywhere in a folder."""
    return sorted(run.rglob(".tmp-*"))


def rewind(run: Path, copy: Path, step: int) -> Path:
    """A copy of a run folder as a kill right after the save of a step leaves it."""
    shutil.copytree(run, copy)
    for checkpoint in (copy / "checkpoints").glob("step-*"):
        if int(checkpoint.name.removeprefix("step-")) > step:
            shutil.rmtree(checkpoint)
    (copy / "checkpoints" / "last").write_text(f"step-{step:08d}\n", encoding="utf-8")
    (copy / "result.json").unlink(missing_ok=True)
    return copy


def rewrite(checkpoint: Path, **parts: Any) -> None:
    """Replace parts of a checkpoint and give it a manifest that vouches for them."""
    old = read_checkpoint(checkpoint)
    shutil.rmtree(checkpoint)
    checkpoint.mkdir()
    write_checkpoint(checkpoint, type(old)(**{**old.__dict__, **parts}))


def repository() -> Path:
    """Where the packages under test lie."""
    return Path(__file__).resolve().parents[1]


def child_environment() -> dict[str, str]:
    """Environment in which a child process finds the packages and computes with one thread."""
    paths = [str(repository()), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }
