"""The script that draws learning curves of variants of one task."""

from __future__ import annotations

import csv
import importlib
import itertools
from types import ModuleType

import pytest
from tiny_runs import repository

VARIANTS = ["--variant", "plain: mha", "--variant", "narrow, too: mha model.d_ff=32"]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(repository() / "benchmarks")
    return importlib.import_module("learning_curves")


def test_two_variants_are_trained_once_and_drawn(script, tmp_path, monkeypatch):
    small = ["model.d_model=16", "model.n_heads=2", "model.d_ff=16", "model.n_layers=1"]
    sets = [word for text in [*small, "train.max_steps=4"] for word in ("--set", text)]
    command = ["--out", str(tmp_path), "--task", "digits-cls", "--window", "2", *sets, *VARIANTS]
    script.main(command)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")
    text = (tmp_path / "curves.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    train = {
        label: [row for row in rows if row["label"] == label and row["split"] == "train"]
        for label in ("plain", "narrow, too")
    }
    assert {label: len(found) for label, found in train.items()} == {"plain": 4, "narrow, too": 4}
    losses = [float(row["loss"]) for row in train["plain"]]
    means = [float(row["running_mean"]) for row in train["plain"]]
    assert means == [losses[0], *((a + b) / 2 for a, b in itertools.pairwise(losses))]
    assert [row["step"] for row in rows if row["split"] == "valid"] == ["4", "4"]
    assert train["narrow, too"][0]["settings"] == "model.d_ff=32"

    def refuse(*_: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(script, "start", refuse)
    monkeypatch.setattr(script, "resume", refuse)
    (tmp_path / "curves.csv").unlink()
    script.main(command)
    assert (tmp_path / "curves.csv").read_text(encoding="utf-8") == text
    with pytest.raises(SystemExit, match="holds a run of other settings"):
        script.main([*command, "--set", "train.lr=0.5"])


def test_the_usual_variants_can_be_trained(script, tmp_path):
    for text in script.VARIANTS:
        variant = script.read_variant(text)
        script.settings(variant, tmp_path, task="cldr", seed=0, epochs=1, sets=[])


@pytest.mark.parametrize("text", ["mha", ": mha", "a: ", "a: mha lr"])
def test_a_malformed_variant_is_refused(script, text):
    with pytest.raises(ValueError, match="write"):
        script.read_variant(text)
