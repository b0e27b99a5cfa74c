"""Regenerate tests/golden/training/losses.json: 20 training losses of most tasks.

    python scripts/regenerate_golden_losses.py

Run it after a change that is meant to move the numbers of a training (the order of the samples,
the masks, the initialisation, a model, the optimiser), look at the difference in git, and say in
the commit why it moved. tests/integration/test_golden_losses.py compares with the stored numbers;
a change that is not meant to move them must not need this script.

Each task trains with `mha`, and with `damcha` as it is by default and as version 0.1 had it (the
start at the identity, and the random one, with the step of the matrix form), in float64 on one CPU
thread, on built-in data or on small pictures made here. `concepts` stands for the text tasks, which
train alike. Its tokenizer is stored beside the losses, because another version of sentencepiece may
train another one; delete it to have it made again.

Every setting is given below, so that neither a recipe nor a default has a part in the numbers; and
the weights are drawn here, because torch draws others (in the last bit) on another CPU, and may
draw others in another version.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tiny_data import write_cifar10, write_pictures  # noqa: E402

from damcha_core.catalog.tasks import task_row, task_rows  # noqa: E402
from damcha_core.config.resolve import resolve  # noqa: E402
from damcha_core.config.schema import RunConfig  # noqa: E402
from damcha_core.data.randomness import generator  # noqa: E402
from damcha_core.evaluate.evaluator import build_evaluator  # noqa: E402
from damcha_core.tasks.build import build_task  # noqa: E402
from damcha_core.tasks.text_task import TOKENIZER  # noqa: E402
from damcha_core.train.observer import Observer, StepReport  # noqa: E402
from damcha_core.train.run import build_learner, torch_settings  # noqa: E402
from damcha_core.train.run_folder import RunFolder  # noqa: E402
from damcha_core.train.signals import StopRequest  # noqa: E402
from damcha_core.train.state import TrainState  # noqa: E402
from damcha_core.train.trainer import Trainer  # noqa: E402

STORED = ROOT / "tests" / "golden" / "training" / "losses.json"
STORED_TOKENIZER = STORED.with_name("concepts.model")
TASKS = (*(row.name for row in task_rows() if not row.is_text), "concepts")
STEPS = 20

SETTINGS: dict[str, Any] = {
    "run.name": "",
    "run.seed": 12345,
    "run.device": "cpu",
    "run.threads": 1,
    "run.deterministic": False,
    "model.d_model": 16,
    "model.n_heads": 4,
    "model.d_ff": 24,
    "model.n_layers": 2,
    # torch promises no equal dropout masks between its versions.
    "model.dropout": 0.0,
    "model.causal": False,
    "data.mask_ratio": 0.5,
    "data.source_lang": "en",
    "data.target_lang": "de",
    "data.tokenizer": "unigram",
    "data.vocab_size": 400,
    "data.max_tokens": 128,
    "data.n_pairs": 6,
    "data.sequence_length": 20,
    "data.train_samples": 100,
    "data.easy_epochs": 1,
    "data.workers": 0,
    "data.verify": False,
    "train.epochs": 50,
    "train.max_steps": STEPS,
    "train.batch_size": 8,
    "train.batch_tokens": 0,
    "train.accumulate": 2,
    "train.lr": 5e-3,
    "train.weight_decay": 0.05,
    "train.warmup_steps": 5,
    "train.min_lr_ratio": 0.1,
    "train.clip_norm": 0.5,
    "train.ema_decay": 0.0,
    "train.label_smoothing": 0.0,
    "train.patience": 0,
    "train.precision": "float64",
    "train.compile": False,
    "train.save_every_steps": 0,
    "train.keep_last": 1,
    "train.stop_after_epochs": 0,
    "train.horizon_steps": STEPS,
    "eval.split": "valid",
    "eval.batch_size": 250,
    "eval.beam": 1,
    "eval.length_penalty": 0.6,
    "eval.max_new_tokens": 2,
}
TEXT: dict[str, Any] = {
    "model.causal": True,
    "train.batch_tokens": 250,
    "train.label_smoothing": 0.1,
}
"""What differs where texts are trained."""
RECALL: dict[str, Any] = {"model.causal": True, "data.vocab_size": 21}
"""What differs where pairs are looked up."""
DAMCHA: dict[str, Any] = {
    "attention.structure": "full",
    "attention.source": "adaptive",
    "attention.share": True,
    "attention.refresh": "token",
    "attention.refresh_ratio": 1.25,
    "attention.output": "head",
    "attention.rank": 0,
    "attention.mlp_hidden": [12, 20],
}
ATTENTIONS: dict[str, dict[str, Any]] = {
    "damcha": {
        **DAMCHA,
        "attention.init": "random",
        "attention.lr_scale": 0.25,
        "attention.body_lr_scale": 0.25,
    },
    "damcha-identity-matrix": {
        **DAMCHA,
        "attention.init": "identity",
        "attention.lr_scale": "matrix",
        "attention.body_lr_scale": 1.0,
    },
    "damcha-random-matrix": {
        **DAMCHA,
        "attention.init": "random",
        "attention.lr_scale": "matrix",
        "attention.body_lr_scale": 1.0,
    },
    "mha": {},
}
"""The settings of [attention] by the label of the stored losses; the label begins with the name."""
PICTURES: dict[str, tuple[int, int]] = {"digits": (8, 2), "cifar10": (32, 8), "images": (16, 4)}
"""Side and patch side of each data set, in pixels."""


def golden_config(task: str, attention: str, data: Path, out: Path) -> RunConfig:
    """Settings of one golden training.

    Args:
        task: name of the task.
        attention: one of ATTENTIONS.
        data: a folder that write_data filled.
        out: the run folder.
    """
    image_size, patch_size = PICTURES.get(task.removesuffix("-cls"), (32, 4))
    own: dict[str, Any] = {
        "run.task": task,
        "run.out": str(out),
        "attention.name": attention.partition("-")[0],
        "data.root": str(data),
        "data.image_size": image_size,
        "model.patch_size": patch_size,
        "train.label_smoothing": 0.1 if task.endswith("-cls") else 0.0,
        **(TEXT if task_row(task).is_text else RECALL if task_row(task).recalls else {}),
    }
    return resolve(None, [], {**SETTINGS, **own, **ATTENTIONS[attention]})


def write_data(folder: Path) -> None:
    """Make the pictures that are not built in; the same on every machine."""
    write_cifar10(folder)
    write_pictures(folder, side=PICTURES["images"][0])


class Losses(Observer):
    """Keeps the loss of every step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def step(self, report: StepReport) -> None:
        """Take one loss."""
        self.losses.append(report.loss)


