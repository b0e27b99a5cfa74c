"""`damcha suite tune`: the runs it plans, what it refuses, and `suite run --tuned` after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import damcha

from damcha_cli.commands.suite_tune import edge_lines
from damcha_core.experiments import tuned_rates


def test_a_dry_run_prints_every_rate_of_every_attention_and_writes_nothing() -> None:
    lines = damcha("suite", "tune", "--builtin", "--dry-run", "--grid", "1e-3,2e-3").done().out
    commands = lines.split("\n")[:-1]
    assert len(commands) == 28 * 2
    assert commands[0].startswith("damcha train --task digits --attention mha --seed 0 --out ")
    assert "runs/study-builtin/tune/digits-mha-lr0.001-s0" in commands[0]
    assert all("train.lr=0.001" in line or "train.lr=0.002" in line for line in commands)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--grid", "1e-3,fast"), ("--grid", "numbers with commas")),
        (("--grid", "1e-3"), ("at least two different rates",)),
        (("--set", "train.lr=1e-3"), ("train.lr is refused",)),
        (("--task", "digts"), ("did you mean digits?",)),
        (("scaling",), ("rates are tuned for a suite without a [grid]",)),
    ],
    ids=str,
)
def test_what_cannot_be_tuned_is_refused(arguments, words) -> None:
    damcha("suite", "tune", "--builtin", *arguments).refused(2, *words)


@pytest.fixture
def nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without rates."""
    monkeypatch.setattr(tuned_rates, "SHIPPED", Path("none.toml"))


def test_one_task_is_tuned_alone() -> None:
    answer = damcha("suite", "tune", "--builtin", "--dry-run", "--task", "digits").done()
    commands = answer.out.split("\n")[:-1]
    assert len(commands) == 7 * 4
    assert all("--task digits --" in line for line in commands)


def test_a_rate_at_the_end_of_its_grid_is_told_with_the_next_ones_for_all() -> None:
    grid = [0.001, 0.002]
    cells = {
        "digits/mha": {"edge": True, "chosen": 0.002},
        "digits/damcha": {"edge": True, "chosen": 0.001},
        "digits-cls/mha": {"edge": False, "chosen": 0.001},
        "cldr/mha": {"edge": None, "chosen": None},
    }
    assert edge_lines({"grids": dict.fromkeys(("digits", "digits-cls"), grid), "cells": cells}) == [
        "edge: digits/mha: the best rate is the largest, 0.002",
        "edge: digits/damcha: the best rate is the smallest, 0.001",
        "widen the grid for all attentions of digits: "
        "--task digits --grid 0.0005,0.001,0.002,0.004",
    ]


@pytest.mark.usefixtures("nothing_shipped")
def test_a_study_runs_at_the_chosen_rates() -> None:
    Path("mine.toml").write_text('tasks = ["digits"]\nattentions = ["mha", "damcha"]\n')
    command = ("suite", "run", "mine.toml", "--tuned", "--dry-run", "--out", "study")
    words = "damcha suite tune mine.toml --out study"
    damcha(*command).refused(2, "no rate is shipped for digits/mha", words)
    Path("study").mkdir()
    cells = {"digits/mha": {"chosen": 0.25}, "digits/damcha": {"chosen": None}}
    Path("study/tuning.json").write_text(json.dumps({"cells": cells}))
    damcha(*command).refused(2, "no rate was chosen for digits/damcha")
    cells["digits/damcha"]["chosen"] = 0.5
    Path("study/tuning.json").write_text(json.dumps({"cells": cells}))
    answer = damcha(*command).done()
    assert answer.err == "learning rates: study/tuning.json\n"
    first, second = answer.out.split("\n")[:-1]
    assert "--attention mha" in first
    assert "train.lr=0.25" in first
    assert "train.lr=0.5" in second
