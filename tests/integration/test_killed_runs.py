"""Runs killed at random moments end with the same bits as those that were not."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from child_runs import train_and_hold, wait_for
from tiny_runs import STEPS_PER_EPOCH, fingerprint, last_step, temporaries

EPOCHS = 4
TOTAL = EPOCHS * STEPS_PER_EPOCH
CHANGES: dict[str, object] = {"train.epochs": EPOCHS, "train.save_every_steps": 1}
KILLS = 5
HEADROOM = 3
"""Steps a child may go on while the kill is on its way."""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in this process that nothing disturbed."""
    from tiny_runs import train

    out = tmp_path_factory.mktemp("unbroken") / "run"
    train(out, **CHANGES)
    return out


def test_the_same_seed_gives_the_same_bits_in_two_processes(child, tmp_path, unbroken):
    a, b = tmp_path / "A", tmp_path / "B"
    for out in (a, b):
        process = child(train_and_hold, out, False, 0, CHANGES)
        process.join()
        assert process.exitcode == 0
    assert fingerprint(a) == fingerprint(b) == fingerprint(unbroken)


@pytest.mark.parametrize("workers", [0, 2])
def test_five_kills_change_no_bit(child, tmp_path, unbroken, workers):
    out, resumed_at = tmp_path / "run", []
    chance = random.Random(20 + workers)
    aims = sorted(chance.sample(range(1, TOTAL - 2 * HEADROOM), KILLS))
    changes = {**CHANGES, "data.workers": workers}
    for aim in aims:
        resumes = (out / "run.toml").exists()
        resumed_at += [last_step(out)] if resumes else []
        goal = max(aim, last_step(out) + 1)
        process = child(
            train_and_hold, out, resumes, goal + HEADROOM, {} if resumes else changes
        )
        wait_for(lambda goal=goal: last_step(out) >= goal, process)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode == -9
    resumed_at.append(last_step(out))
    process = child(train_and_hold, out, True, 0, {})
    process.join()
    assert process.exitcode == 0
    print(f"{workers} workers: resumed at steps {resumed_at} of {TOTAL}")
    assert len(resumed_at) == KILLS
    assert all(0 < step < TOTAL for step in resumed_at)
    assert resumed_at == sorted(set(resumed_at))
    assert fingerprint(out) == fingerprint(unbroken)
    assert temporaries(out) == []
