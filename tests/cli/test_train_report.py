"""What `damcha train` says on the way and at the end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import SMALL, damcha
from tiny_runs import last_folder, sha256


def test_off_a_terminal_each_epoch_is_one_plain_line() -> None:
    answer = damcha("train", *SMALL, "--epochs", 3, "--out", "run").done()
    epochs = [line for line in answer.err.splitlines() if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == ["1/3", "2/3", "3/3"]
    for line in epochs:
        assert re.search(
            r"step \d+  train loss 0\.\d+  valid masked_mse 0\.\d+ ?(\(best\))?  ", line
        )
    first = r"training damcha on digits: [\d,]+ parameters, 63 steps, device cpu, into run"
    assert re.search(first, answer.err)
    assert "\x1b" not in answer.err + answer.out
    assert "\r" not in answer.err + answer.out
    assert len(answer.err.splitlines()) < 8


def test_the_result_on_stdout_is_result_json_and_nothing_else() -> None:
    answer = damcha("train", *SMALL, "--epochs", 1, "--out", "run", "--json")
    assert answer.json() == json.loads(Path("run/result.json").read_text(encoding="utf-8"))
    assert "epoch 1/1" in answer.err
    again = damcha("train", "--resume", "run", "--json")
    assert again.json() == answer.json()
    assert "run is complete (ended by epochs); nothing was trained" in again.err


def test_the_report_says_where_a_run_was_resumed() -> None:
    flags = ("--epochs", 2, "--set", "train.stop_after_epochs=1")
    paused = damcha("train", *SMALL, *flags, "--out", "run").done()
    assert "not complete" in paused.out
    assert "resumed from" not in paused.out
    resumed = damcha("train", "--resume", "run", "--set", "train.stop_after_epochs=0").done()
    assert "resuming from step-00000021 (epoch 2)" in resumed.err
    assert "resumed from     step-00000021\n" in resumed.out
    assert "ended by         epochs\n" in resumed.out
    result = json.loads(Path("run/result.json").read_text(encoding="utf-8"))
    assert result["resumed_from"] == "step-00000021"
    whole = damcha("train", *SMALL, "--epochs", 2, "--out", "whole").done()
    assert "resumed" not in whole.out
    weights = [sha256(last_folder(Path(f)) / "weights.safetensors") for f in ("run", "whole")]
    assert weights[0] == weights[1]


def test_a_warm_up_that_never_ends_is_warned_about() -> None:
    flags = ("--set", "train.warmup_steps=4000", "--set", "train.max_steps=1")
    answer = damcha("train", *SMALL, *flags, "--out", "run").done()
    assert answer.err.count("note: train.warmup_steps 4000") == 1


@pytest.mark.parametrize(
    "key", ["train.lr=1", "model.d_model=32", "run.seed=9", "data.mask_ratio=1"]
)
def test_a_resumed_run_keeps_its_settings(key, own_run) -> None:
    answer = damcha("train", "--resume", own_run, "--set", key)
    answer.refused(2, key.partition("=")[0], "cannot change", most_lines=1)


def test_a_flag_not_given_changes_nothing_on_resume(own_run) -> None:
    before = (own_run / "run.toml").read_bytes()
    damcha("train", "--resume", own_run, "--seed", 4, "--batch-size", 64).done()
    damcha("train", "--resume", own_run, "--seed", 5).refused(2, "run.seed")
    assert (own_run / "run.toml").read_bytes() == before
