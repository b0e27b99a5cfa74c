"""`damcha train --dry-run`: says what a run would be and leaves no trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SMALL, damcha

from damcha_core.config.toml_text import parse_toml
from damcha_core.data.digits import load_digits


def test_it_states_settings_sizes_time_and_one_real_step() -> None:
    answer = damcha("train", "--dry-run", *SMALL, "--epochs", 3).done()
    settings, facts = answer.out.split("\nrun folder")
    train = parse_toml(settings, "dry run")["train"]
    assert (train["epochs"], train["horizon_steps"]) == (3, 63)
    for words in (
        "runs/digits-damcha-s0 (not created)",
        "device          cpu",
        "1,297 train, 250 valid, 250 test",
        "parameters ",
        "MiB for weights, gradients and optimiser",
        "for the activations of a micro-batch",
        "steps           63",
        "one real step   loss 0.",
        "estimated time ",
    ):
        assert words in facts
    assert list(Path().iterdir()) == []


def test_its_numbers_are_those_of_the_run(digits_run) -> None:
    plan = damcha("train", "--dry-run", "--json", "--config", digits_run / "run.toml", "--out", "x")
    facts = plan.json()
    lines = (digits_run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert f'"loss": {facts["loss_of_one_step"]}' in lines[0]
    result = damcha("train", "--resume", digits_run, "--json").json()
    assert facts["parameters"] == result["parameters"]
    assert facts["steps"] == result["steps"]
    assert facts["samples"] == {"train": 1297, "valid": 250, "test": 250}
    assert facts["folder"] == "x"
    # Weights, gradients and two moments, four bytes a number.
    assert facts["state_bytes"] == 16 * facts["parameters"]
    assert facts["step_seconds"] > 0
    assert facts["estimated_seconds"] == pytest.approx(facts["step_seconds"] * facts["steps"])


def test_activations_grow_with_the_batch_and_not_with_accumulation() -> None:
    def kept(*arguments: object) -> int:
        plan = damcha("train", "--dry-run", "--json", *SMALL, *arguments).json()
        return plan["activation_bytes"]

    one = kept("--batch-size", 10)
    assert 1.9 * one < kept("--batch-size", 20) < 2.1 * one
    assert kept("--batch-size", 10, "--set", "train.accumulate=2") == one


def test_an_average_of_the_weights_takes_memory_too() -> None:
    plan = damcha("train", "--dry-run", "--json", *SMALL, "--set", "train.ema_decay=0.9").json()
    assert plan["state_bytes"] == 20 * plan["parameters"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--lr", "nan"), 2),
        (("--set", "data.mask_ratio=0"), 2),
        (("--device", "mps"), 2),
        (("--task", "images"), 3),
        (("--out", "file"), 2),
        (("--out", "/proc/x"), 2),
        (("--out", "runs/x/y", "--task", "images"), 3),
    ],
    ids=str,
)
def test_a_refused_dry_run_writes_nothing_either(arguments, code) -> None:
    Path("file").write_text("mine", encoding="utf-8")
    damcha("train", "--dry-run", *arguments).refused(code)
    assert [path.name for path in Path().iterdir()] == ["file"]
    assert Path("file").read_text(encoding="utf-8") == "mine"


def test_a_defect_in_a_dry_run_leaves_nothing_behind(monkeypatch) -> None:
    def broken(**_options: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(f"{load_digits.__module__}.load_digits", broken)
    assert isinstance(damcha("train", "--dry-run").bug, RuntimeError)
    assert list(Path().iterdir()) == []


def test_it_says_what_a_run_would_say(tmp_path) -> None:
    answer = damcha("train", "--dry-run", *SMALL, "--set", "train.label_smoothing=0.1").done()
    assert "note: train.label_smoothing has no effect" in answer.err
