"""Pointers, pruning and falling back, on small checkpoints."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

from damcha_core.errors import CheckpointError
from damcha_core.train.checkpoint import Checkpoint, read_checkpoint
from damcha_core.train.checkpoint_store import BEST, LAST, CheckpointStore


def small(step: int, value: float = 0.0, config_hash: str = "ours") -> Checkpoint:
    return Checkpoint(step, {"w": torch.full((4,), value)}, {"o": torch.ones(2)}, {}, config_hash)


def require_ours(folder: Path, checkpoint: Checkpoint) -> None:
    if checkpoint.config_hash != "ours":
        raise CheckpointError(f"{folder}: of another run")


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """A store whose folder is not there yet."""
    return CheckpointStore(tmp_path / "checkpoints")


def newest(store: CheckpointStore) -> tuple[str | None, list[str]]:
    """Name of what resuming would take, and what it says."""
    notices: list[str] = []
    found = store.load_newest_good(notices.append, require_ours)
    return (found[0] if found else None), notices


def damage(store: CheckpointStore, step: int) -> None:
    path = store.folder / f"step-{step:08d}" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def test_an_empty_store_holds_nothing(store):
    assert store.names() == []
    assert newest(store) == (None, [])
    store.sweep()
    with pytest.raises(CheckpointError, match="last: nothing saved yet"):
        store.load(LAST)
    assert not store.folder.exists()


def test_last_moves_with_every_save_and_best_when_told(store):
    store.save(small(1), best=True, keep_last=9)
    assert store.save(small(2), best=False, keep_last=9) == "step-00000002"
    assert (store.pointed(LAST), store.pointed(BEST)) == ("step-00000002", "step-00000001")
    assert (store.folder / LAST).read_bytes() == b"step-00000002\n"
    for which, step in ((LAST, 2), (BEST, 1), ("1", 1), ("step-00000002", 2)):
        name, checkpoint = store.load(which)
        assert (name, checkpoint.step) == (f"step-{step:08d}", step)


@pytest.mark.parametrize("which", ["3", "step-00000003", "../checkpoints", "", "first"])
def test_a_checkpoint_that_is_not_there_is_named_with_those_that_are(store, which):
    store.save(small(1), best=True, keep_last=1)
    with pytest.raises(CheckpointError, match="present: step-00000001"):
        store.load(which)


def test_best_and_the_newest_stay(store):
    for step in range(1, 7):
        store.save(small(step), best=step == 1, keep_last=2)
    assert store.names() == ["step-00000001", "step-00000005", "step-00000006"]
    assert list(store.folder.glob(".tmp-*")) == []


def test_numbers_are_compared_as_numbers(store):
    for step in (99_999_999, 100_000_000):
        store.save(small(step), best=False, keep_last=1)
    assert store.names() == ["step-100000000"]


def test_a_foreign_checkpoint_with_a_higher_number_is_neither_removed_nor_taken(store):
    store.save(small(900, config_hash="theirs"), best=False, keep_last=1)
    (store.folder / LAST).unlink()
    for step in (1, 2, 3):
        store.save(small(step), best=False, keep_last=1)
    assert store.names() == ["step-00000003", "step-00000900"]
    assert newest(store) == ("step-00000003", [])
    (store.folder / LAST).unlink()
    name, notices = newest(store)
    assert name == "step-00000003"
    assert len(notices) == 1
    assert "of another run; falling back" in notices[0]


def test_only_foreign_checkpoints_are_none_of_ours(store):
    store.save(small(900, config_hash="theirs"), best=False, keep_last=1)
    with pytest.raises(CheckpointError, match=r"of another run\nNo good checkpoint is left"):
        newest(store)


def test_a_damaged_last_falls_back_and_says_so(store):
    for step in (1, 2, 3):
        store.save(small(step), best=False, keep_last=3)
    damage(store, 3)
    name, notices = newest(store)
    assert name == "step-00000002"
    assert "step-00000003/weights.safetensors: damaged" in notices[0]
    damage(store, 2)
    assert newest(store)[0] == "step-00000001"
    with pytest.raises(CheckpointError, match=r"step-00000003.*damaged"):
        store.load(LAST)


def test_all_damaged_is_an_error_that_names_the_newest(store):
    for step in (1, 2):
        store.save(small(step), best=False, keep_last=3)
        damage(store, step)
    with pytest.raises(CheckpointError, match=r"step-00000002.*\nNo good checkpoint is left in"):
        newest(store)


def test_a_missing_last_falls_back_too(store):
    for step in (1, 2):
        store.save(small(step), best=False, keep_last=3)
    shutil.rmtree(store.folder / "step-00000002")
    name, notices = newest(store)
    assert name == "step-00000001"
    assert "missing although `last` names it" in notices[0]
    shutil.rmtree(store.folder / "step-00000001")
    with pytest.raises(CheckpointError, match="missing although"):
        newest(store)
    with pytest.raises(CheckpointError, match="step-00000002"):
        store.load(LAST)


@pytest.mark.parametrize(
    "content", [b"", b"step-1\n", b"../step-00000001\n", b"\xff\xfe", b"step-00000001\n" * 900]
)
def test_a_damaged_pointer_names_nothing(store, content):
    store.save(small(1), best=True, keep_last=3)
    (store.folder / LAST).write_bytes(content)
    assert store.pointed(LAST) is None
    with pytest.raises(CheckpointError, match="last: damaged"):
        store.load(LAST)
    assert newest(store)[0] == "step-00000001"


def test_a_pointer_that_is_no_file_is_not_read(store):
    store.save(small(1), best=True, keep_last=3)
    (store.folder / LAST).unlink()
    os.mkfifo(store.folder / LAST)  # reading it would wait for ever
    assert store.pointed(LAST) is None


def test_a_renamed_checkpoint_is_refused(store):
    store.save(small(1), best=True, keep_last=3)
    (store.folder / "step-00000001").rename(store.folder / "step-00000007")
    with pytest.raises(CheckpointError, match=r"step-00000007: renamed: .* step 1"):
        store.load("7")


def test_saving_a_step_again_replaces_what_differs(store):
    store.save(small(5, 1.0), best=False, keep_last=2)
    store.save(small(5, 2.0), best=False, keep_last=2)
    assert store.load("5")[1].weights["w"][0] == 2.0
    assert list(store.folder.glob(".tmp-*")) == []


def test_saving_the_same_bits_again_leaves_the_files_alone(store):
    store.save(small(5), best=False, keep_last=2)
    before = (store.folder / "step-00000005").stat().st_ino
    store.save(small(5), best=True, keep_last=2)
    assert (store.folder / "step-00000005").stat().st_ino == before
    assert store.pointed(BEST) == "step-00000005"


def test_saving_the_same_bits_over_a_damaged_checkpoint_mends_it(store):
    store.save(small(5), best=False, keep_last=2)
    damage(store, 5)
    store.save(small(5), best=False, keep_last=2)
    read_checkpoint(store.folder / "step-00000005")


def test_a_sweep_takes_away_leftovers_of_every_kind(store):
    store.save(small(5), best=False, keep_last=2)
    (store.folder / ".tmp-step-00000006").mkdir()
    (store.folder / ".tmp-step-00000006" / "weights.safetensors").write_bytes(b"half")
    (store.folder / ".tmp-last-77").write_bytes(b"step")
    (store.folder / ".tmp-link").symlink_to(store.folder / "step-00000005")
    (store.folder / ".tmp-pruned-step-00000001").mkdir()
    store.sweep()
    assert sorted(p.name for p in store.folder.iterdir()) == ["last", "step-00000005"]
    read_checkpoint(store.folder / "step-00000005")


def test_a_sweep_brings_back_what_was_being_replaced(store):
    store.save(small(5), best=False, keep_last=2)
    final = store.folder / "step-00000005"
    final.rename(store.folder / ".tmp-replaced-step-00000005")
    store.sweep()
    assert store.load(LAST)[0] == "step-00000005"
    shutil.copytree(final, store.folder / ".tmp-replaced-step-00000005")
    store.sweep()
    assert list(store.folder.glob(".tmp-*")) == []
    assert store.names() == ["step-00000005"]
