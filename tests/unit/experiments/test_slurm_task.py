"""A job near its time limit: one save, one requeue of the right job, and no endless ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm

from damcha_core.experiments.slurm.task import SlurmTask

submitit = pytest.importorskip("submitit", reason="submitit is not installed")
JOB = "77_3"
SECONDS = 60.0
PROGRAM = """
import os, signal, sys, time
run, saves, steps = sys.argv[1], sys.argv[2] == "saves", int(sys.argv[3])
last = os.path.join(run, "checkpoints", "last")
os.makedirs(os.path.dirname(last), exist_ok=True)
step = int(open(last).read()) if os.path.exists(last) else 0
told = []
signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
print("begins at", step, flush=True)
open(os.path.join(run, "ready"), "w").close()
while step < steps and not told:
    time.sleep(0.05)
    step += 1
if told and saves:
    time.sleep(0.2)
    open(last, "w").write(str(step))
    print("saved at", step, flush=True)
sys.exit(143 if told else 0)
"""
Start = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    """Slurm's commands, as a job finds them on PATH."""
    return FakeSlurm(tmp_path / "slurm")


@pytest.fixture
def start(slurm: FakeSlurm, tmp_path: Path) -> Iterator[Start]:
    """Starts a life of the job, and leaves no process behind."""
    lives: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        (tmp_path / "run" / "ready").unlink(missing_ok=True)
        lives.append(slurm.start(tmp_path / "jobs", JOB))
        until = time.monotonic() + SECONDS
        while not (tmp_path / "run" / "ready").exists():
            assert lives[-1].poll() is None, log(tmp_path)
            assert time.monotonic() < until
            time.sleep(0.02)
        return lives[-1]

    yield begin
    for life in lives:
        if life.poll() is None:
            os.killpg(life.pid, signal.SIGKILL)
        life.wait()


def submit(tmp_path: Path, saves: str = "saves", steps: int = 10**6, timeouts: int = 100) -> None:
    """Lay down the job as submitit does."""
    from submitit.helpers import DelayedSubmission

    (tmp_path / "run").mkdir()
    (tmp_path / "jobs").mkdir()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), saves, str(steps)]
    delayed = DelayedSubmission(SlurmTask(command, str(tmp_path / "run")))
    delayed.set_timeout(1, timeouts)
    delayed.dump(tmp_path / "jobs" / f"{JOB}_submitted.pkl")


def log(tmp_path: Path) -> str:
    """What the job has said."""
    return (tmp_path / "jobs" / f"{JOB}_0_log.out").read_text()


def test_the_warning_makes_one_save_and_one_requeue_of_the_right_job(slurm, start, tmp_path):
    submit(tmp_path)
    for life in (1, 2):
        process = start()
        # To every process of the job, as Slurm sends it where nothing tells them apart.
        os.killpg(process.pid, signal.SIGUSR2)
        assert process.wait(SECONDS) != 0
        assert log(tmp_path).count("saved at") == life
        assert slurm.calls("scontrol") == [f"requeue {JOB}"] * life
    begun = [line for line in log(tmp_path).split("\n") if line.startswith("begins at")]
    assert begun[0] == "begins at 0"
    assert begun[1] == log(tmp_path).split("saved at")[1].split("\n")[0].join(["begins at", ""])
    assert not list((tmp_path / "jobs").glob("*result*"))


def test_a_second_warning_while_it_saves_changes_nothing(slurm, start, tmp_path):
    submit(tmp_path)
    process = start()
    process.send_signal(signal.SIGUSR2)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) != 0
    assert log(tmp_path).count("saved at") == 1
    assert slurm.calls("scontrol") == [f"requeue {JOB}"]


def test_lives_that_save_nothing_are_not_repeated_for_ever(slurm, start, tmp_path):
    submit(tmp_path, saves="saves nothing")
    for _ in range(3):
        process = start()
        process.send_signal(signal.SIGUSR2)
        assert process.wait(SECONDS) != 0
    assert slurm.calls("scontrol") == [f"requeue {JOB}"] * 2
    assert "error: 3 lives of this job in a row ended before anything new was saved" in log(
        tmp_path
    )


def test_the_number_of_lives_can_be_limited(slurm, start, tmp_path):
    submit(tmp_path, timeouts=0)
    process = start()
    process.send_signal(signal.SIGUSR2)
    assert process.wait(SECONDS) != 0
    assert log(tmp_path).count("saved at") == 1
    assert slurm.calls("scontrol") == []


def test_a_command_that_ends_ends_the_job_as_it_did(slurm, start, tmp_path):
    submit(tmp_path, steps=0)
    assert start().wait(SECONDS) == 0
    assert slurm.calls("scontrol") == []


def test_the_exit_code_of_the_command_is_that_of_the_job():
    with pytest.raises(SystemExit) as caught:
        SlurmTask([sys.executable, "-c", "raise SystemExit(3)"], "none")()
    assert caught.value.code == 3
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
