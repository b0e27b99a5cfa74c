"""The executor of a cluster: what it submits, waits for, tells, and gives up on."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_slurm import FIRST_ID, FakeSlurm
from small_studies import Told, starts, states

from damcha_core.errors import Interrupted, UsageError
from damcha_core.experiments.cell_state import Standing, State
from damcha_core.experiments.runner import RunOptions, run_study
from damcha_core.experiments.slurm import executor as slurm_executor
from damcha_core.experiments.slurm import follower
from damcha_core.experiments.slurm.executor import SlurmExecutor
from damcha_core.experiments.slurm.job_options import read_job_options
from damcha_core.experiments.slurm.queue import Listed, SlurmUnreachable, look, parsed
from damcha_core.experiments.slurm.standings import with_queue
from damcha_core.experiments.slurm.submission import last_jobs
from damcha_core.experiments.study import load_study

submitit = pytest.importorskip("submitit", reason="submitit is not installed")
pytestmark = pytest.mark.usefixtures("stand_in")
CELLS = ("digits-mha-s0", "digits-damcha-s0", "digits-cls-mha-s0", "digits-cls-damcha-s0")
ALL_DONE = dict.fromkeys(CELLS, "done")
FIRST = str(FIRST_ID)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Slurm's commands on PATH, and an executor that does not dawdle."""
    fake = FakeSlurm(tmp_path / "slurm")
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm_executor, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(follower, "GONE_SECONDS", 0.2)
    return fake


class Cluster(Told):
    """Does with each submitted job, in order, what a test says.

    Args:
        slurm: whose jobs they are.
        folder: of the study.
        fates: one a job, in the order of the cells: called with the job's id and its cell.
    """

    def __init__(self, slurm: FakeSlurm, folder: Path, *fates: Callable[[str, str], None]) -> None:
        super().__init__()
        self.slurm = slurm
        self.folder = folder
        self.fates = list(fates)
        self.batches: list[tuple[str, ...]] = []

    def submitted(self, job: str, cells: Sequence[Any], logs: Path) -> None:
        self.batches.append(tuple(cell.id for cell in cells))
        assert logs == self.folder.resolve() / "slurm"
        for number, cell in enumerate(cells):
            one = job if len(cells) == 1 else f"{job}_{number}"
            fate = self.fates.pop(0) if self.fates else self.done
            fate(one, cell.id)

    def done(self, job: str, cell: str) -> None:
        """The job runs as its command line says."""
        self.slurm.set_state(job, "RUNNING")
        self.work(cell)
        self.slurm.set_state(job, "COMPLETED")

    def work(self, cell: str) -> None:
        """What the command line of a job does."""
        study = load_study(self.folder)
        only = [one for one in study.cells if one.id == cell]
        run_study(study, RunOptions(jobs=1), only=only)

    def dies(self, job: str, cell: str) -> None:
        """The job ends badly before it has left anything but a log."""
        log = self.folder / "slurm" / f"{job}_0_log.out"
        log.write_text("Starting with JobEnvironment\nerror: the node has no data\n  none\n")
        self.slurm.set_state(job, "FAILED")

    def vanishes(self, job: str, cell: str) -> None:
        """The job was cancelled while it waited: Slurm knows it no more."""
        self.slurm.set_state(job, "")

    def waits(self, job: str, cell: str) -> None:
        """The job stays in the queue."""


def run_there(study: Any, told: Cluster, *given: str, waits: bool = True, **options: Any) -> Any:
    """The study on the cluster."""
    executor = SlurmExecutor(read_job_options(given), waits)
    return run_study(study, RunOptions(**options), told, executor=executor)


def test_what_is_left_becomes_one_array_and_is_waited_for(study, slurm):
    mine = study()
    run_study(mine, only=mine.cells[:1])
    told = Cluster(slurm, mine.folder.path)
    outcome = run_there(mine, told, "time=2:00:00", "partition=p", jobs=2)
    assert (states(outcome), outcome.exit_code) == (ALL_DONE, 0)
    assert told.batches == [CELLS[1:]]
    assert list(outcome.standings) == list(CELLS)
    text = slurm.batch_file()
    for flag in ("array=0-2%2", "time=120", "partition=p", "cpus-per-task=2", "requeue",
                 "signal=USR2@120", "job-name=damcha-study"):  # fmt: skip
        assert f"#SBATCH --{flag}\n" in text
    assert "--wckey" not in text
    counted = starts(mine.folder.path)
    assert counted == {f"{cell} {what}": 1 for cell in CELLS for what in ("train", "eval")}
    assert f"{CELLS[0]} done" in told.lines
    again = Cluster(slurm, mine.folder.path)
    assert states(run_there(mine, again)) == ALL_DONE
    assert again.batches == []
    assert len(slurm.calls("sbatch")) == 1