@torch.no_grad()
def redraw(model: torch.nn.Module) -> None:
    """Draw what was initialised at random once more, uniformly, from NumPy's Philox."""
    for number, parameter in enumerate(model.parameters()):
        if bool((parameter == parameter.flatten()[0]).all()):
            continue  # norms and zero biases
        draws = generator("golden weights", number).bit_generator.random_raw(parameter.numel())
        bound = 0.1 if parameter.ndim < 2 else parameter.shape[-1] ** -0.5
        # 53 bits of each draw make a float64 between -1 and 1.
        uniform = torch.from_numpy((draws >> 11).astype("float64") / 2**52 - 1.0)
        parameter.copy_(uniform.view_as(parameter) * bound)


def golden_losses(config: RunConfig) -> list[float]:
    """Train and return the loss of each step."""
    watcher, folder = Losses(), RunFolder(Path(config.run.out))
    with torch_settings(config), StopRequest() as stop, folder.claim(config):
        stored = {TOKENIZER: STORED_TOKENIZER.read_bytes()} if STORED_TOKENIZER.exists() else None
        task = build_task(config, None, stored)
        learner = build_learner(config, task, torch.device("cpu"))
        redraw(learner.model)
        trainer = Trainer(
            config,
            task=task,
            learner=learner,
            evaluator=build_evaluator(task),
            folder=folder,
            state=TrainState(),
        )
        trainer.run(watcher, stop)
    return watcher.losses


def main() -> None:
    """Train all of them and write the file."""
    losses = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "data")
        if not STORED_TOKENIZER.exists():
            config = golden_config("concepts", "mha", folder / "data", folder / "none")
            STORED_TOKENIZER.write_bytes(build_task(config).assets[TOKENIZER])
        for name in TASKS:
            for attention in ATTENTIONS:
                out = folder / f"{name}-{attention}"
                config = golden_config(name, attention, folder / "data", out)
                losses[f"{name}/{attention}"] = golden_losses(config)
    record = {
        "made_by": f"scripts/{Path(__file__).name}",
        "made_with": {"torch": torch.__version__, "python": platform.python_version()},
        "losses": losses,
    }
    STORED.parent.mkdir(parents=True, exist_ok=True)
    STORED.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {len(losses)} x {STEPS} losses to {STORED}\n")


if __name__ == "__main__":
    main()
