"""Devices that are not there, and what `auto` chose."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from command_line import SMALL, damcha

COMMANDS = pytest.mark.parametrize("command", ["train", "eval", "reconstruct"])


@COMMANDS
@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("cuda", ("--device cuda", "--device auto")),
        ("cuda:7", ("--device cuda:7", "0 CUDA devices")),
        ("mps", ("--device mps", "not available")),
        ("cudaa", ("--device", '"cudaa"', '"cuda:N"')),
        ("tpu", ("--device", '"tpu"')),
        ("cuda:-1", ("--device", '"cuda:-1"')),
        ("", ("--device",)),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    command, device, words, digits_run, monkeypatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    run = () if command == "train" else (digits_run,)
    damcha(command, *run, "--device", device).refused(2, *words, most_lines=1)
    assert list(Path().iterdir()) == []


def test_auto_says_what_it_chose(digits_run, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    small = tuple("auto" if argument == "cpu" else argument for argument in SMALL)
    trained = damcha("train", *small, "--set", "train.max_steps=1", "--out", "run").done()
    assert "device cpu" in trained.err
    assert "device          cpu" in damcha("train", *small, "--dry-run").done().out
    assert "device      cpu" in damcha("eval", "run", "--device", "auto").done().out
