"""What may change when a run goes on, when it is over, and what its folder is good for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny_data import tiny_root, write_cifar10, write_pictures
from tiny_runs import (
    STEPS_PER_EPOCH,
    Recorder,
    fingerprint,
    go_on,
    last_step,
    metrics,
    sha256,
    tiny_config,
    train,
)

from damcha_core.config.resolve import config_from_run
from damcha_core.errors import CheckpointError, DataError, UsageError
from damcha_core.train.rehearsal import rehearse
from damcha_core.train.run import start
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.trained_run import load_run
from damcha_core.train.trainer import Trainer

EPOCHS = 4


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    train(out, **{"train.epochs": EPOCHS})
    return out


@pytest.fixture
def run(unbroken: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(unbroken, tmp_path / "run"))


def files(folder: Path) -> dict[str, str]:
    """Hash of every file."""
    return {str(p.relative_to(folder)): sha256(p) for p in folder.rglob("*") if p.is_file()}


def test_the_folder_holds_what_the_design_promises(unbroken):
    names = {path.name for path in unbroken.iterdir()}
    assert {"run.toml", "environment.json", "metrics.jsonl", "result.json", "checkpoints"} <= names
    assert config_from_run(unbroken).train.horizon_steps == EPOCHS * STEPS_PER_EPOCH
    environment = json.loads((unbroken / "environment.json").read_text(encoding="utf-8"))
    assert environment["starts"][0]["threads"] == 1
    assert {"torch", "numpy"} <= set(environment["starts"][0]["packages"])
    keys = {"step", "epoch", "split", "loss", "lr", "grad_norm", "samples", "seconds"}
    for line in (unbroken / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        assert keys <= set(json.loads(line))
    result = json.loads((unbroken / "result.json").read_text(encoding="utf-8"))
    assert next(iter(result["metrics"])) == "masked_mse"
    assert set(result["metrics"]["masked_mse"]) == {"value", "unit", "n", "better"}
    assert result["resumed_from"] == ""


def test_a_complete_run_says_so_and_is_left_alone(run):
    before = files(run)
    outcome = go_on(run)
    assert outcome.already_complete
    assert outcome.ended == "epochs"
    assert files(run) == before


def test_stopping_after_some_epochs_and_going_on_equals_the_unbroken_run(tmp_path, unbroken):
    out = tmp_path / "run"
    outcome = train(out, **{"train.epochs": EPOCHS, "train.stop_after_epochs": 1})
    assert outcome.ended == ""
    assert last_step(out) == STEPS_PER_EPOCH
    outcome = go_on(out, **{"train.stop_after_epochs": 3})
    assert outcome.ended == ""
    assert last_step(out) == 3 * STEPS_PER_EPOCH
    outcome = go_on(out)
    assert (outcome.ended, outcome.resumed_from) == ("epochs", "step-00000018")
    assert outcome.result["resumed_from"] == "step-00000018"
    ours, theirs = fingerprint(out), fingerprint(unbroken)
    assert ours == theirs


def test_more_epochs_run_at_the_floor_and_are_warned_about(run):
    watcher = Recorder()
    outcome = go_on(run, watcher, **{"train.epochs": EPOCHS + 2})
    assert any("floor rate" in notice for notice in watcher.notices)
    assert outcome.result["epochs"] == EPOCHS + 2
    config = config_from_run(run)
    floor = config.train.lr * config.train.min_lr_ratio
    assert [report.lr for report in watcher.steps] == pytest.approx([floor] * 12, rel=1e-12)
    steps = [line["step"] for line in metrics(run) if line["split"] == "train"]
    assert steps == list(range(1, 6 * STEPS_PER_EPOCH + 1))


def test_an_extended_run_that_is_stopped_goes_on_to_its_new_end(run, tmp_path):
    other = Path(shutil.copytree(run, tmp_path / "other"))
    go_on(run, **{"train.epochs": EPOCHS + 2})
    go_on(other, **{"train.epochs": EPOCHS + 2, "train.stop_after_epochs": EPOCHS + 1})
    assert last_step(other) == (EPOCHS + 1) * STEPS_PER_EPOCH
    assert go_on(other).ended == "epochs"
    assert fingerprint(other) == fingerprint(run)


def test_fewer_epochs_than_were_made_are_nothing_to_do(tmp_path):
    out = tmp_path / "run"
    train(out, **{"train.stop_after_epochs": 2})
    outcome = go_on(out, **{"train.epochs": 1})
    assert outcome.already_complete
    assert last_step(out) == 2 * STEPS_PER_EPOCH


def test_a_result_that_was_never_written_is_made_up_for(run):
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    (run / "result.json").unlink()
    assert go_on(run).result == result


def test_a_result_of_an_earlier_end_is_not_taken_for_the_last_one(run):
    old = (run / "result.json").read_text(encoding="utf-8")
    go_on(run, **{"train.epochs": EPOCHS + 1})
    new = json.loads((run / "result.json").read_text(encoding="utf-8"))
    (run / "result.json").write_text(old, encoding="utf-8")
    assert go_on(run).result == new
    assert new["resumed_from"] == "step-00000024"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train.batch_size", 4),
        ("train.lr", 0.5),
        ("attention.structure", "symmetric"),
        ("model.d_model", 16),
        ("run.seed", 9),
        ("train.horizon_steps", 99),
        ("train.max_steps", 30),
        ("train.precision", "float64"),
    ],
)
def test_other_settings_are_refused_by_name(run, key, value):
    before = files(run)
    with pytest.raises(UsageError, match=rf"{key}.* cannot change in a run that has started"):
        go_on(run, **{key: value, "train.epochs": EPOCHS + 1})
    assert files(run) == before


def test_max_steps_ends_in_the_middle_of_an_epoch(tmp_path):
    outcome = train(tmp_path / "run", **{"train.max_steps": 8})
    assert (outcome.ended, outcome.result["steps"], outcome.result["epochs"]) == ("max_steps", 8, 1)
    assert [line["step"] for line in metrics(tmp_path / "run")][-2:] == [8, 8]
    assert go_on(tmp_path / "run", **{"train.epochs": 50}).already_complete


def worsening(monkeypatch: pytest.MonkeyPatch, scores: list[float]) -> None:
    """Make the validations of coming runs return these main scores."""
    validate = Trainer._validate
    left = iter(scores)

    def scored(self, log, stop):
        evaluation = validate(self, log, stop)
        main = self.task.row.metrics[0].name
        value = type(evaluation.metrics[main])(next(left), "", 1, "lower")
        return type(evaluation)(evaluation.split, 0.0, 1, {**evaluation.metrics, main: value})

    monkeypatch.setattr(Trainer, "_validate", scored)


def test_resuming_keeps_the_best_score_and_the_patience(tmp_path, monkeypatch):
    out = tmp_path / "run"
    worsening(monkeypatch, [0.5, 0.2, 0.3, 0.4, 0.25, 0.1])
    patience = {"train.epochs": 9, "train.patience": 3, "train.keep_last": 2}
    train(out, **patience, **{"train.stop_after_epochs": 4})
    best = f"step-{2 * STEPS_PER_EPOCH:08d}"
    assert (out / "checkpoints" / "best").read_text(encoding="utf-8").strip() == best
    outcome = go_on(out)
    assert (outcome.ended, outcome.result["epochs"]) == ("patience", 5)
    assert (out / "checkpoints" / "best").read_text(encoding="utf-8").strip() == best
    assert outcome.result["step"] == 2 * STEPS_PER_EPOCH
    kept = RunFolder(out).checkpoints.names()
    assert kept == [best, f"step-{4 * STEPS_PER_EPOCH:08d}", f"step-{5 * STEPS_PER_EPOCH:08d}"]


def test_without_a_finite_score_the_last_checkpoint_is_reported(tmp_path, monkeypatch):
    worsening(monkeypatch, [float("nan"), float("inf"), float("nan")])
    outcome = train(tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints" / "best").exists()
    assert outcome.result["step"] == 3 * STEPS_PER_EPOCH


def test_a_moved_run_needs_nothing_but_the_data_it_is_asked_about(tmp_path):
    data = tmp_path / "data"
    write_cifar10(data)
    lost = data / "cifar-10-batches-py" / "data_batch_1"
    train(tmp_path / "A", **{"data.root": str(data), "train.stop_after_epochs": 1})
    moved = Path(shutil.move(tmp_path / "A", tmp_path / "B"))
    lost.unlink()
    assert load_run(moved).step == STEPS_PER_EPOCH
    with pytest.raises(DataError, match=r"cifar-10-batches-py lacks data_batch_1"):
        go_on(moved)
    assert go_on(moved, **{"data.root": str(tiny_root())}).ended == "epochs"


def test_other_data_under_a_started_run_are_refused(tmp_path):
    train(tmp_path / "run", **{"train.stop_after_epochs": 1})
    write_cifar10(tmp_path / "data", n_each=12)
    with pytest.raises(DataError, match="the data changed since the run started"):
        go_on(tmp_path / "run", **{"data.root": str(tmp_path / "data")})


def test_other_pictures_in_the_same_number_are_noticed_where_the_run_knows_a_hash(tmp_path):
    train(tmp_path / "run", **{"train.stop_after_epochs": 1})
    write_cifar10(tmp_path / "data", seed=6)
    where: dict[str, object] = {"data.root": str(tmp_path / "data")}
    with pytest.raises(DataError, match=r"train 45 pictures \(sha256 .* now, .* then"):
        go_on(tmp_path / "run", **where)
    facts = tmp_path / "run" / "facts.json"
    known = json.loads(facts.read_text(encoding="utf-8"))
    del known["content"]  # as an earlier version wrote it
    facts.write_text(json.dumps(known), encoding="utf-8")
    assert go_on(tmp_path / "run", **where).ended == "epochs"


def test_a_folder_with_a_run_is_not_trained_into_again(run):
    before = files(run)
    with pytest.raises(UsageError, match=r"already holds a run.*--resume"):
        train(run)
    assert files(run) == before


def test_a_missing_data_set_leaves_no_folder(tmp_path):
    write_cifar10(tmp_path / "data")
    (tmp_path / "data" / "cifar-10-batches-py" / "test_batch").unlink()
    with pytest.raises(DataError, match="lacks test_batch"):
        train(tmp_path / "run", **{"data.root": str(tmp_path / "data")})
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_run_stopped_before_its_first_checkpoint_starts_over(tmp_path):
    """A kill right after run.toml leaves neither facts nor mean picture."""
    out = tmp_path / "run"
    config = tiny_config(out, **{"train.horizon_steps": 18})
    with RunFolder(out).claim(config):
        pass
    watcher = Recorder()
    outcome = go_on(out, watcher)
    assert any("no checkpoint was saved yet" in notice for notice in watcher.notices)
    assert outcome.ended == "epochs"
    whole = start(tiny_config(tmp_path / "whole"), Recorder())
    assert outcome.result["metrics"] == whole.result["metrics"]
    assert {p.name for p in out.iterdir()} == {p.name for p in whole.folder.iterdir()}


def test_a_lost_last_checkpoint_is_no_fresh_start(run):
    for checkpoint in (run / "checkpoints").glob("step-*"):
        shutil.rmtree(checkpoint)
    with pytest.raises(CheckpointError, match="No good checkpoint is left"):
        go_on(run)


def test_another_thread_count_is_said(run):
    watcher = Recorder()
    go_on(run, watcher, **{"run.threads": 2, "train.epochs": EPOCHS + 1})
    assert any("the run had 1 threads, now 2" in notice for notice in watcher.notices)


def test_what_the_data_and_the_settings_give_cause_for_is_said(tmp_path):
    write_pictures(tmp_path / "data", n_each=4)
    (tmp_path / "data" / "images" / "train" / "left" / "broken.png").write_bytes(b"no picture")
    changes: dict[str, object] = {
        "run.task": "images",
        "data.root": str(tmp_path / "data"),
        "data.image_size": 16,
        "train.label_smoothing": 0.1,
        "train.max_steps": 1,
    }
    rehearsed, trained = Recorder(), Recorder()
    rehearse(tiny_config(tmp_path / "run", **changes), rehearsed)
    train(tmp_path / "run", trained, **changes)
    for watcher in (rehearsed, trained):
        assert any("broken.png" in notice for notice in watcher.notices)
        assert any("label_smoothing has no effect" in notice for notice in watcher.notices)


def test_warm_up_as_long_as_the_schedule_is_warned_about(tmp_path):
    watcher = Recorder()
    outcome = train(tmp_path / "run", watcher, **{"train.warmup_steps": 18, "train.max_steps": 2})
    assert any("peak rate" in notice for notice in watcher.notices)
    assert all(report.lr > 0 for report in watcher.steps)
    assert outcome.ended == "max_steps"