def test_a_single_cell_is_a_plain_job(study, slurm):
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    executor = SlurmExecutor()
    outcome = run_study(mine, RunOptions(), told, only=mine.cells[:1], executor=executor)
    assert states(outcome) == {CELLS[0]: "done"}
    assert slurm.jobs == {FIRST: "COMPLETED"}


def test_the_job_is_the_plain_command_of_its_cell(study, slurm):
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    told.fates = [told.waits] * 4
    run_there(mine, told, waits=False)
    from submitit.helpers import DelayedSubmission

    path = mine.folder.path / "slurm" / f"{FIRST}_1_submitted.pkl"
    task = DelayedSubmission.load(path).function
    words = [str(mine.folder.path), "--only", CELLS[1], "--jobs", "1"]
    assert task.command[1:] == ["-m", "damcha_cli", "suite", "run", *words]
    assert all(type(one) in (str, int, list) for one in vars(task).values())


def test_jobs_that_leave_no_result_end_the_wait_and_are_named(study, slurm):
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    told.fates = [told.dies, told.vanishes, told.done, told.done]
    outcome = run_there(mine, told)
    expected = {**ALL_DONE, CELLS[0]: "interrupted", CELLS[1]: "interrupted"}
    assert (states(outcome), outcome.exit_code) == (expected, 1)
    lines = outcome.standings[CELLS[0]].reason.split("\n")
    log = mine.folder.path / "slurm" / f"{FIRST}_0_0_log.out"
    assert lines[0] == f"job {FIRST}_0 ended (FAILED) and left no result; its log: {log}"
    assert lines[1] == "error: the node has no data"
    assert f"job {FIRST}_1 is gone" in outcome.standings[CELLS[1]].reason
    # Run again, they are submitted again, and they alone.
    again = Cluster(slurm, mine.folder.path)
    assert states(run_there(mine, again)) == ALL_DONE
    assert again.batches == [CELLS[:2]]


