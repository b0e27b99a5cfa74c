"""Recall on the command line: trained, scored, planned in a suite, and refused where it must be."""

from __future__ import annotations

from pathlib import Path

from command_line import damcha

TINY = (
    *("--task", "recall", "--attention", "mha", "--name", "tiny", "--epochs", "1"),
    *("--set", "data.train_samples=8", "--set", "data.easy_epochs=0"),
    *("--set", "train.batch_size=4", "--set", "model.d_model=16", "--set", "train.warmup_steps=0"),
)


def test_a_run_is_trained_scored_and_refused_by_other_commands():
    damcha("train", *TINY).done()
    scored = damcha("eval", "runs/tiny", "--split", "test", "--json").json()
    assert list(scored["metrics"]) == ["accuracy", "loss"]
    assert scored["metrics"]["accuracy"]["n"] == 512 * 8
    assert scored["floors"]["random_shown_value"]["accuracy"]["value"] == 1 / 8
    assert Path("runs/tiny/samples/test.jsonl").is_file()
    answer = damcha("generate", "runs/tiny", "--text", "a")
    assert (answer.code, answer.out) == (4, "")
    assert "trained on recall, which writes no texts" in answer.err
    answer = damcha("reconstruct", "runs/tiny")
    assert (answer.code, answer.out) == (4, "")
    assert "trained on recall, which hides no patches" in answer.err
    changed = damcha("eval", "runs/tiny", "--set", "data.n_pairs=4")
    assert changed.code == 2
    assert "data.n_pairs cannot change in a trained run" in changed.err


def test_impossible_settings_are_named_at_once():
    answer = damcha(
        *("train", "--task", "recall", "--set", "data.n_pairs=40"),
        *("--set", "data.sequence_length=50", "--set", "model.causal=false"),
    )
    assert answer.code == 2
    for words in ("give 81 or more", "take 120 tokens", "answers from what came before"):
        assert words in answer.err
    assert not Path("runs").exists()


def test_the_diagnostics_are_planned_without_data():
    for builtin in ((), ("--builtin",)):
        out = damcha("suite", "run", "diagnostics", *builtin, "--dry-run").done().out
        lines = out.splitlines()
        assert len(lines) == 36
        assert all(line.startswith("damcha train --task recall ") for line in lines)
        assert "data.n_pairs=32" in lines[-1]
