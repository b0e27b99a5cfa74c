"""A control through the trainer: what is built, stored, evaluated and resumed."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import Recorder, go_on, last_folder, sha256, train

from damcha_core.catalog.controls import control_rows
from damcha_core.config.resolve import config_from_run, resolve
from damcha_core.train.run import start
from damcha_core.train.trained_run import load_run


@pytest.mark.parametrize("name", [row.name for row in control_rows()])
def test_a_control_is_trained_evaluated_and_resumed_under_its_name(name, tmp_path):
    out, watcher = tmp_path / "run", Recorder()
    outcome = train(out, watcher, **{"attention.name": name, "train.stop_after_epochs": 1})
    assert watcher.starts[0].attention == outcome.result["attention"] == name
    assert go_on(out, **{"train.stop_after_epochs": 0}).ended == "epochs"

    run = load_run(out)
    blocks = run.model.transformer.blocks
    options = run.config.attention.option_values()
    assert type(blocks[0].attention).__name__ == "MultiHeadAttention"
    assert blocks[0].feed_forward[0].out_features == options["matched_d_ff"]
    assert len(blocks) == options.get("matched_n_layers", run.config.model.n_layers)
    evaluation, record = run.evaluate("valid")
    assert record["attention"] == name
    assert torch.isfinite(torch.tensor(evaluation.metrics["masked_mse"].value))

    again = resolve(
        out / "run.toml", ["train.stop_after_epochs=0"], {"run.out": str(tmp_path / "b")}
    )
    assert again.attention == config_from_run(out).attention
    start(again, Recorder())
    files = [last_folder(folder) / "weights.safetensors" for folder in (out, tmp_path / "b")]
    assert sha256(files[0]) == sha256(files[1])
