"""Weights and optimiser states: what goes into files, and what comes back out of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from toy_task import toy_batch, toy_learner

from damcha_core.errors import CheckpointError
from damcha_core.train.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from damcha_core.train.optimizer_state import optimizer_tensors, restore_optimizer
from damcha_core.train.tensor_file import read_tensors, write_tensors
from damcha_core.train.weights import load_weights


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    """P49: every feature on, read by a reader that unpickles nothing."""
    learner = toy_learner(ema_decay=0.5, dropout=0.1)
    learner.update([toy_batch([1, 2])], step=1, dropout_seed=0)
    state = {"position": {"step": 1, "best": None}, "scaler": {}}
    written = Checkpoint(
        1, learner.model.state_dict(), learner.tensors(), state, "hash", threads=2, world_size=1
    )
    write_checkpoint(tmp_path, written)
    read = read_checkpoint(tmp_path)
    assert (read.step, read.config_hash, read.threads, read.world_size) == (1, "hash", 2, 1)
    assert read.state == state
    for before, after in ((written.weights, read.weights), (written.tensors, read.tensors)):
        assert before.keys() == after.keys()
        for name, tensor in before.items():
            assert after[name].dtype == tensor.dtype
            assert torch.equal(after[name], tensor.detach())


def test_the_weights_file_depends_on_the_weights_alone(tmp_path):
    weights = {"b": torch.ones(2), "a": torch.zeros(3)}
    files = []
    for name, step in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        write_checkpoint(tmp_path / name, Checkpoint(step, weights, {}, {"step": step}, name))
        files.append((tmp_path / name / "weights.safetensors").read_bytes())
        weights = dict(reversed(weights.items()))
    assert files[0] == files[1]
    assert b"__metadata__" not in files[0]


@pytest.mark.parametrize(("call", "name"), [("read_text", "manifest"), ("open", "weights")])
def test_a_file_that_vanishes_while_it_is_read_is_named(tmp_path, monkeypatch, call, name):
    """A run that still trains may prune the checkpoint under its reader."""
    write_checkpoint(tmp_path, Checkpoint(1, {"w": torch.ones(1)}, {}, {}, "hash"))

    original = getattr(Path, call)

    def gone(self, *arguments, **options):
        if self.name.startswith(name):
            raise FileNotFoundError(2, "No such file or directory")
        return original(self, *arguments, **options)

    monkeypatch.setattr(Path, call, gone)
    with pytest.raises(CheckpointError, match=rf"{name}\..*: cannot be read: No such file"):
        read_checkpoint(tmp_path)


def test_files_of_tensors_have_the_usual_permissions(tmp_path):
    """safetensors alone would hide them from everyone but their owner."""
    write_tensors(tmp_path / "a", {"w": torch.zeros(2)})
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_views_and_shared_memory_can_be_written(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {"a": base, "b": base.T, "c": base[1:, ::2]}
    write_tensors(tmp_path / "a", tensors)
    read = read_tensors(tmp_path / "a")
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("content", [None, b"", b"\x00" * 8, b"{}", b"\x80\x04."])
def test_a_file_that_holds_no_tensors_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(CheckpointError, match=str(tmp_path / "a")):
        read_tensors(tmp_path / "a")


def test_a_folder_is_no_file_of_tensors(tmp_path):
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        read_tensors(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": None}, "has no tensor weight, which the model needs"),
        ({"more": torch.zeros(1)}, "holds a tensor more that the model lacks"),
        ({"weight": torch.zeros(3, 2)}, r"weight has shape \(3, 2\), the model's has \(2, 3\)"),
        ({"weight": torch.zeros(2, 3, dtype=torch.int32)}, "weight holds torch.int32 numbers"),
        ({"weight": torch.zeros(2, 3, dtype=torch.complex64)}, "weight holds torch.complex64"),
        ({"weight": torch.zeros(2, 3).to(torch.float8_e5m2)}, "weight holds torch.float8_e5m2"),
    ],
)
def test_weights_that_do_not_fit_change_nothing(change, message):
    model = nn.Linear(3, 2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    given = {"bias": torch.full((2,), 7.0), "weight": torch.ones(2, 3)} | change
    given = {name: tensor for name, tensor in given.items() if tensor is not None}
    with pytest.raises(CheckpointError, match=message):
        load_weights(model, given)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_weights_are_taken_in_the_models_own_format(dtype):
    model = nn.Linear(3, 2)
    load_weights(model, {"bias": torch.ones(2).to(dtype), "weight": torch.ones(2, 3).to(dtype)})
    assert model.weight.dtype == torch.float32
    assert (model.weight == 1).all()


def test_the_state_of_every_parameter_is_named():
    learner = toy_learner()
    assert optimizer_tensors(learner.optimizer, learner.model) == {}
    learner.update([toy_batch([1])], step=1, dropout_seed=0)
    expected = {
        f"optimizer/{layer}.{part}/{what}"
        for layer in ("first", "second")
        for part in ("weight", "bias")
        for what in ("step", "exp_avg", "exp_avg_sq")
    }
    assert set(optimizer_tensors(learner.optimizer, learner.model)) == expected


@pytest.mark.parametrize("updates", [0, 1])
def test_a_state_that_is_left_out_is_a_fresh_one_before_the_first_update_alone(updates):
    learner = toy_learner()
    if updates:
        with pytest.raises(CheckpointError, match="does not fit the model"):
            restore_optimizer(learner.optimizer, learner.model, {}, updates=updates)
    else:
        restore_optimizer(learner.optimizer, learner.model, {}, updates=updates)
        assert learner.optimizer.state == {}


def test_half_a_state_is_refused_even_before_the_first_update():
    learner = toy_learner()
    tensors = {"optimizer/first.bias/exp_avg": torch.zeros(4)}
    with pytest.raises(CheckpointError, match=r"step of first\.bias does not fit"):
        restore_optimizer(learner.optimizer, learner.model, tensors, updates=0)


def test_a_state_of_no_parameter_is_refused():
    learner = toy_learner()
    with pytest.raises(CheckpointError, match="third/exp_avg belongs to no parameter"):
        restore_optimizer(
            learner.optimizer, learner.model, {"optimizer/third/exp_avg": torch.ones(1)}, updates=0
        )
