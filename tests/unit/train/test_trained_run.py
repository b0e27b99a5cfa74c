"""Reading a run back: which weights, which settings, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from tiny_data import tiny_root, write_cifar10
from tiny_runs import STEPS_PER_EPOCH, last_folder, metrics, train

from damcha_core.errors import CheckpointError, ConfigError, UsageError
from damcha_core.train.checkpoint import read_checkpoint
from damcha_core.train.trained_run import load_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three epochs, averaged, with all of its checkpoints."""
    out = tmp_path_factory.mktemp("run") / "run"
    train(out, **{"train.keep_last": 9})
    return out


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without an average."""
    out = tmp_path_factory.mktemp("plain") / "run"
    train(out, **{"train.ema_decay": 0.0})
    return out


def test_the_average_is_what_is_evaluated(trained):
    run = load_run(trained, checkpoint="last")
    stored = read_checkpoint(last_folder(trained))
    assert not run.model.training
    for name, tensor in run.model.state_dict().items():
        assert tensor.dtype == torch.float64
        assert torch.equal(tensor, stored.tensors[f"ema/{name}"].double())
    assert any(
        not torch.equal(stored.weights[n], stored.tensors[f"ema/{n}"]) for n in stored.weights
    )


def test_without_an_average_the_weights_are(plain):
    run = load_run(plain, checkpoint="last")
    stored = read_checkpoint(last_folder(plain))
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, stored.weights[name].double())


def test_best_is_the_best_of_the_log(trained):
    valid = [line for line in metrics(trained) if line["split"] == "valid"]
    best = min(valid, key=lambda line: line["metrics"]["masked_mse"])
    assert load_run(trained).step == best["step"]


@pytest.mark.parametrize("which", [str(STEPS_PER_EPOCH), f"step-{STEPS_PER_EPOCH:08d}"])
def test_a_checkpoint_is_taken_by_step_or_name(trained, which):
    run = load_run(trained, checkpoint=which)
    assert (run.step, run.checkpoint) == (STEPS_PER_EPOCH, f"step-{STEPS_PER_EPOCH:08d}")


def test_a_checkpoint_that_is_not_there_is_told_with_one_that_is(trained):
    with pytest.raises(CheckpointError, match="no checkpoint '5'; present: step-00000006"):
        load_run(trained, checkpoint="5")


def test_the_result_is_what_an_evaluation_gives(trained):
    _, record = load_run(trained).evaluate("valid")
    stored = json.loads((trained / "result.json").read_text(encoding="utf-8"))
    assert {key: stored[key] for key in record} == record


@pytest.mark.parametrize("size", [1, 3, 100])
def test_no_score_depends_on_the_batch_size(trained, size):
    _, expected = load_run(trained).evaluate("valid")
    _, record = load_run(trained, flags={"eval.batch_size": size}).evaluate("valid")
    for name, metric in expected["metrics"].items():
        assert record["metrics"][name]["value"] == pytest.approx(metric["value"], rel=1e-12)


def test_other_data_may_be_evaluated_and_the_run_stays_itself(trained, tmp_path):
    write_cifar10(tmp_path, n_each=14, seed=9)
    run = load_run(trained, sets=[f"data.root={json.dumps(str(tmp_path))}"])
    _, record = run.evaluate("test")
    _, own = load_run(trained).evaluate("test")
    assert record["metrics"]["psnr"]["n"] == 14
    assert record["config_hash"] == own["config_hash"]
    assert str(tiny_root()) not in json.dumps(record)


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({"model.d_model": 16}, UsageError),
        ({"attention.structure": "psd"}, UsageError),
        ({"run.task": "digits"}, UsageError),
        ({"run.seed": 5}, UsageError),
        ({"run.device": "cuda:99"}, UsageError),
        ({"model.width": 16}, ConfigError),
    ],
)
def test_changes_that_make_another_model_are_refused(trained, flags, error):
    with pytest.raises(error) as caught:
        load_run(trained, flags=flags)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("how", ["missing", "empty", "file"])
def test_what_is_no_run_is_said(tmp_path, how):
    path = tmp_path / "x"
    if how == "empty":
        path.mkdir()
    elif how == "file":
        path.write_bytes(b"\x89PNG")
    with pytest.raises(CheckpointError, match="x: not a run folder"):
        load_run(path)


def test_a_run_that_saved_nothing_is_said(trained, tmp_path):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(CheckpointError, match="best: nothing saved yet"):
        load_run(run)


def test_a_moved_run_works_from_anywhere(trained, tmp_path, monkeypatch):
    run = Path(shutil.copytree(trained, tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    assert load_run(Path("elsewhere")).evaluate("valid")[1]["run"] == "elsewhere"
    assert str(trained) not in (run / "checkpoints" / "best").read_text(encoding="utf-8")


def test_a_read_only_run_folder_is_enough(trained, tmp_path, monkeypatch):
    """Root ignores file modes, so writing is made to fail instead."""
    run = Path(shutil.copytree(trained, tmp_path / "run"))

    def refuse(*_arguments, **_options):
        raise AssertionError("something was written")

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    before = sorted(p.stat().st_mtime_ns for p in run.rglob("*"))
    load_run(run).evaluate("valid")
    assert sorted(p.stat().st_mtime_ns for p in run.rglob("*")) == before


def test_reconstructing_needs_a_run_that_learnt_it(tmp_path):
    train(tmp_path / "cls", **{"run.task": "cifar10-cls", "train.max_steps": 1})
    with pytest.raises(CheckpointError, match="trained on cifar10-cls, which hides no patches"):
        load_run(tmp_path / "cls").reconstruct([])


def test_pictures_and_a_split_exclude_each_other(trained):
    with pytest.raises(UsageError, match="picture files or --split"):
        load_run(trained).reconstruct([Path("a.png")], split="test")


def test_a_mean_picture_of_another_kind_is_refused(trained, tmp_path):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "mean_picture.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"mean_picture\.safetensors: cannot be read"):
        load_run(run).reconstruct([])
    shutil.copy(last_folder(run) / "weights.safetensors", run / "mean_picture.safetensors")
    with pytest.raises(CheckpointError, match=r"mean_picture\.safetensors: no picture of this run"):
        load_run(run).reconstruct([])


def test_reconstructing_a_split_gives_pictures(trained):
    restoration, notices = load_run(trained).reconstruct([], split="test", count=3)
    assert notices == ()
    assert restoration is not None
