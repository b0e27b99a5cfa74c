"""`full` and `block_diagonal` are one function class and differ in step sizes alone.

With the factors of its last layer set to 1, the head form of `full` goes through a whole training
run as `block_diagonal` does, bit for bit: what the documentation says of tables with both.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import Recorder, last_folder, metrics, sha256, train

from damcha_core.attention.generator import MetricGenerator

CHANGES: dict[str, object] = {
    "attention.init": "identity",
    "attention.lr_scale": "matrix",
    "attention.body_lr_scale": 1.0,
    "train.clip_norm": 0.1,
    "train.epochs": 4,
    "train.accumulate": 2,
    "train.min_lr_ratio": 0.1,
}


def run(out: Path, name: str, causal: bool) -> dict[str, object]:
    """Everything that a run computed; the names of the attentions are all that may differ."""
    watcher = Recorder()
    outcome = train(out, watcher, **{**CHANGES, "attention.name": name, "model.causal": causal})
    norms = [report.grad_norm for report in watcher.steps]
    assert len(norms) == 12
    assert max(norms) > 0.1, "clipping must take part"
    files = ("weights.safetensors", "train_state.safetensors")
    return {
        "files": [sha256(last_folder(out) / file) for file in files],
        "metrics": metrics(out),
        "scores": outcome.result["metrics"],
    }


@pytest.mark.parametrize("causal", [False, True])
def test_without_the_factors_full_trains_as_block_diagonal_does(tmp_path, monkeypatch, causal):
    block_diagonal = run(tmp_path / "block", "damcha-block-diagonal", causal)
    full = run(tmp_path / "full", "damcha", causal)
    assert full["files"] != block_diagonal["files"]
    assert full["metrics"][0]["loss"] == block_diagonal["metrics"][0]["loss"]  # the same start

    monkeypatch.setattr(MetricGenerator, "parameter_factors", lambda _self: {})
    assert run(tmp_path / "alike", "damcha", causal) == block_diagonal
