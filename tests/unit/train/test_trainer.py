"""The loop: what it tells, what it counts, and when it ends."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from tiny_data import N_TRAIN, N_VALID
from tiny_runs import STEPS_PER_EPOCH, Recorder, metrics, tiny_config, train

from damcha_core.errors import ConfigError, NonFiniteError
from damcha_core.evaluate.evaluator import build_evaluator
from damcha_core.tasks.build import build_task
from damcha_core.train.environment import describe_environment
from damcha_core.train.learner import Learner
from damcha_core.train.result import finite_or_none
from damcha_core.train.run import build_learner, horizon_steps, start, total_steps
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.signals import StopRequest
from damcha_core.train.state import TrainState
from damcha_core.train.trainer import MOST_SKIPPED_IN_A_ROW, Trainer

CPU = torch.device("cpu")


def test_an_observer_hears_of_every_step_and_epoch(tmp_path):
    watcher = Recorder()
    train(tmp_path / "run", watcher, **{"train.epochs": 2})
    [begun] = watcher.starts
    assert (begun.steps, begun.horizon_steps, begun.epochs) == (12, 12, 2)
    assert (begun.task, begun.attention, begun.device) == ("cifar10", "damcha", "cpu")
    assert [report.step for report in watcher.steps] == list(range(1, 13))
    assert [report.epoch for report in watcher.steps] == [1] * 6 + [2] * 6
    assert [report.size for report in watcher.steps] == [8, 8, 8, 8, 8, 5] * 2
    assert [(report.epoch, report.step) for report in watcher.epochs] == [(1, 6), (2, 12)]
    assert watcher.epochs[0].improved
    assert watcher.n_finished == 1
    lines = metrics(tmp_path / "run")
    losses = [line["loss"] for line in lines if line["split"] == "train"]
    assert losses == [report.loss for report in watcher.steps]
    mean = sum(r.loss * r.size for r in watcher.steps[:6]) / N_TRAIN
    assert watcher.epochs[0].train_loss == pytest.approx(mean, rel=1e-12)
    [first, second] = [line for line in lines if line["split"] == "valid"]
    assert (first["samples"], first["lr"], first["grad_norm"]) == (N_VALID, None, None)
    assert second["metrics"] == watcher.epochs[1].metrics


def test_a_last_batch_of_one_and_a_batch_larger_than_the_data(tmp_path):
    """P64: nothing is dropped, and an epoch has at least one step."""
    watcher = Recorder()
    train(tmp_path / "a", watcher, **{"train.batch_size": 11, "train.epochs": 1})
    assert [report.size for report in watcher.steps] == [11, 11, 11, 11, 1]
    watcher = Recorder()
    train(tmp_path / "b", watcher, **{"train.batch_size": 4096, "train.epochs": 2})
    assert [report.size for report in watcher.steps] == [N_TRAIN] * 2


@pytest.mark.parametrize(
    ("changes", "horizon", "total"),
    [
        ({}, 18, 18),
        ({"train.accumulate": 4}, 6, 6),
        ({"train.max_steps": 7}, 7, 7),
        ({"train.max_steps": 100}, 100, 18),
        ({"train.horizon_steps": 50}, 50, 18),
        ({"train.horizon_steps": 50, "train.max_steps": 7}, 50, 7),
    ],
)
def test_the_length_of_a_run_and_of_its_schedule(tmp_path, changes, horizon, total):
    config = tiny_config(tmp_path, **changes)
    task = build_task(config)
    assert horizon_steps(config, task) == horizon
    assert total_steps(config, task) == total


def trainer_of(out: Path, **changes: object) -> Trainer:
    config = tiny_config(out, **{"train.horizon_steps": 18, **changes})
    task = build_task(config)
    out.mkdir()
    return Trainer(
        config, task=task, learner=build_learner(config, task, CPU),
        evaluator=build_evaluator(task), folder=RunFolder(out), state=TrainState(),
    )  # fmt: skip


def test_validation_leaves_the_training_mode_as_it_was(tmp_path):
    trainer, modes = trainer_of(tmp_path / "run"), []
    with StopRequest() as stop:
        trainer.run(Recorder(lambda _report: modes.append(trainer.learner.model.training)), stop)
    assert modes == [True] * 18
    assert trainer.learner.model.training


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_validation_has_no_dropout_and_the_next_step_has(tmp_path, average):
    """P37: two validations of one state agree, though half of everything is dropped in training."""
    trainer = trainer_of(tmp_path / "run", **{"model.dropout": 0.5, "train.ema_decay": average})
    evaluator, learner = trainer.evaluator, trainer.learner
    scores = [
        evaluator.evaluate(learner.evaluation_model, "valid", batch_size=2).loss for _ in range(2)
    ]
    assert scores[0] == scores[1]
    learner.model.train()
    batch = next(iter(trainer._windows()))[0]
    losses = {trainer.task.loss(learner.model, batch).total.item() for _ in range(3)}
    assert len(losses) == 3


def skip(learner: Learner, after: int) -> None:
    """Let the scaler of float16 skip every step after some."""
    update, calls = learner.update, []

    def skipping(batches, **options):
        calls.append(1)
        made = update(batches, **options)
        return made if len(calls) <= after else dataclasses.replace(made, applied=False)

    learner.update = skipping


def test_twenty_skipped_steps_in_a_row_stop_the_run(tmp_path):
    trainer = trainer_of(tmp_path / "run", **{"train.epochs": 9})
    skip(trainer.learner, after=3)
    with StopRequest() as stop, pytest.raises(NonFiniteError, match="20 steps in a row") as caught:
        trainer.run(Recorder(), stop)
    assert str(caught.value).startswith(f"step {3 + MOST_SKIPPED_IN_A_ROW}: ")
    assert "bfloat16" in str(caught.value)
    assert (trainer.state.skipped, trainer.state.updates) == (20, 3)


def test_a_skipped_step_now_and_then_does_not(tmp_path):
    trainer = trainer_of(tmp_path / "run", **{"train.epochs": 9})
    update, calls = trainer.learner.update, []

    def skipping(batches, **options):
        calls.append(1)
        return dataclasses.replace(update(batches, **options), applied=len(calls) % 2 == 0)

    trainer.learner.update = skipping
    with StopRequest() as stop:
        trainer.run(Recorder(), stop)
    assert trainer.state.ended == "epochs"
    assert (trainer.state.skipped, trainer.state.skipped_in_a_row) == (27, 0)


def test_settings_that_teach_nothing_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="mask_ratio = 0 hides no patch"):
        start(tiny_config(tmp_path / "run", **{"data.mask_ratio": 0.0}), Recorder())
    assert list(tmp_path.iterdir()) == []


def test_torch_is_left_as_it_was_found(tmp_path):
    threads = torch.get_num_threads()
    train(tmp_path / "run", **{"run.threads": threads + 1, "train.max_steps": 1})
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_deterministic_run_is_the_same_run(tmp_path):
    outcome = train(tmp_path / "run", **{"run.deterministic": True})
    plain = train(tmp_path / "plain")
    assert outcome.result["metrics"] == plain.result["metrics"]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_json_cannot_hold_becomes_null(value):
    assert finite_or_none(value) is None
    assert finite_or_none(0.0) == 0.0


def test_the_environment_names_what_a_result_depends_on():
    found = describe_environment(CPU, resumed_from="step-00000003")
    assert found["resumed_from"] == "step-00000003"
    assert found["device"] == "cpu"
    assert found["threads"] == torch.get_num_threads()
    assert found["packages"]["torch"] == torch.__version__.split("+")[0] or found["packages"]
    assert {"python", "platform", "damcha", "git", "command", "started"} <= set(found)


@pytest.mark.parametrize("answer", ["no git", "git fails", "git hangs"])
def test_outside_a_checkout_there_is_no_git_state(monkeypatch, answer):
    import subprocess

    from damcha_core.train import environment

    def failing(*arguments, **_options):
        if answer == "git hangs":
            raise subprocess.TimeoutExpired("git", 10)
        return subprocess.CompletedProcess(arguments, 128, "", "")

    monkeypatch.setattr(environment.shutil, "which", lambda _: None if "no" in answer else "git")
    monkeypatch.setattr(environment.subprocess, "run", failing)
    assert describe_environment(CPU)["git"] is None


def test_steps_of_the_horizon_are_stored(tmp_path):
    train(tmp_path / "run", **{"train.stop_after_epochs": 1})
    assert RunFolder(tmp_path / "run").read_config().train.horizon_steps == 3 * STEPS_PER_EPOCH
