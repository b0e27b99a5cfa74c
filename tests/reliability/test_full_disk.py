"""A disk that fills up while a run trains: exit code 7, and what was saved before stays good."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
import torch
from child_runs import big_checkpoint
from tiny_runs import fingerprint, go_on, last_step, metrics, temporaries, train

from damcha_core.errors import DiskError
from damcha_core.train.checkpoint_store import LAST, CheckpointStore
from damcha_core.train.metrics_log import MetricsLog, read_metrics
from damcha_core.train.run_folder import RunFolder

LIMIT_BYTES = 200_000
"""Longest file the child may write; a run's small files stay below."""


def limit_files(n_bytes: int) -> None:
    """Make writing past a length fail as a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def save_too_much(folder: Path, answer: Path) -> None:
    limit_files(LIMIT_BYTES)
    try:
        CheckpointStore(folder).save(big_checkpoint(2, 10**6), best=True, keep_last=1)
    except DiskError as error:
        answer.write_text(f"{error}", encoding="utf-8")
        os._exit(error.exit_code)


def log_too_much(path: Path, answer: Path) -> None:
    limit_files(LIMIT_BYTES)
    try:
        with MetricsLog(path) as log:
            for step in range(1, 10**6):
                log.write({"step": step, "split": "train", "loss": 1 / step})
    except DiskError as error:
        answer.write_text(f"{error}", encoding="utf-8")
        os._exit(error.exit_code)


def store_too_large_a_picture(folder: Path, answer: Path) -> None:
    limit_files(LIMIT_BYTES)
    try:
        RunFolder(folder).store_mean_picture(torch.zeros(3, 256, 256))
    except DiskError as error:
        answer.write_text(f"{error}", encoding="utf-8")
        os._exit(error.exit_code)


def train_wider(out: Path, answer: Path, changes: dict[str, object]) -> None:
    limit_files(LIMIT_BYTES)
    try:
        train(out, **changes)
    except DiskError as error:
        answer.write_text(f"{error}", encoding="utf-8")
        os._exit(error.exit_code)


def require_disk_error(child, answer: Path, target, *arguments) -> str:
    process = child(target, *arguments)
    process.join()
    assert process.exitcode == 7
    text = answer.read_text(encoding="utf-8")
    assert "bytes free" in text
    assert len(text.splitlines()) == 2
    return text


def test_the_old_checkpoint_stays_and_no_part_of_the_new_one(child, tmp_path):
    store, answer = CheckpointStore(tmp_path / "checkpoints"), tmp_path / "answer"
    store.save(big_checkpoint(1, 4000), best=True, keep_last=1)
    text = require_disk_error(child, answer, save_too_much, store.folder, answer)
    assert "1,000,004 bytes needed" in text
    assert store.load(LAST)[0] == "step-00000001"
    assert temporaries(tmp_path) == []
    assert sorted(p.name for p in store.folder.iterdir()) == ["best", "last", "step-00000001"]


def test_a_log_that_does_not_fit_keeps_its_whole_lines(child, tmp_path):
    path, answer = tmp_path / "metrics.jsonl", tmp_path / "answer"
    text = require_disk_error(child, answer, log_too_much, path, answer)
    assert str(path) in text
    steps = [record["step"] for record in read_metrics(path)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > 1000


def test_a_picture_that_does_not_fit_leaves_no_part(child, tmp_path):
    folder, answer = tmp_path / "run", tmp_path / "answer"
    folder.mkdir()
    require_disk_error(child, answer, store_too_large_a_picture, folder, answer)
    assert not (folder / "mean_picture.safetensors").exists()


def test_a_run_on_a_full_disk_ends_with_7_and_goes_on_once_there_is_room(child, tmp_path):
    wider: dict[str, object] = {"model.d_ff": 600}
    whole, out, answer = tmp_path / "whole", tmp_path / "run", tmp_path / "answer"
    train(whole, **wider)
    text = require_disk_error(child, answer, train_wider, out, answer, wider)
    assert str(out) in text
    assert last_step(out) == 0
    assert temporaries(out) == []
    assert metrics(out)
    go_on(out)
    assert fingerprint(out) == fingerprint(whole)


def test_a_folder_that_cannot_be_written_is_a_disk_error(tmp_path, monkeypatch):
    train(tmp_path / "run", **{"train.stop_after_epochs": 1})

    def read_only(*_arguments, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", read_only)
    with pytest.raises(DiskError, match="Permission denied"):
        go_on(tmp_path / "run")
