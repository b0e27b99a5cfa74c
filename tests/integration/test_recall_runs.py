"""Recall through train, resume, eval, the refused commands, a suite and its tables."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tiny_runs import STEPS_PER_EPOCH as TINY_STEPS
from tiny_runs import Recorder, fingerprint, go_on, last_step, rewind
from tiny_runs import train as train_tiny

from damcha_core.config.added_keys import ADDED_KEYS
from damcha_core.config.resolve import resolve
from damcha_core.errors import CheckpointError, Interrupted, UsageError
from damcha_core.experiments.adaptivity.analysis import analyse
from damcha_core.train.run import start
from damcha_core.train.trained_run import load_run

SETTINGS: dict[str, object] = {
    "run.task": "recall",
    "run.device": "cpu",
    "run.threads": 1,
    "attention.name": "damcha",
    "attention.mlp_hidden": [8],
    "model.d_model": 8,
    "model.n_heads": 2,
    "model.d_ff": 8,
    "model.n_layers": 1,
    "model.dropout": 0.1,
    "data.n_pairs": 5,
    "data.sequence_length": 0,
    "data.easy_epochs": 1,
    "data.vocab_size": 13,
    "data.train_samples": 20,
    "train.epochs": 3,
    "train.batch_size": 4,
    "train.accumulate": 2,
    "train.warmup_steps": 2,
    "train.save_every_steps": 1,
    "train.keep_last": 100,
}
STEPS_PER_EPOCH, TOTAL = 3, 9


def train(out: Path, observer: Recorder | None = None, **changes: object):
    return start(resolve(None, [], {**SETTINGS, "run.out": str(out), **changes}), observer)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recall") / "run"
    train(out, Recorder())
    assert last_step(out) == TOTAL
    return out


@pytest.mark.parametrize("step", [1, STEPS_PER_EPOCH, STEPS_PER_EPOCH + 1, TOTAL - 1])
def test_resuming_after_a_kill_changes_no_bit(tmp_path, unbroken, step):
    run = rewind(unbroken, tmp_path / "run", step)
    assert go_on(run).resumed_from == f"step-{step:08d}"
    assert fingerprint(run) == fingerprint(unbroken)


def test_a_signal_saves_and_the_run_goes_on_to_the_same_bits(tmp_path, unbroken):
    run = tmp_path / "run"

    def strike(report):
        if report.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        train(run, Recorder(strike))
    assert last_step(run) == 4
    go_on(run)
    assert fingerprint(run) == fingerprint(unbroken)


def test_a_stored_run_without_these_keys_goes_on_and_is_scored(tmp_path):
    """As a version before recall left it: its run.toml knows none of the keys."""
    whole = tmp_path / "whole"
    train_tiny(whole)
    old = rewind(whole, tmp_path / "old", 2 * TINY_STEPS)
    lines = (old / "run.toml").read_text().splitlines(keepends=True)
    later = [key for key in ADDED_KEYS if key.startswith("data.")]
    kept = [line for line in lines if f"data.{line.partition(' ')[0]}" not in later]
    assert len(lines) - len(kept) == len(later)
    (old / "run.toml").write_text("".join(kept))
    assert load_run(old, checkpoint="last").step == 2 * TINY_STEPS
    go_on(old)
    assert fingerprint(old) == fingerprint(whole)


def test_another_seed_learns_from_other_sequences_and_is_scored_on_the_same(tmp_path, unbroken):
    other = tmp_path / "run"
    train(other, Recorder(), **{"run.seed": 1})
    assert fingerprint(other)["weights"] != fingerprint(unbroken)["weights"]
    facts = [json.loads((run / "facts.json").read_text()) for run in (other, unbroken)]
    assert facts[0] == facts[1]


def test_a_stored_run_is_scored_from_its_folder(unbroken):
    run = load_run(unbroken)
    evaluation, record = run.evaluate("test")
    assert evaluation.metrics["accuracy"].n == 512 * 5
    assert record["floors"]["random_shown_value"]["accuracy"]["value"] == 0.2
    assert run.keep_samples(evaluation) == ""
    lines = (unbroken / "samples" / "test.jsonl").read_text().splitlines()
    assert len(lines) == 512
    with pytest.raises(UsageError, match="choose train, valid or test"):
        run.evaluate("unseen")
    assert run.evaluate("train")[0].size == 20


def test_commands_of_other_tasks_are_refused_plainly(unbroken):
    run = load_run(unbroken)
    with pytest.raises(CheckpointError, match="trained on recall, which writes no texts"):
        run.text_task()
    with pytest.raises(CheckpointError, match="trained on recall, which hides no patches"):
        run.reconstruction_task()


def test_its_metrics_can_be_looked_at(unbroken):
    record = analyse(load_run(unbroken), n_samples=16)
    assert (record["task"], record["causal"], record["sequences"]) == ("recall", True, 16)
    assert record["swap"]["metric"]["name"] == "accuracy"
    assert 0 <= record["swap"]["metric"]["own"] <= 1
    loss = record["swap"]["loss"]
    assert loss["difference"] == pytest.approx(loss["swapped"] - loss["own"], abs=1e-9)
