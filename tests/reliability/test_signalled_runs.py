"""Real signals to the real program: a clean save, the right exit code, no process left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from child_runs import run_command_line, wait_for
from tiny_data import N_TRAIN
from tiny_runs import (
    STEPS_PER_EPOCH,
    child_environment,
    fingerprint,
    go_on,
    last_folder,
    last_step,
    metrics,
    temporaries,
    tiny_config,
    train,
)

from damcha_core.config.document import to_toml
from damcha_core.train.checkpoint import read_checkpoint
from damcha_core.train.run import resume

WORKERS = 2
SECONDS = 90.0
"""How long anything here may take before it counts as hanging."""
CHANGES: dict[str, object] = {"train.epochs": 9, "data.workers": WORKERS, "eval.batch_size": 1}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that no signal reached, without data workers."""
    out = tmp_path_factory.mktemp("unbroken") / "run"
    train(out, **{**CHANGES, "data.workers": 0})
    return out


def run_file(folder: Path, out: Path) -> Path:
    path = folder / "run file.toml"
    path.write_text(to_toml(tiny_config(out, **CHANGES)), encoding="utf-8")
    return path


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def until(what: Callable[[], bool]) -> bool:
    """Whether something comes true in time."""
    end = time.monotonic() + SECONDS
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def lines(out: Path, split: str) -> int:
    return sum(line["split"] == split for line in metrics(out)) if in_training(out) else 0


def in_training(out: Path) -> bool:
    return (out / "metrics.jsonl").exists()


def in_a_step(out: Path) -> bool:
    return lines(out, "train") > STEPS_PER_EPOCH


def in_a_validation(out: Path) -> bool:
    """All steps of the second epoch are made and its five validation batches are under way."""
    return lines(out, "train") >= 2 * STEPS_PER_EPOCH and lines(out, "valid") < 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "moment", "to_group"),
    [
        (signal.SIGTERM, in_a_step, True),
        (signal.SIGTERM, in_a_validation, False),
        (signal.SIGINT, in_a_step, False),
        (signal.SIGINT, in_a_validation, True),
    ],
)
def test_a_signal_saves_and_ends_with_its_code(
    child, tmp_path, unbroken, number, moment, to_group
):
    out, output = tmp_path / "run", tmp_path / "output"
    file = run_file(tmp_path, out)
    process = child(run_command_line, ["train", "--config", str(file)], output)
    wait_for(lambda: moment(out), process)
    (os.killpg if to_group else os.kill)(process.pid, number)
    process.join(SECONDS)
    assert process.exitcode == 128 + number
    require_clean_stop(out, output.read_text(encoding="utf-8"))
    assert until(lambda: group_is_gone(process.pid)), "a process was left behind"
    # The rest is trained here, without workers.
    go_on(out, **{"data.workers": 0})
    assert fingerprint(out) == fingerprint(unbroken)


def require_clean_stop(out: Path, output: str) -> None:
    said = output.splitlines()
    assert "Traceback" not in output
    [stopped] = [line for line in said if "stopped by signal" in line]
    assert str(last_folder(out)) in stopped
    assert f"after step {last_step(out)}" in stopped
    assert f"damcha train --resume {out}" in said[-1]
    assert temporaries(out) == []
    read_checkpoint(last_folder(out))
    steps = [line["step"] for line in metrics(out) if line["split"] == "train"]
    assert steps == list(range(1, last_step(out) + 1))


@pytest.mark.slow
def test_the_installed_program_stopped_by_its_group_goes_on_as_it_says(tmp_path, unbroken):
    """Nothing is forked or patched here: `python -m damcha_cli` and its own advice."""
    out = tmp_path / "run"
    program = [sys.executable, "-m", "damcha_cli", "train"]
    process = subprocess.Popen(
        [*program, "--config", str(run_file(tmp_path, out))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=child_environment(),
        start_new_session=True, text=True,
    )  # fmt: skip
    try:
        assert until(lambda: in_a_step(out) or process.poll() is not None)
        os.killpg(process.pid, signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 143, stderr
    assert stdout == ""
    require_clean_stop(out, stderr)
    assert until(lambda: group_is_gone(process.pid)), "a process was left behind"
    advice = stderr.splitlines()[-1].partition("damcha train ")[2].split()
    resumed = subprocess.run(
        [*program, *advice, "--set", "data.workers=0", "--json"],
        capture_output=True, env=child_environment(), text=True, timeout=SECONDS,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["resumed_from"].startswith("step-")
    assert fingerprint(out) == fingerprint(unbroken)


def train_and_stall(out: Path, marker: Path, changes: dict[str, object]) -> None:
    """Train with workers in a session of its own; stall after a step of the second epoch."""
    from tiny_runs import Recorder

    os.setsid()

    def stall(report) -> None:
        if report.step == STEPS_PER_EPOCH + 2:
            marker.touch()
            end = time.monotonic() + 2 * SECONDS
            while time.monotonic() < end:
                time.sleep(0.1)

    train(out, Recorder(stall), **changes)


@pytest.mark.slow
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_run_at_once(child, tmp_path, unbroken, second):
    out, marker = tmp_path / "run", tmp_path / "stalled"
    process = child(train_and_stall, out, marker, CHANGES)
    wait_for(marker.exists, process)
    os.killpg(process.pid, signal.SIGTERM)
    process.join(1.0)
    assert process.is_alive(), "the first signal waits for the end of the step"
    os.killpg(process.pid, second)
    process.join(SECONDS)
    assert process.exitcode == 128 + second
    assert until(lambda: group_is_gone(process.pid)), "a process was left behind"
    assert last_step(out) == STEPS_PER_EPOCH
    go_on(out, **{"data.workers": 0})
    assert fingerprint(out) == fingerprint(unbroken)


def test_a_signal_while_a_checkpoint_is_written_waits_for_it(tmp_path, monkeypatch):
    from damcha_core.errors import Interrupted
    from damcha_core.train import checkpoint_store

    out = tmp_path / "run"
    write, struck = checkpoint_store.write_checkpoint, []

    def strike(folder, checkpoint):
        if checkpoint.step == 8 and not struck:
            struck.append(checkpoint.step)
            os.kill(os.getpid(), signal.SIGTERM)
        write(folder, checkpoint)

    monkeypatch.setattr(checkpoint_store, "write_checkpoint", strike)
    with pytest.raises(Interrupted) as caught:
        train(out, **{"train.save_every_steps": 1})
    assert caught.value.exit_code == 143
    assert last_step(out) == 9
    position = read_checkpoint(last_folder(out)).state["position"]
    assert (position["epoch"], position["consumed"]) == (1, 24)
    assert position["consumed"] < N_TRAIN


def test_a_signal_after_the_last_step_does_not_undo_the_end(tmp_path, monkeypatch):
    from damcha_core.train import checkpoint_store
    from tiny_runs import Recorder

    out = tmp_path / "run"
    write = checkpoint_store.write_checkpoint

    def strike(folder, checkpoint):
        write(folder, checkpoint)
        if checkpoint.state["position"]["ended"]:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(checkpoint_store, "write_checkpoint", strike)
    assert train(out).ended == "epochs"
    assert resume(out, Recorder()).already_complete