def test_failures_and_what_is_out_of_date_are_submitted_on_request_alone(study, slurm, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", f"{CELLS[0]}=7")
    told = Cluster(slurm, study().folder.path)
    outcome = run_there(study(), told)
    assert (states(outcome), outcome.exit_code) == ({**ALL_DONE, CELLS[0]: "failed"}, 1)
    monkeypatch.delenv("STAND_IN_FAILS")
    changed = '[[override]]\ntask = "digits"\nattention = "damcha"\nset = { "train.lr" = 5e-3 }\n'
    outcome = run_there(study(changed), told)
    assert states(outcome) == {**ALL_DONE, CELLS[0]: "failed", CELLS[1]: "out of date"}
    assert len(told.batches) == 1
    outcome = run_there(study(changed), told, retry=True, rerun=True)
    assert (states(outcome), told.batches[1]) == (ALL_DONE, CELLS[:2])
    assert (study().folder.path / f"{CELLS[1]}.old-1" / "cell.json").is_file()


def test_a_refusal_of_sbatch_changes_nothing(study, slurm, monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", f"{CELLS[0]}=7")
    mine = study()
    run_study(mine, only=mine.cells[:1])
    before = mine.folder.record(CELLS[0])
    slurm.fail("sbatch", "sbatch: error: invalid partition specified: none")
    with pytest.raises(UsageError) as caught:
        run_there(mine, Cluster(slurm, mine.folder.path), retry=True)
    assert "invalid partition specified: none" in str(caught.value)
    assert str(caught.value).endswith("nothing was submitted")
    assert mine.folder.record(CELLS[0]) == before
    assert last_jobs(mine.folder) == {}
    assert mine.folder.lock(CELLS[1]).acquire()


def test_a_queue_that_cannot_be_read_stops_a_second_submission(study, slurm):
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    told.fates = [told.waits] * 4
    run_there(mine, told, waits=False)
    slurm.fail("squeue", "slurm_load_jobs error: Unable to contact slurm controller")
    with pytest.raises(SlurmUnreachable, match="Unable to contact slurm controller"):
        run_there(mine, told, waits=False)
    assert len(slurm.calls("sbatch")) == 1


def test_silence_of_slurm_is_borne_for_a_while(study, slurm, monkeypatch):
    mine = study()
    told = Cluster(slurm, mine.folder.path)

    def falls_silent(job: str, cell: str) -> None:
        slurm.fail("squeue", "slurm_load_jobs error: no answer")
        threading.Timer(0.6, lambda: told.done(job, cell)).start()

    told.fates = [told.done, told.done, told.done, falls_silent]
    assert states(run_there(mine, told)) == ALL_DONE
    assert told.lines.count("slurm_load_jobs error: no answer; asking again") == 1


def test_silence_for_long_ends_the_wait_and_says_that_the_jobs_may_go_on(study, slurm, monkeypatch):
    monkeypatch.setattr(follower, "PATIENCE_SECONDS", 0.3)
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    told.fates = [
        told.waits, told.waits, told.waits,
        lambda job, cell: slurm.fail("squeue", "slurm_load_jobs error: no answer"),
    ]  # fmt: skip
    with pytest.raises(SlurmUnreachable, match="the same command waits on"):
        run_there(mine, told)


def test_no_wait_leaves_and_a_second_run_waits_without_submitting(study, slurm):
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    told.fates = [told.done, told.waits, told.waits, told.waits]
    outcome = run_there(mine, told, waits=False)
    assert outcome.exit_code == 0
    assert set(states(outcome)) == set(CELLS)
    assert states(outcome)[CELLS[1]] == "pending"
    slurm.set_state(f"{FIRST}_1", "RUNNING")
    seen = with_queue(mine.folder, outcome.standings | {CELLS[1]: missing(), CELLS[2]: missing()})
    assert (seen[CELLS[1]].state, seen[CELLS[2]].state) == (State.RUNNING, State.PENDING)
    assert seen[CELLS[2]].reason == f"job {FIRST}_2 pending (Priority)"

    second = Cluster(slurm, mine.folder.path)

    def finish() -> None:
        for number in (1, 2, 3):
            told.done(f"{FIRST}_{number}", CELLS[number])

    late = threading.Timer(0.3, finish)
    late.start()
    assert states(run_there(mine, second)) == ALL_DONE
    late.join()
    assert second.batches == []
    assert len(slurm.calls("sbatch")) == 1


def missing() -> Standing:
    return Standing(State.MISSING)


def test_a_number_that_is_another_job_by_now_counts_as_gone(study, slurm):
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    told.fates = [told.waits] * 4
    run_there(mine, told, waits=False)
    jobs = json.loads((slurm.folder / "jobs.json").read_text())
    jobs[f"{FIRST}_0"]["name"] = "a stranger's"
    (slurm.folder / "jobs.json").write_text(json.dumps(jobs))
    seen = with_queue(mine.folder, {CELLS[0]: missing(), CELLS[1]: missing()})
    assert (seen[CELLS[0]].state, seen[CELLS[1]].state) == (State.INTERRUPTED, State.PENDING)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_waiting_alone_and_says_how_to_cancel(study, slurm, number, code):
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    told.fates = [told.waits] * 4
    threading.Timer(0.5, lambda: os.kill(os.getpid(), number)).start()
    with pytest.raises(Interrupted) as caught:
        run_there(mine, told)
    assert caught.value.exit_code == code
    assert f"scancel {FIRST} " in str(caught.value)
    assert "the same command waits on" in str(caught.value)
    assert set(slurm.jobs.values()) == {"PENDING"}


def test_a_cell_that_another_process_trains_is_waited_for_and_not_submitted(study, slurm):
    mine = study()
    mine.store()
    mine.folder.prepare()
    lock = mine.folder.lock(CELLS[0])
    assert lock.acquire()
    threading.Timer(0.4, lock.release).start()
    told = Cluster(slurm, mine.folder.path)
    assert states(run_there(mine, told)) == ALL_DONE
    assert f"waiting for {CELLS[0]}" in told.lines
    # It was left undone by that process, so it is submitted in its turn.
    assert told.batches == [CELLS[1:], CELLS[:1]]


def test_two_submitters_at_once_submit_every_cell_once(study, slurm):
    mine = study()
    mine.store()  # threads would share the temporary file that processes have of their own
    told = [Cluster(slurm, mine.folder.path) for _ in range(2)]
    for one in told:
        one.fates = [one.waits] * 4
    other = threading.Thread(target=lambda: run_there(mine, told[1], waits=False))
    other.start()
    run_there(mine, told[0], waits=False)
    other.join()
    assert sorted(told[0].batches + told[1].batches) == [CELLS]
    assert len(slurm.calls("sbatch")) == 1


def test_two_arrays_with_the_same_cells_start_nothing_twice(study, slurm, monkeypatch):
    monkeypatch.setenv("STAND_IN_STEP_SECONDS", "0.05")
    mine = study()
    told = Cluster(slurm, mine.folder.path)
    told.fates = [told.waits] * 8
    run_there(mine, told, waits=False)
    (mine.folder.path / "slurm" / f"{FIRST}.json").unlink()  # nobody knows of the first any more
    run_there(mine, told, waits=False)
    assert told.batches == [CELLS, CELLS]
    both = (*CELLS[:2], *CELLS[:2])
    threads = [threading.Thread(target=told.work, args=(cell,)) for cell in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    once = {f"{cell} {what}": 1 for cell in CELLS[:2] for what in ("train", "eval")}
    assert starts(mine.folder.path) == once


def test_a_job_that_is_put_back_is_told_as_started_once_a_life(study, slurm):
    mine = study()
    told = Cluster(slurm, mine.folder.path)

    def lives_twice(job: str, cell: str) -> None:
        def go() -> None:
            slurm.set_state(job, "RUNNING")
            time.sleep(0.5)
            slurm.set_state(job, "PENDING", "BeginTime")
            time.sleep(0.5)
            slurm.set_state(job, "RUNNING")
            time.sleep(0.5)
            told.done(job, cell)

        threading.Thread(target=go).start()

    told.fates = [told.done, told.done, told.done, lives_twice]
    assert states(run_there(mine, told)) == ALL_DONE
    assert told.lines.count(f"started {CELLS[3]}") == 2


def test_what_is_told_of_jobs_reads_well(slurm, study, capsys):
    from damcha_cli.suite_progress import SuiteProgress

    mine = study()
    told = SuiteProgress(4)
    told.submitted("12", mine.cells, Path("runs/s/slurm"))
    told.submitted("13", mine.cells[:1], Path("runs/s/slurm"))
    told.queued({CELLS[0]: 40, CELLS[1]: 0}, 2, "Resources")
    told.queued({}, 1, "None")
    told.queued(dict.fromkeys("abcdef", 1), 0, "")
    told.queued({}, 0, "")
    told.finished(mine.cells[0], Standing(State.INTERRUPTED, "job 12_0 is gone\nerror: x"), None, 0)
    assert capsys.readouterr().err.split("\n") == [
        "submitted 4 cells as job 12; logs in runs/s/slurm",
        f"submitted {CELLS[0]} as job 13; logs in runs/s/slurm",
        f"at work: {CELLS[0]} (step 40), {CELLS[1]}; 2 pending (Resources)",
        "1 pending",
        "at work: a (step 1), b (step 1), c (step 1), d (step 1) and 2 more",
        f"[1/4] {CELLS[0]} interrupted: job 12_0 is gone",
        "    error: x",
        "",
    ]


@pytest.mark.parametrize("name", ["sbatch", "squeue", "scontrol", "srun"])
def test_without_slurm_s_commands_it_says_which_are_missing(slurm, study, monkeypatch, name):
    (slurm.bin / name).unlink()
    monkeypatch.setenv("PATH", str(slurm.bin))
    with pytest.raises(UsageError, match=f"--executor slurm: {name} not on PATH"):
        run_there(study(), Cluster(slurm, study().folder.path))


def test_without_submitit_it_says_how_to_install_it(slurm, study, monkeypatch):
    from importlib import util

    found = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "submitit" else found(name))
    with pytest.raises(UsageError) as caught:
        run_there(study(), Cluster(slurm, study().folder.path))
    assert str(caught.value) == ('--executor slurm needs submitit: pip install "damcha[cluster]"')


def test_a_folder_whose_name_slurm_would_change_is_refused(slurm, tmp_path):
    from small_studies import FOUR_CELLS, small_study

    mine = small_study(tmp_path / "50%j", FOUR_CELLS)
    with pytest.raises(UsageError, match="choose another --out"):
        run_there(mine, Cluster(slurm, mine.folder.path))
    assert slurm.calls("sbatch") == []


def test_what_squeue_prints_is_read_by_id():
    text = "12|0|RUNNING|None|damcha-s\n12|3|PENDING|Resources|damcha-s\n15|N/A|FAILED|x|a|b\n\n?"
    assert parsed(text) == {
        "12_0": Listed("RUNNING", "None", "damcha-s"),
        "12_3": Listed("PENDING", "Resources", "damcha-s"),
        "15": Listed("FAILED", "x", "a|b"),
    }
    assert parsed(text)["12_0"].alive
    assert parsed(text)["12_3"].waits
    assert not parsed(text)["15"].alive


def test_nothing_is_asked_about_no_jobs_and_unknown_ones_are_absent(slurm):
    assert look([]) == {}
    assert slurm.calls("squeue") == []
    assert look(["7"]) == {}


def test_a_job_counts_the_cores_that_slurm_granted(monkeypatch):
    from damcha_core.experiments.runner import threads_of_a_job

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "6")
    assert (threads_of_a_job(1), threads_of_a_job(2)) == (6, 3)
    monkeypatch.delenv("SLURM_JOB_ID")
    assert threads_of_a_job(2) == 32
