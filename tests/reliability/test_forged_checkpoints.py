"""Checkpoints that are whole and vouched for, and hold what no run of ours would save."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import go_on, last_folder, rewrite, train

from damcha_core.errors import CheckpointError
from damcha_core.train.checkpoint import read_checkpoint
from damcha_core.train.trained_run import load_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one checkpoint, stopped half-way."""
    out = tmp_path_factory.mktemp("run") / "run"
    train(out, **{"train.keep_last": 1, "train.stop_after_epochs": 1})
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def changed(tensors: dict[str, Any], name: str, how: Callable[[Any], Any]) -> dict[str, Any]:
    return {key: how(value) if key == name else value for key, value in tensors.items()}


WEIGHT = "head.weight"
MOMENT = f"optimizer/{WEIGHT}/exp_avg"


@pytest.mark.parametrize(
    "how",
    [
        lambda t: t.flatten(),
        lambda t: t[:-1],
        lambda t: torch.zeros(()),
        lambda t: t.to(torch.int64),
        lambda t: t.to(torch.complex64),
        lambda t: t.bool(),
        lambda t: t.to(torch.float8_e4m3fn),
    ],
)
def test_weights_of_another_kind_are_refused_by_name(run, how):
    checkpoint = last_folder(run)
    old = read_checkpoint(checkpoint)
    tensors = {name.removeprefix("ema/"): t for name, t in old.tensors.items()}
    assert WEIGHT in tensors
    bad = changed(dict(old.weights), WEIGHT, how)
    averaged = changed(dict(old.tensors), f"ema/{WEIGHT}", how)
    rewrite(checkpoint, weights=bad, tensors=averaged)
    for reading in (load_run, go_on):
        with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*{WEIGHT}"):
            reading(run)


@pytest.mark.parametrize("name", [WEIGHT, MOMENT, "random/cpu", "ema_updates", f"ema/{WEIGHT}"])
def test_a_tensor_that_is_missing_is_named(run, name):
    checkpoint = last_folder(run)
    old = read_checkpoint(checkpoint)
    rewrite(
        checkpoint,
        weights={key: t for key, t in old.weights.items() if key != name},
        tensors={key: t for key, t in old.tensors.items() if key != name},
    )
    with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*{name.rpartition('/')[2]}"):
        go_on(run)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        (MOMENT, torch.zeros(1)),
        (MOMENT, torch.zeros(192, 8, dtype=torch.int64)),
        (f"optimizer/{WEIGHT}/step", torch.zeros(2)),
        ("optimizer/nothing/exp_avg", torch.zeros(2)),
        ("ema/nothing", torch.zeros(2)),
        ("ema_updates", torch.zeros(3, dtype=torch.int64)),
        ("random/cpu", torch.zeros(7, dtype=torch.uint8)),
        ("random/cpu", torch.zeros(5056)),
    ],
)
def test_a_state_of_another_kind_is_named(run, name, tensor):
    checkpoint = last_folder(run)
    old = read_checkpoint(checkpoint)
    rewrite(checkpoint, tensors={**old.tensors, name: tensor})
    part = name.removeprefix("ema/").split("/")[-2 if name.startswith("optimizer") else -1]
    with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*{part}"):
        go_on(run)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"position": {}},
        {"position": 3},
        {"position": {"step": 6}},
        {"position": None, "scaler": {}},
    ],
)
def test_a_position_of_another_kind_is_refused(run, state):
    checkpoint = last_folder(run)
    own = read_checkpoint(checkpoint).state
    rewrite(checkpoint, state={"run_hash": own["run_hash"], "scaler": own["scaler"], **state})
    with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*position is not readable"):
        go_on(run)


def test_a_position_of_another_step_is_refused(run):
    checkpoint = last_folder(run)
    own = read_checkpoint(checkpoint).state
    rewrite(checkpoint, state={**own, "position": {**own["position"], "step": 5}})
    with pytest.raises(CheckpointError, match="step 5 in a checkpoint of step 6"):
        go_on(run)


def test_a_checkpoint_without_its_scaler_is_refused(run):
    checkpoint = last_folder(run)
    own = dict(read_checkpoint(checkpoint).state)
    del own["scaler"]
    rewrite(checkpoint, state=own)
    with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*loss scaler"):
        go_on(run)


def test_a_checkpoint_of_another_model_is_told_apart(run, tmp_path):
    other = tmp_path / "other"
    train(other, **{"train.stop_after_epochs": 1, "model.d_ff": 24})
    shutil.rmtree(last_folder(run))
    shutil.copytree(last_folder(other), last_folder(run))
    for reading in (load_run, go_on):
        with pytest.raises(CheckpointError, match="of another run"):
            reading(run)
