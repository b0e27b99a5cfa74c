"""The script that compares size, cost, speed and score of all attentions."""

from __future__ import annotations

import importlib
import json

import torch
from tiny_runs import repository


def test_the_table_of_one_attention_and_one_control(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(repository() / "benchmarks")
    threads = torch.get_num_threads()
    script = importlib.import_module("attention_table")
    monkeypatch.setattr(script, "STEPS", 1)
    file = tmp_path / "table.json"
    options = ["--tasks", "digits-cls", "--attention", "mha-flops", "--json", str(file)]
    script.main([*options, "--epochs", "1", "--repeats", "1"])
    torch.set_num_threads(threads)
    rows = json.loads(file.read_text(encoding="utf-8"))["tasks"]["digits-cls"]
    assert list(rows) == ["mha", "mha-flops"]
    assert rows["mha"]["relative_to_mha"] == 1.0
    assert 0 < rows["mha"]["multiply_adds_per_token"] < rows["mha-flops"]["multiply_adds_per_token"]
    lines = capsys.readouterr().out.splitlines()
    assert "| mha | 136,010 | 139,560 | 1.00 |" in "\n".join(lines)
    assert sum(line.startswith("| mha") for line in lines) == 2
