"""Full and read-only disks, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from damcha_core.errors import DiskError
from damcha_core.files import disk_errors, replace_json, replace_text, sync_folder
from damcha_core.train import checkpoint_store
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.checkpoint_store import CheckpointStore

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES],
)
def test_a_disk_that_cannot_be_written_is_said_with_the_room_it_has(tmp_path, number):
    target = tmp_path / "not" / "there" / "yet"
    with pytest.raises(DiskError) as caught, disk_errors(target, 1_234_567):
        raise OSError(number, "whatever")
    text = str(caught.value)
    assert caught.value.exit_code == 7
    assert str(target) in text
    assert "1,234,567 bytes needed" in text
    assert "bytes free" in text
    assert len(text.splitlines()) <= 2


def test_a_failed_write_of_safetensors_counts_too(tmp_path):
    message = "Error while serializing: I/O error: File too large (os error 27)"
    with pytest.raises(DiskError, match="File too large"), disk_errors(tmp_path):
        raise SafetensorError(message)


@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "x"), ValueError("x"), KeyError("x")])
def test_other_errors_pass(tmp_path, error):
    with pytest.raises(type(error)), disk_errors(tmp_path):
        raise error


def test_a_small_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.txt"
    replace_text(path, "ä\n")
    assert path.read_bytes() == b"\xc3\xa4\n"
    replace_json(path, {"b": 1})
    assert json.loads(path.read_text(encoding="utf-8")) == {"b": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_json_that_is_none_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        replace_json(tmp_path / "a.json", {"b": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call):
    path = tmp_path / "a.txt"
    replace_text(path, "old")

    def full(*_arguments):
        raise FULL

    monkeypatch.setattr(os, call, full)
    with pytest.raises(DiskError):
        replace_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_windows_has_no_folder_to_sync(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "name", "nt")
    sync_folder(tmp_path)


def small(step: int) -> Checkpoint:
    return Checkpoint(step, {"w": torch.zeros(4)}, {"o": torch.ones(2)}, {}, "hash")


def one_checkpoint(folder: Path) -> CheckpointStore:
    store = CheckpointStore(folder / "checkpoints")
    store.save(small(1), best=True, keep_last=1)
    return store


@pytest.mark.parametrize(
    "place",
    [
        "damcha_core.train.tensor_file.save_file",
        "damcha_core.train.checkpoint.sync_file",
        "damcha_core.train.checkpoint.sync_folder",
        "damcha_core.train.checkpoint_store.sync_folder",
        "pathlib.Path.mkdir",
        "pathlib.Path.write_text",
    ],
)
def test_a_full_disk_leaves_the_old_checkpoint_and_no_part_of_the_new(tmp_path, monkeypatch, place):
    store = one_checkpoint(tmp_path)

    def full(*_arguments, **_options):
        raise FULL

    with monkeypatch.context() as patched:
        patched.setattr(place, full)
        with pytest.raises(DiskError):
            store.save(small(2), best=False, keep_last=1)
    assert store.load("last")[0] == "step-00000001"
    assert list(store.folder.glob(".tmp-*")) == []


def test_a_failed_pruning_is_a_disk_error_and_loses_nothing(tmp_path, monkeypatch):
    store = one_checkpoint(tmp_path)
    rename = Path.rename

    def failing(self, target):
        if checkpoint_store.PRUNED in str(target):
            raise OSError(errno.EACCES, "no")
        return rename(self, target)

    store.save(small(2), best=True, keep_last=2)
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(DiskError):
        store.save(small(3), best=False, keep_last=1)
    assert store.load("last")[0] == "step-00000003"
