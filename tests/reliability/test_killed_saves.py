"""Kills inside a save lose nothing that was saved before."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child_runs import big_checkpoint, overwrite_forever, save_forever, wait_for
from safetensors import SafetensorError
from safetensors.torch import load_file

from damcha_core.errors import CheckpointError
from damcha_core.train import checkpoint as checkpoint_file
from damcha_core.train import checkpoint_store
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.checkpoint_store import BEST, LAST, CheckpointStore

BYTES = 10 * 2**20
KILLS, CONTROL_KILLS, LEAST_LOST = 30, 20, 3
LONGEST_WAIT_SECONDS = 0.08
"""About two saves of that size."""


def newest(store: CheckpointStore) -> tuple[str, Checkpoint] | None:
    """What a run would resume from; any notice of a fallback is a failure."""

    def refuse(text: str) -> None:
        raise AssertionError(text)

    return store.load_newest_good(refuse, lambda _folder, _checkpoint: None)


@pytest.mark.slow
def test_kills_at_random_moments_leave_a_good_last_and_no_leftovers(child, tmp_path):
    store, chance, step = CheckpointStore(tmp_path / "checkpoints"), random.Random(7), 1
    for _ in range(KILLS):
        process = child(save_forever, store.folder, step, BYTES)
        before = store.pointed(LAST)
        wait_for(lambda before=before: store.pointed(LAST) != before, process)
        time.sleep(chance.uniform(0, LONGEST_WAIT_SECONDS))
        process.kill()
        process.join()
        store.sweep()
        assert list(store.folder.glob(".tmp-*")) == []
        found = newest(store)
        assert found is not None
        name, checkpoint = found
        assert name == store.pointed(LAST)
        assert checkpoint.step >= step
        assert (checkpoint.weights["w"] == checkpoint.step).all()
        store.load(BEST if store.pointed(BEST) else LAST)
        step = checkpoint.step + 1


@pytest.mark.slow
def test_control_plain_writing_in_place_does_lose_files(child, tmp_path):
    path, chance, lost = tmp_path / "last.safetensors", random.Random(8), 0
    for _ in range(CONTROL_KILLS):
        path.unlink(missing_ok=True)
        process = child(overwrite_forever, path, BYTES)
        wait_for(path.exists, process)
        time.sleep(chance.uniform(0, LONGEST_WAIT_SECONDS))
        process.kill()
        process.join()
        try:
            load_file(path)
        except SafetensorError:
            lost += 1
    print(f"in place: {lost} of {CONTROL_KILLS} lost")
    assert lost >= LEAST_LOST


Point = tuple[Any, str, int, bool]
"""Where a call is made, its name, which call of it, and whether the kill comes after it."""

POINTS: dict[str, Point] = {
    "before the weights": (checkpoint_file, "write_tensors", 1, False),
    "after the weights": (checkpoint_file, "write_tensors", 1, True),
    "before the state": (checkpoint_file, "write_tensors", 2, False),
    "before the manifest": (checkpoint_file, "_write_json", 2, False),
    "after the manifest": (checkpoint_file, "_write_json", 2, True),
    "before the rename": (checkpoint_store, "_same_manifest", 1, True),
    "after the rename": (checkpoint_store, "sync_folder", 1, True),
    "before last moves": (checkpoint_store, "replace_text", 1, False),
    "after last moved": (checkpoint_store, "replace_text", 1, True),
    "after best moved": (checkpoint_store, "replace_text", 2, True),
    "while pruning": (checkpoint_store.shutil, "rmtree", 3, False),
}
SMALL = 4000


def kill_at(point: Point) -> None:
    """End this process, without cleaning up, at a call of a function."""
    place, name, number, after = point
    original: Callable[..., Any] = getattr(place, name)
    calls = 0

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number and not after:
            os._exit(77)
        answer = original(*arguments, **options)
        if calls == number:
            os._exit(77)
        return answer

    setattr(place, name, call)


def save_and_be_killed(folder: Path, label: str) -> None:
    kill_at(POINTS[label])
    CheckpointStore(folder).save(big_checkpoint(3, SMALL), best=True, keep_last=1)


def replace_and_be_killed(folder: Path, number: int) -> None:
    kill_at((Path, "rename", number, True))
    CheckpointStore(folder).save(big_checkpoint(2, 2 * SMALL), best=True, keep_last=1)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """A store with the steps 1 (best) and 2."""
    store = CheckpointStore(tmp_path / "checkpoints")
    store.save(big_checkpoint(1, SMALL), best=True, keep_last=1)
    store.save(big_checkpoint(2, SMALL), best=False, keep_last=1)
    return store


@pytest.mark.parametrize("label", POINTS)
def test_a_kill_at_this_point_loses_at_most_the_save(child, store, label):
    process = child(save_and_be_killed, store.folder, label)
    process.join()
    assert process.exitcode == 77
    for which in (LAST, BEST):
        store.load(which)
    store.sweep()
    found = newest(store)
    assert found is not None
    assert found[0] == store.pointed(LAST)
    moved = list(POINTS).index(label) >= list(POINTS).index("after last moved")
    assert found[1].step == (3 if moved else 2)
    store.save(big_checkpoint(3, SMALL), best=True, keep_last=1)
    assert store.names() == ["step-00000003"]
    assert sorted(p.name for p in store.folder.iterdir()) == ["best", "last", "step-00000003"]


@pytest.mark.parametrize(("number", "numbers_then"), [(1, SMALL // 4), (2, 2 * SMALL // 4)])
def test_a_kill_while_a_step_is_replaced_keeps_one_of_the_two(child, store, number, numbers_then):
    """The same step with other bits, as after a resume on another machine."""
    process = child(replace_and_be_killed, store.folder, number)
    process.join()
    assert process.exitcode == 77
    store.sweep()
    found = newest(store)
    assert found is not None
    assert found[1].step == 2
    assert found[1].weights["w"].numel() == numbers_then


def test_without_a_sweep_a_step_that_was_being_replaced_is_missed(child, store):
    child(replace_and_be_killed, store.folder, 1).join()
    with pytest.raises(CheckpointError):
        store.load(LAST)
