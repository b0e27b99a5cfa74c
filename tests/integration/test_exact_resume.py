"""A run that goes on from any of its checkpoints ends with the bits of the unbroken run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from tiny_data import N_TRAIN
from tiny_runs import (
    Recorder,
    fingerprint,
    go_on,
    last_folder,
    last_step,
    metrics,
    rewind,
    rewrite,
    train,
)

from damcha_core.errors import Interrupted
from damcha_core.evaluate.reconstruction import ReconstructionEvaluator
from damcha_core.train.checkpoint import read_checkpoint

# Seven micro-batches an epoch (the last of three pictures) in windows of two: four updates, of
# which the last has one micro-batch.
BATCH, ACCUMULATE, EPOCHS = 7, 2, 6
STEPS_PER_EPOCH = 4
TOTAL = EPOCHS * STEPS_PER_EPOCH
CHANGES: dict[str, object] = {
    "train.batch_size": BATCH,
    "train.accumulate": ACCUMULATE,
    "train.epochs": EPOCHS,
    "train.save_every_steps": 1,
    "train.keep_last": 1000,
}
NO_SAVES: dict[str, object] = {"train.save_every_steps": 0}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed, with every checkpoint kept."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    train(out, **CHANGES)
    assert last_step(out) == TOTAL
    return out


@pytest.mark.slow
@pytest.mark.parametrize("step", range(2, 22))
def test_resuming_from_each_step_changes_no_bit(tmp_path, unbroken, step):
    run = rewind(unbroken, tmp_path / "run", step)
    watcher = Recorder()
    outcome = go_on(run, watcher, **NO_SAVES)
    assert outcome.resumed_from == f"step-{step:08d}"
    assert watcher.steps[0].step == step + 1
    assert watcher.starts[0].steps == TOTAL - step
    assert fingerprint(run) == fingerprint(unbroken)


@pytest.mark.parametrize(
    ("step", "number"),
    [(1, signal.SIGINT), (STEPS_PER_EPOCH, signal.SIGTERM), (TOTAL - 1, signal.SIGINT)],
)
def test_a_signal_in_a_step_saves_that_step(tmp_path, unbroken, step, number):
    run = tmp_path / "run"

    def strike(report):
        if report.step == step:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted) as caught:
        train(run, Recorder(strike), **{**CHANGES, **NO_SAVES})
    assert caught.value.exit_code == 128 + number
    assert str(last_folder(run)) in str(caught.value)
    assert f"damcha train --resume {run}" in str(caught.value)
    assert last_step(run) == step
    go_on(run)
    assert fingerprint(run) == fingerprint(unbroken)


@pytest.mark.parametrize("epoch", [1, EPOCHS])
def test_a_signal_in_a_validation_leaves_it_to_the_resumed_run(
    tmp_path, unbroken, monkeypatch, epoch
):
    run = tmp_path / "run"
    update, watcher = ReconstructionEvaluator.update, Recorder()

    def strike(self, model, batch):
        if len(watcher.epochs) == epoch - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        update(self, model, batch)

    monkeypatch.setattr(ReconstructionEvaluator, "update", strike)
    with pytest.raises(Interrupted):
        train(run, watcher, **{**CHANGES, **NO_SAVES})
    monkeypatch.undo()
    assert last_step(run) == epoch * STEPS_PER_EPOCH
    assert read_checkpoint(last_folder(run)).state["position"]["consumed"] == N_TRAIN
    assert metrics(run)[-1]["split"] == "train"
    resumed = Recorder()
    go_on(run, resumed)
    assert resumed.epochs[0].train_loss is None
    assert fingerprint(run) == fingerprint(unbroken)


def test_a_kill_between_a_resumed_validation_and_its_checkpoint_logs_it_once(tmp_path, unbroken):
    run = rewind(unbroken, tmp_path / "run", STEPS_PER_EPOCH)
    closed = read_checkpoint(last_folder(run)).state["position"]
    assert (closed["epoch"], closed["consumed"]) == (1, 0)
    best = {"value": None, "step": 0, "waited": 0}
    position = {**closed, "epoch": 0, "consumed": N_TRAIN, "best": best}
    state = read_checkpoint(last_folder(run)).state
    rewrite(last_folder(run), state={**state, "position": position})
    go_on(run, **NO_SAVES)
    assert fingerprint(run) == fingerprint(unbroken)


def forget_position(run: Path) -> None:
    state = read_checkpoint(last_folder(run)).state
    position = {**state["position"], "consumed": 0}
    rewrite(last_folder(run), state={**state, "position": position})


def forget_moments(run: Path) -> None:
    tensors = read_checkpoint(last_folder(run)).tensors
    changed = {
        name: torch.zeros_like(tensor) if "exp_avg" in name else tensor
        for name, tensor in tensors.items()
    }
    rewrite(last_folder(run), tensors=changed)


def forget_average(run: Path) -> None:
    checkpoint = read_checkpoint(last_folder(run))
    weights = {f"ema/{name}": tensor for name, tensor in checkpoint.weights.items()}
    rewrite(last_folder(run), tensors={**checkpoint.tensors, **weights})


@pytest.mark.parametrize("forget", [forget_position, forget_moments])
def test_control_without_a_part_of_the_state_the_weights_differ(tmp_path, unbroken, forget):
    run = rewind(unbroken, tmp_path / "run", 6)
    forget(run)
    go_on(run, **NO_SAVES)
    assert fingerprint(run)["weights"] != fingerprint(unbroken)["weights"]


def test_control_without_the_average_the_scores_differ(tmp_path, unbroken):
    run = rewind(unbroken, tmp_path / "run", TOTAL - 2)
    forget_average(run)
    go_on(run)
    assert fingerprint(run)["weights"] == fingerprint(unbroken)["weights"]
    assert fingerprint(run)["result"] != fingerprint(unbroken)["result"]


def test_control_another_seed_gives_other_weights(tmp_path, unbroken):
    train(tmp_path / "run", **{**CHANGES, **NO_SAVES, "run.seed": 4})
    assert fingerprint(tmp_path / "run")["weights"] != fingerprint(unbroken)["weights"]


def test_a_damaged_last_checkpoint_is_written_anew(tmp_path, unbroken):
    run = rewind(unbroken, tmp_path / "run", 9)
    damaged = last_folder(run) / "weights.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    watcher = Recorder()
    outcome = go_on(run, watcher)
    assert outcome.resumed_from == "step-00000008"
    assert any(str(damaged) in notice and "falling back" in notice for notice in watcher.notices)
    read_checkpoint(run / "checkpoints" / "step-00000009")
    assert fingerprint(run) == fingerprint(unbroken)


def test_data_workers_move_no_bit(tmp_path, unbroken):
    run = rewind(unbroken, tmp_path / "run", 10)
    go_on(run, **NO_SAVES, **{"data.workers": 2})
    assert fingerprint(run) == fingerprint(unbroken)


@pytest.mark.slow
def test_a_run_stored_without_an_added_key_resumes_as_it_was_trained(tmp_path):
    """As version 0.1 left it: no scales in run.toml, trained with the step of the matrix form."""
    scales = {"attention.lr_scale": "matrix", "attention.body_lr_scale": 1.0}
    then: dict[str, object] = {**scales, "train.epochs": 2}
    train(tmp_path / "whole", **then)
    train(tmp_path / "old", **then, **{"train.stop_after_epochs": 1})
    file = tmp_path / "old" / "run.toml"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("lr_scale", "body_lr_scale"))]
    assert len(kept) == len(lines) - 2
    file.write_text("".join(kept), encoding="utf-8")
    go_on(tmp_path / "old", **{"train.stop_after_epochs": 0})
    assert fingerprint(tmp_path / "old") == fingerprint(tmp_path / "whole")
