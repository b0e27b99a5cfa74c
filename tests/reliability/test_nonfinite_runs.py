"""NaN and infinity, wherever they come from, stop a run before its weights change."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import Recorder, fingerprint, go_on, last_folder, metrics, tiny_config, train
from torch import nn

from damcha_core.data.reconstruction_dataset import ReconstructionDataset
from damcha_core.errors import NonFiniteError
from damcha_core.evaluate.evaluator import build_evaluator
from damcha_core.tasks.build import build_task
from damcha_core.tasks.reconstruction import ReconstructionTask
from damcha_core.tasks.task import Batch, LossSum
from damcha_core.train.learner import Learner
from damcha_core.train.run import build_learner
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.signals import StopRequest
from damcha_core.train.state import TrainState
from damcha_core.train.trainer import Trainer

CPU = torch.device("cpu")
# Three windows of two micro-batches an epoch; 9 steps in all.
CHANGES: dict[str, object] = {
    "train.accumulate": 2,
    "train.horizon_steps": 9,
    "train.save_every_steps": 1,
    "train.keep_last": 100,
}
STEPS = [1, 5, 9]


class BrokenTask(ReconstructionTask):
    """Goes wrong in one micro-batch of one step, the way it is told to."""

    break_at = 0
    how = "none"
    value = math.nan

    def begin(self, micro_batch: int) -> bool:
        self.calls = getattr(self, "calls", 0) + 1
        return self.calls == micro_batch

    def loss(self, model: nn.Module, batch: Batch) -> LossSum:
        if not model.training:
            return super().loss(model, batch)
        now = self.begin(self.break_at)
        if now and self.how == "input":
            # The same tensor is looked at again for the report.
            batch["images"][0, 0, 0, 0] = self.value
        if now and self.how == "activation":
            model.transformer.blocks[1].feed_forward.register_forward_hook(
                lambda _module, _inputs, output: output * self.value
            )
        result = super().loss(model, batch)
        if now and self.how == "loss":
            return LossSum(result.total * self.value, result.items)
        if now and self.how == "gradient":
            model.head.weight.register_hook(lambda gradient: gradient * self.value)
            return super().loss(model, batch)
        return result


def joined(batches: list[list[int]]) -> list[int]:
    return [sample for batch in batches for sample in batch]


def broken_trainer(out: Path, how: str, value: float, step: int, micro_batch: int) -> Trainer:
    """A trainer whose task breaks in a micro-batch (0 or 1) of a step."""
    config = tiny_config(out, **CHANGES)
    row = build_task(config).row
    task = BrokenTask(row, config)
    task.how, task.value = how, value
    task.break_at = 2 * (step - 1) + micro_batch + 1
    return trainer_of(config, task, out)


def trainer_of(config, task, out: Path) -> Trainer:
    learner: Learner = build_learner(config, task, CPU)
    folder = RunFolder(out)
    out.mkdir(exist_ok=True)
    return Trainer(
        config, task=task, learner=learner, evaluator=build_evaluator(task), folder=folder,
        state=TrainState(),
    )  # fmt: skip


def snapshot(trainer: Trainer) -> dict[str, torch.Tensor]:
    learner = trainer.learner
    states = {**learner.model.state_dict(), **learner.tensors()}
    return {n: t.clone() for n, t in states.items() if not n.startswith("random")}


def require_stopped(trainer: Trainer, step: int) -> str:
    """Run until it stops in a step; its weights must be those after the step before."""
    kept: dict[str, torch.Tensor] = snapshot(trainer)

    def keep(_report) -> None:
        kept.update(snapshot(trainer))

    with StopRequest() as stop, pytest.raises(NonFiniteError) as caught:
        trainer.run(Recorder(keep), stop)
    assert caught.value.exit_code == 5
    text = str(caught.value)
    assert text.startswith(f"step {step}: ")
    assert "the weights were not changed" in text
    now = snapshot(trainer)
    assert now.keys() == kept.keys()
    assert all(torch.equal(now[name], kept[name]) for name in kept)
    assert all(p.grad is None for p in trainer.learner.model.parameters())
    assert trainer.state.step == step - 1
    return text


def require_finite_files(out: Path) -> None:
    for path in out.rglob("*.safetensors"):
        for name, tensor in load_file(path).items():
            assert torch.isfinite(tensor).all(), f"{name} in {path}"


def ids_named(text: str) -> list[int]:
    found = re.search(r"training samples ([\d, ]+)", text)
    assert found
    return [int(number) for number in found.group(1).rstrip(", ").split(", ")]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("micro_batch", [0, 1])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(
    ("how", "where"),
    [
        ("input", "the input (images)"),
        ("activation", "transformer.blocks.1.feed_forward"),
        ("loss", "the loss itself"),
        ("gradient", "head.weight"),
    ],
)
def test_a_run_stops_with_its_weights_as_they_were(
    tmp_path, how, where, value, micro_batch, step
):
    trainer = broken_trainer(tmp_path / "run", how, value, step, micro_batch)
    text = require_stopped(trainer, step)
    assert where in text
    epoch = (step - 1) // 3
    window = (step - 1) % 3
    keys = trainer.task.training_batches(epoch, 0)[2 * window : 2 * window + 2]
    batches = [[sample for _, sample in batch] for batch in keys]
    expected = joined(batches) if how == "gradient" else batches[micro_batch]
    assert ids_named(text) == expected[:8]
    require_finite_files(tmp_path / "run")
    assert [line["step"] for line in metrics(tmp_path / "run") if line["split"] == "train"] == list(
        range(1, step)
    )


def test_mended_data_let_the_run_go_on_as_if_nothing_had_been(tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    train(whole, **CHANGES)
    read: Callable[..., Batch] = ReconstructionDataset.__getitems__

    def broken(self, keys):
        batch = read(self, keys)
        if self._training and keys[0][0] == 1:
            batch["images"][-1] = math.nan
        return batch

    with monkeypatch.context() as patched, pytest.raises(NonFiniteError, match="step 4: "):
        patched.setattr(ReconstructionDataset, "__getitems__", broken)
        train(tmp_path / "run", **CHANGES)
    require_finite_files(tmp_path / "run")
    assert last_folder(tmp_path / "run").name == "step-00000003"
    go_on(tmp_path / "run")
    assert fingerprint(tmp_path / "run") == fingerprint(whole)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_validation_that_is_not_finite_stops_the_run_too(tmp_path, monkeypatch, average):
    validate = Trainer._validate

    def poisoned(self, log, stop):
        if self.state.step == 12:
            with torch.no_grad():
                self.learner.evaluation_model.head.bias.fill_(math.nan)
        return validate(self, log, stop)

    monkeypatch.setattr(Trainer, "_validate", poisoned)
    with pytest.raises(NonFiniteError, match="validation after step 12: .* picture 0") as caught:
        train(tmp_path / "run", **{"train.ema_decay": average})
    assert caught.value.exit_code == 5
    assert last_folder(tmp_path / "run").name == "step-00000006"
    require_finite_files(tmp_path / "run")


def test_control_nothing_breaks_without_being_told(tmp_path):
    trainer = broken_trainer(tmp_path / "run", "none", math.nan, 1, 0)
    with StopRequest() as stop:
        trainer.run(Recorder(), stop)
    assert trainer.state.ended == "epochs"
