"""Signals, deaths and broken numbers in one of several processes: all end, and the run resumes."""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from child_runs import HOLD_SECONDS, wait_for
from process_groups import (
    SECONDS,
    joined,
    outputs,
    resume_in_ranks,
    run_as_rank,
    run_command_of_rank,
    start_by_hand,
    start_ranks,
    torchrun,
    train_in_ranks,
)
from safetensors.torch import load_file
from tiny_runs import (
    STEPS_PER_EPOCH,
    fingerprint,
    last_folder,
    last_step,
    metrics,
    temporaries,
    tiny_config,
)
from torch import Tensor

from damcha_core.config.document import to_toml
from damcha_core.errors import DataError, DiskError
from damcha_core.tasks.reconstruction import ReconstructionTask
from damcha_core.tasks.task import Batch, LossSum
from damcha_core.train.checkpoint_store import CheckpointStore
from damcha_core.train.learner import Learner

CHANGES: dict[str, object] = {"train.epochs": 6, "train.save_every_steps": 4}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nothing disturbed."""
    from child_runs import start_child

    out = tmp_path_factory.mktemp("unbroken") / "run"
    train_in_ranks(start_child, 2, tiny_config(out, **CHANGES))
    return out


def run_file(folder: Path, out: Path, **changes: object) -> Path:
    path = folder / "run.toml"
    config = tiny_config(out, **{**CHANGES, **changes})
    path.write_text(to_toml(config), encoding="utf-8")
    return path


def at_step(out: Path, step: int) -> bool:
    try:
        lines = metrics(out)
    except FileNotFoundError:
        return False
    return sum(line["split"] == "train" for line in lines) >= step


def slowly(folder: Path, arguments: list[str]) -> None:
    """The program, with steps that leave time for a signal."""
    update = Learner.update

    def slow(self, batches, **options):
        time.sleep(0.05)
        return update(self, batches, **options)

    Learner.update = slow  # type: ignore[method-assign]
    run_command_of_rank(folder, arguments)


def start_slowly(child, folder: Path, out: Path) -> list[BaseProcess]:
    command = ["train", "--config", str(run_file(folder, out))]
    return start_ranks(child, 2, slowly, folder, command)


def require_clean_stop(out: Path, said: str) -> None:
    assert "Traceback" not in said
    [stopped] = [line for line in said.splitlines() if "stopped by signal" in line]
    assert f"after step {last_step(out)}" in stopped
    assert f"damcha train --resume {out}" in said
    assert temporaries(out) == []
    steps = [line["step"] for line in metrics(out) if line["split"] == "train"]
    assert steps == list(range(1, last_step(out) + 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "ranks", "times"),
    [
        (signal.SIGTERM, [1], 1),
        (signal.SIGINT, [0], 1),
        # To the group, and once more by a launcher that passes it on.
        (signal.SIGINT, [0, 1], 2),
        (signal.SIGTERM, [1, 0], 2),
    ],
)
def test_a_signal_to_any_process_stops_all_after_one_step(
    child, tmp_path, unbroken, number, ranks, times
):
    out = tmp_path / "run"
    processes = start_slowly(child, tmp_path, out)
    wait_for(lambda: at_step(out, STEPS_PER_EPOCH + 2), processes[0])
    for _ in range(times):
        for rank in ranks:
            os.kill(processes[rank].pid or 0, number)
        time.sleep(0.02)
    assert joined(processes) == [128 + number] * 2
    first, second = outputs(tmp_path, 2)
    require_clean_stop(out, first)
    assert second == ""
    resume_in_ranks(child, 2, out)
    assert fingerprint(out) == fingerprint(unbroken)


@pytest.mark.slow
def test_sigterm_to_torchrun_saves_and_the_run_goes_on(child, tmp_path, unbroken):
    out = tmp_path / "run"
    file = run_file(tmp_path, out, **{"train.epochs": 600})
    launched = torchrun("train", "--config", str(file))
    try:
        end = time.monotonic() + SECONDS
        while not at_step(out, STEPS_PER_EPOCH + 2) and time.monotonic() < end:
            assert launched.poll() is None
            time.sleep(0.01)
        launched.send_signal(signal.SIGTERM)
        stdout, stderr = launched.communicate(timeout=SECONDS)
    finally:
        launched.kill()
        launched.wait()
    assert launched.returncode != 0  # torchrun ends in its own way
    assert stdout == ""
    ours = "\n".join(line for line in stderr.splitlines() if "damcha" in line or "stopped" in line)
    assert f"stopped by signal 15 after step {last_step(out)}" in ours
    assert ours.count("stopped by signal") == 1
    assert last_step(out) >= STEPS_PER_EPOCH + 2
    step = last_step(out)
    resume_in_ranks(child, 2, out, **{"train.stop_after_epochs": step // STEPS_PER_EPOCH + 2})
    assert last_step(out) > step


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_when_a_process_dies_the_other_ends_quickly_in_one_line(child, tmp_path, unbroken, rank):
    out = tmp_path / "run"
    processes = start_slowly(child, tmp_path, out)
    wait_for(lambda: at_step(out, STEPS_PER_EPOCH + 2), processes[0])
    processes[rank].kill()
    died = time.monotonic()
    assert joined(processes)[1 - rank] == 1
    assert time.monotonic() - died < SECONDS / 4
    said = outputs(tmp_path, 2)[1 - rank]
    assert "Traceback" not in said
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    assert f"another process of this run ended; process {1 - rank} of 2 stops" in line
    resume_in_ranks(child, 2, out)
    assert fingerprint(out) == fingerprint(unbroken)


def hold_in_validation(folder: Path, arguments: list[str]) -> None:
    """The program; the second process waits for the first, which is validating for ever."""
    from damcha_core.train.trainer import Trainer

    def endless(self, log, stop):
        (folder / "validating").touch()
        time.sleep(HOLD_SECONDS)

    Trainer._validate = endless  # type: ignore[method-assign]
    run_command_of_rank(folder, arguments)


def test_who_waits_for_a_validation_notices_a_death(child, tmp_path):
    command = ["train", "--config", str(run_file(tmp_path, tmp_path / "run"))]
    processes = start_ranks(child, 2, hold_in_validation, tmp_path, command)
    wait_for((tmp_path / "validating").exists, processes[0])
    assert processes[1].is_alive()
    processes[0].kill()
    assert joined(processes)[1] == 1
    assert outputs(tmp_path, 2)[1].startswith("error: another process of this run ended")


def broken_run(folder: Path, arguments: list[str], how: str, when: int) -> None:
    """The program; the second process meets a NaN in one of its micro-batches."""
    loss, calls = ReconstructionTask.loss, []

    def broken(self, model, batch: Batch) -> LossSum:
        result = loss(self, model, batch)
        if os.environ["RANK"] != "1" or not model.training:
            return result
        calls.append(1)
        ids = set(batch["ids"].tolist())
        if len(calls) == when:
            # What is broken stays broken when it is looked at again.
            (folder / "bad").write_text(" ".join(map(str, sorted(ids))), encoding="utf-8")
        if len(calls) < when or ids != bad_ids(folder):
            return result
        if how == "loss":
            return LossSum(result.total * math.nan, result.items)
        spoilt: Tensor = result.total * 1.0
        spoilt.register_hook(lambda gradient: gradient * math.nan)
        return LossSum(spoilt, result.items)

    ReconstructionTask.loss = broken  # type: ignore[method-assign]
    run_command_of_rank(folder, arguments)


def bad_ids(folder: Path) -> set[int]:
    return {int(i) for i in (folder / "bad").read_text(encoding="utf-8").split()}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["loss", "gradient"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_nan_in_one_process_stops_all_before_the_weights_change(child, tmp_path, how, place):
    """In the first and in the second micro-batch of step 4; one more pass was made at the start."""
    out = tmp_path / "run"
    file = run_file(tmp_path, out, **{"train.save_every_steps": 1, "train.accumulate": 2})
    command = ["train", "--config", str(file)]
    when = 1 + 3 * 2 + 1 + place
    assert joined(start_ranks(child, 2, broken_run, tmp_path, command, how, when)) == [5, 5]
    first, second = outputs(tmp_path, 2)
    assert "Traceback" not in first
    assert second == ""
    [line] = [line for line in first.splitlines() if line.startswith("error: ")]
    what = "the loss is nan" if how == "loss" else r"the gradient of [\w.]+ is not finite"
    assert re.match(rf"error: process 1 of 2: step 4: {what}.*the weights were not changed", line)
    named = {int(i) for i in re.search(r"training samples ([\d, ]+)", line)[1].split(", ") if i}
    assert named >= bad_ids(tmp_path)
    assert last_folder(out).name == "step-00000003"
    weights = load_file(last_folder(out) / "weights.safetensors")
    assert all(bool(tensor.isfinite().all()) for tensor in weights.values())


def fail_alone(folder: Path, arguments: list[str], rank: int) -> None:
    """The program; one process fails by itself in the middle of the run."""
    update, save = Learner.update, CheckpointStore.save

    def failing_update(self, batches, *, step, dropout_seed):
        if step == 7:
            raise DataError("a data worker ended early")
        return update(self, batches, step=step, dropout_seed=dropout_seed)

    def failing_save(self, checkpoint, **options):
        if checkpoint.step == 8:
            raise DiskError("no space is left")
        return save(self, checkpoint, **options)

    if os.environ["RANK"] == str(rank):
        if rank:
            Learner.update = failing_update  # type: ignore[method-assign]
        else:
            CheckpointStore.save = failing_save  # type: ignore[method-assign]
    run_command_of_rank(folder, arguments)


@pytest.mark.parametrize(("rank", "codes", "text"), [(0, [7, 1], "no space"), (1, [1, 3], "early")])
def test_an_error_of_one_process_is_told_by_it_alone(child, tmp_path, rank, codes, text):
    out = tmp_path / "run"
    command = ["train", "--config", str(run_file(tmp_path, out))]
    assert joined(start_ranks(child, 2, fail_alone, tmp_path, command, rank)) == codes
    errors = [
        [line for line in said.splitlines() if line.startswith("error: ")]
        for said in outputs(tmp_path, 2)
    ]
    assert errors[1 - rank] == []
    [line] = errors[rank]
    assert text in line
    assert not any("Traceback" in said for said in outputs(tmp_path, 2))
    assert last_step(out) in (4, 6)


@pytest.mark.parametrize("killed", [0, 1])
def test_without_a_launcher_each_process_tells_for_itself(child, tmp_path, killed):
    """Nobody is left to ask where the process is gone that kept what they share."""
    out = tmp_path / "run"
    command = ["train", "--config", str(run_file(tmp_path, out))]
    processes = start_by_hand(child, 2, slowly, tmp_path, command)
    wait_for(lambda: at_step(out, 2), processes[0])
    processes[killed].kill()
    assert joined(processes)[1 - killed] == 1
    said = outputs(tmp_path, 2)[1 - killed]
    assert said.count("error: another process of this run ended") == 1
    assert "Traceback" not in said


def test_a_port_that_is_taken_is_said_in_one_line(child, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        common = {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(other.getsockname()[1]),
        }
        process = child(run_as_rank, 0, common, run_command_of_rank, tmp_path, ["train"])
        assert joined([process]) == [2]
    [said] = outputs(tmp_path, 1)
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: process 0 of 2 cannot reach the others: ")
    assert "MASTER_PORT" in line
    assert "Traceback" not in said
