"""The queue of a study: what is started, skipped, resumed, kept and told."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
import time

import pytest
from child_runs import wait_for
from small_studies import FOUR_CELLS, Told, run_stand_ins, scores, starts, states, steps_made

from damcha_core.errors import DataError, Interrupted, UsageError
from damcha_core.experiments import cell_run, data_check, runner
from damcha_core.experiments.cell_lock import CellLock
from damcha_core.experiments.runner import RunOptions, run_study

pytestmark = pytest.mark.usefixtures("stand_in")
CELLS = ("digits-mha-s0", "digits-damcha-s0", "digits-cls-mha-s0", "digits-cls-damcha-s0")
ALL_DONE = dict.fromkeys(CELLS, "done")
FASTER = '[[override]]\ntask = "digits"\nattention = "damcha"\nset = { "train.lr" = 5e-3 }\n'


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.02)


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_cell_is_trained_and_scored_once_and_then_skipped(study, jobs):
    told = Told()
    outcome = run_study(study(), RunOptions(jobs=jobs), told)
    assert (states(outcome), outcome.exit_code) == (ALL_DONE, 0)
    folder = study().folder
    once = {f"{cell} {what}": 1 for cell in CELLS for what in ("train", "eval")}
    assert starts(folder.path) == once
    record = folder.record("digits-damcha-s0")
    assert list(record) == [
        "schema", "cell", "task", "attention", "seed", "settings", "command", "identity", "state",
        "reason", "exit_code", "seconds",
    ]  # fmt: skip
    assert (record["state"], record["exit_code"], record["reason"]) == ("done", 0, "")
    assert set(record["identity"]) == {"config_hash", "data", "code"}
    assert record["command"].startswith("damcha train --task digits --attention damcha --seed 0 ")
    again = Told()
    assert states(run_study(study(), RunOptions(jobs=jobs), again)) == ALL_DONE
    assert starts(folder.path) == once
    assert not any(line.startswith(("started", "resumed")) for line in again.lines)


def test_one_changed_setting_makes_exactly_one_cell_out_of_date(study):
    run_study(study())
    before = scores(study().folder.path)
    outcome = run_study(study(FASTER))
    assert states(outcome) == {**ALL_DONE, "digits-damcha-s0": "out of date"}
    assert outcome.standings["digits-damcha-s0"].reason == "settings changed since"
    assert outcome.exit_code == 0
    assert scores(study().folder.path) == before
    outcome = run_study(study(FASTER), RunOptions(rerun=True))
    assert states(outcome) == ALL_DONE
    folder = study().folder.path
    aside = folder / "digits-damcha-s0.old-1"
    assert json.loads((aside / "test.json").read_text()) == before["digits-damcha-s0"]
    assert json.loads((aside / "cell.json").read_text())["state"] == "done"
    assert starts(folder)["digits-damcha-s0 train"] == 2
    assert sum(starts(folder).values()) == 10


@pytest.mark.parametrize("what", ["code", "data"])
def test_changed_code_and_changed_data_make_all_out_of_date(study, monkeypatch, what):
    run_study(study())
    if what == "code":
        monkeypatch.setattr(runner, "code_hash", lambda: "another")
    else:
        monkeypatch.setattr(data_check, "data_hash", lambda facts: "another")
    outcome = run_study(study())
    assert states(outcome) == dict.fromkeys(CELLS, "out of date")
    assert {one.reason for one in outcome.standings.values()} == {f"{what} changed since"}


def test_failures_are_told_apart_kept_and_retried_on_request(study, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "digits-mha-s0=7 digits-cls-mha-s0=5")
    outcome = run_study(study())
    broken = {**ALL_DONE, "digits-mha-s0": "failed", "digits-cls-mha-s0": "diverged"}
    assert (states(outcome), outcome.exit_code) == (broken, 1)
    record = study().folder.record("digits-mha-s0")
    assert record["reason"] == "error: digits-mha-s0 is meant to fail\n  as planned"
    assert record["exit_code"] == 7
    monkeypatch.delenv("STAND_IN_FAILS")
    outcome = run_study(study())
    assert (states(outcome), outcome.exit_code) == (broken, 1)
    outcome = run_study(study(), RunOptions(retry=True))
    assert (states(outcome), outcome.exit_code) == (ALL_DONE, 0)
    assert starts(study().folder.path)["digits-mha-s0 train --resume"] == 1


def test_a_retry_under_other_settings_starts_over(study, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "digits-damcha-s0=5")
    run_study(study())
    monkeypatch.delenv("STAND_IN_FAILS")
    assert states(run_study(study(FASTER), RunOptions(retry=True))) == ALL_DONE
    folder = study().folder.path
    assert starts(folder)["digits-damcha-s0 train"] == 2
    assert (
        json.loads((folder / "digits-damcha-s0.old-1" / "cell.json").read_text())["exit_code"] == 5
    )


def test_a_run_that_was_killed_is_a_failure_that_says_so(study, monkeypatch):
    monkeypatch.setattr(cell_run, "PROGRAM", ("/bin/sh", "-c", "kill -9 $$"))
    outcome = run_study(study())
    assert states(outcome) == dict.fromkeys(CELLS, "failed")
    assert outcome.standings[CELLS[0]].reason == "ended by signal 9"


@pytest.mark.parametrize("bad", ["not json", "[]", ""])
def test_scores_that_cannot_be_read_are_a_failure(study, monkeypatch, bad):
    program = shlex.join(cell_run.PROGRAM)
    script = f'if [ "$1" = eval ]; then echo "{bad}"; else exec {program} "$@"; fi'
    monkeypatch.setattr(cell_run, "PROGRAM", ("/bin/sh", "-c", script, "sh"))
    outcome = run_study(study())
    assert states(outcome) == dict.fromkeys(CELLS, "failed")
    assert outcome.standings[CELLS[0]].reason == "damcha eval printed no scores"


def test_missing_data_are_listed_for_every_task_before_anything_starts(tmp_path, monkeypatch):
    from small_studies import small_study

    monkeypatch.setenv("DAMCHA_DATA", str(tmp_path / "none"))
    text = 'tasks = ["digits", "wmt", "commongen"]\nattentions = ["mha"]\n'
    study = small_study(tmp_path / "study", text)
    with pytest.raises(DataError) as caught:
        run_study(study)
    lines = str(caught.value).split("\n")
    assert [line.partition(":")[0] for line in lines[1:3]] == ["wmt", "commongen"]
    assert all(str(tmp_path / "none") in line for line in lines[1:3])
    assert "--builtin" in lines[3]
    assert "--skip-missing" in lines[4]
    assert not (tmp_path / "study").exists()
    outcome = run_study(study, RunOptions(skip_missing=True))
    assert states(outcome) == {"digits-mha-s0": "done"}
    assert set(outcome.missing) == {"wmt", "commongen"}


def test_jobs_must_be_at_least_one(study):
    with pytest.raises(UsageError, match="--jobs 0"):
        run_study(study(), RunOptions(jobs=0))


def test_a_defect_stops_the_study_and_is_not_hidden(study, monkeypatch):
    monkeypatch.setattr(cell_run, "reason", lambda code, said: 1 / 0)
    monkeypatch.setenv("STAND_IN_FAILS", CELLS[0] + "=7")
    with pytest.raises(ZeroDivisionError):
        run_study(study())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_cells_save_and_the_same_command_goes_on(
    study, monkeypatch, number, code
):
    monkeypatch.setenv("STAND_IN_STEP_SECONDS", "0.2")
    mine = study()

    def strike() -> None:
        until = time.monotonic() + 20
        while not (mine.folder.path / CELLS[1] / "step").exists() and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=strike).start()
    with pytest.raises(Interrupted) as caught:
        run_study(mine, RunOptions(jobs=2))
    assert caught.value.exit_code == code
    assert [mine.folder.record(cell) for cell in CELLS] == [None] * 4
    assert "stopped by signal 15" in mine.folder.log(CELLS[1]).read_text()
    monkeypatch.setenv("STAND_IN_STEP_SECONDS", "0")
    assert states(run_study(mine, RunOptions(jobs=2))) == ALL_DONE
    counted = starts(mine.folder.path)
    assert counted[f"{CELLS[1]} train --resume"] == 1
    assert all(counted[f"{cell} train"] == 1 and counted[f"{cell} eval"] == 1 for cell in CELLS)


def runner_of(child, folder, seeds=1, jobs=1):
    return child(run_stand_ins, folder, FOUR_CELLS, RunOptions(jobs=jobs), seeds)


def test_two_runners_share_the_work_and_start_nothing_twice(child, study, monkeypatch):
    monkeypatch.setenv("STAND_IN_STEP_SECONDS", "0.02")
    folder = study().folder.path
    ours = [runner_of(child, folder, seeds=3, jobs=2) for _ in range(3)]
    for process in ours:
        process.join(60)
        assert process.exitcode == 0
    counted = starts(folder)
    assert len(counted) == 24
    assert set(counted.values()) == {1}
    assert len(scores(folder)) == 12
    assert steps_made(folder) == {cell: ["1", "2", "3", "4"] for cell in scores(folder)}


def test_a_killed_runner_loses_nothing_and_its_orphans_are_left_in_peace(child, study, monkeypatch):
    calm = study().folder.path.with_name("calm")
    run_stand_ins(calm, FOUR_CELLS, RunOptions())
    monkeypatch.setenv("STAND_IN_STEP_SECONDS", "0.05")
    mine = study()
    for cell in CELLS[:3]:
        process = runner_of(child, mine.folder.path)
        # At the first moment, when its child may have made nothing yet.
        log = mine.folder.log(cell)
        wait_for(lambda log=log: log.exists() and log.stat().st_size > 0, process)
        process.kill()
        process.join()
    outcome = run_study(mine)
    assert states(outcome) == ALL_DONE
    # An orphan had the lock until its end, so nobody trained beside it.
    assert steps_made(mine.folder.path) == {cell: ["1", "2", "3", "4"] for cell in CELLS}
    counted = starts(mine.folder.path)
    assert all(counted[f"{cell} eval"] == 1 for cell in CELLS)
    assert scores(mine.folder.path) == scores(calm)


def test_the_lock_of_a_cell_outlives_its_runner_in_the_child(tmp_path):
    import subprocess

    lock, other = CellLock(tmp_path / "l"), CellLock(tmp_path / "l")
    assert lock.acquire()
    assert not other.acquire()
    child = subprocess.Popen(["sleep", "60"], pass_fds=lock.inherited)
    lock.release()
    assert not other.acquire()
    child.kill()
    child.wait()
    assert other.acquire()
    other.release()
