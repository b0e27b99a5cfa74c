"""Studies on a real Slurm cluster of one node: cut by the time limit, cancelled, waited for."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import SlurmCluster, why_not
from tiny_runs import child_environment

from damcha_core.experiments.study_folder import StudyFolder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_not()), reason=f"no Slurm cluster can be started: {why_not()}"),
]

SUITE = """
summary = "three short cells, and one that one life of a job does not suffice for"
tasks = ["digits"]
attentions = ["damcha", "mha", "gated", "dcmha"]

[budget.tiny.digits]
"run.device" = "cpu"
"run.threads" = 1
"model.d_model" = 16
"model.n_heads" = 2
"model.d_ff" = 16
"model.n_layers" = 1
"train.max_steps" = 20
"train.epochs" = 100000
"train.warmup_steps" = 2
"train.save_every_steps" = 50

[[override]]
attention = "damcha"
set = { "attention.mlp_hidden" = [8], "train.max_steps" = LONG }
"""
LONG, SHORT = "digits-damcha-s0", ("digits-mha-s0", "digits-gated-s0", "digits-dcmha-s0")
WORK_SECONDS = 65.0
"""What the long cell computes for, where the time limit is one minute: the shortest of Slurm."""
SECONDS = 800.0
"""How long anything here may take before it counts as hanging."""
SLURM = (
    *("--executor", "slurm", "--slurm", "time=1", "--slurm", "signal-delay=2"),
    *("--slurm", "cpus-per-task=1"),
)
UNLIMITED = ("--executor", "slurm", "--slurm", "time=60", "--slurm", "cpus-per-task=1")
Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    """A cluster whose node has one core, so that of two jobs one waits."""
    folder = Path(tempfile.mkdtemp(prefix="damcha-slurm-"))
    one = SlurmCluster(folder, cpus=1)
    try:
        sys.stdout.write(f"\nstart of the cluster: {one.start():.1f} s\n")
        yield one
    finally:
        one.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def damcha(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Run]:
    """Starts the program where it reaches the cluster, and leaves no process behind."""
    started: list[subprocess.Popen[str]] = []
    environment = child_environment() | cluster.environment
    environment["PYTHONPATH"] = child_environment()["PYTHONPATH"]

    def start(*words: object) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "damcha_cli", *map(str, words)],
                env=environment, cwd=tmp_path, text=True, encoding="utf-8",
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


def suite_words(folder: Path, long_steps: int, name: str, *more: object) -> Sequence[object]:
    """The command of a study."""
    file = folder / "tiny.toml"
    if not file.exists():
        file.write_text(SUITE.replace("LONG", str(long_steps)), encoding="utf-8")
    return ["suite", "run", file, "--budget", "tiny", "--out", folder / name, *more]


def wait_for(holds: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "that never came"
        time.sleep(0.1)


def steps_a_second(damcha: Run, folder: Path) -> float:
    """How fast the long cell goes on this machine."""
    words = suite_words(folder, 10**7, "pace", "--only", LONG)
    process = damcha(*words)
    log = StudyFolder(folder / "pace").run(LONG).metrics_file
    wait_for(lambda: log.is_file() and log.read_bytes().count(b"\n") > 400)
    first, start = log.read_bytes().count(b"\n"), time.monotonic()
    time.sleep(4)
    pace = (log.read_bytes().count(b"\n") - first) / (time.monotonic() - start)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    (folder / "tiny.toml").unlink()
    return pace


def counted(path: Path, words: str) -> int:
    """How often words are in a file."""
    return path.read_text(encoding="utf-8", errors="replace").count(words)


def slurm_log(folder: StudyFolder, cell: str) -> Path:
    """What the job of a cell said."""
    for note in (folder.path / "slurm").glob("*.json"):
        jobs = json.loads(note.read_text(encoding="utf-8"))["cells"]
        if cell in jobs:
            return note.with_name(f"{jobs[cell]}_0_log.out")
    raise AssertionError(f"{cell} was never submitted")


def table(damcha: Run, folder: Path) -> dict[str, bytes]:
    """The exported tables of a study, without times."""
    out = folder.with_name(f"{folder.name} tables")
    process = damcha("export-results", folder, "--out", out, "--no-times")
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    kept = ("*.md", "*.csv", "*.tex")
    return {path.name: path.read_bytes() for one in kept for path in sorted(out.glob(one))}


def metrics(folder: StudyFolder, cell: str) -> Any:
    """The scores of a cell on both splits."""
    scores = json.loads(folder.test_file(cell).read_text(encoding="utf-8"))
    return scores["metrics"], folder.run(cell).read_result()["metrics"]


def test_an_array_one_cell_of_which_is_cut_by_its_time_limit_ends_as_a_local_study(
    damcha, cluster, tmp_path
):
    steps = int(steps_a_second(damcha, tmp_path) * WORK_SECONDS)
    started = time.monotonic()
    first = damcha(*suite_words(tmp_path, steps, "cluster", *SLURM))
    folder = StudyFolder(tmp_path / "cluster")
    wait_for(lambda: list((folder.path / "slurm").glob("*[0-9].json")))
    submitted = time.monotonic() - started
    second = damcha(*suite_words(tmp_path, steps, "cluster", *SLURM))
    here = damcha(*suite_words(tmp_path, steps, "here"))

    out, said = first.communicate(timeout=SECONDS)
    seconds = time.monotonic() - started
    assert first.returncode == 0, said
    assert "submitted 4 cells as job " in said
    assert "4 of 4 done" in out
    out, said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    assert "submitted" not in said
    assert "4 of 4 done" in out
    assert len(list((folder.path / "slurm").glob("*[0-9].json"))) == 1

    log = slurm_log(folder, LONG)
    lives, requeues = counted(log, "Starting with JobEnvironment"), counted(log, "Requeued job")
    sys.stdout.write(
        f"\n{steps} steps; submitted after {submitted:.1f} s; {lives} lives, {requeues} requeues;"
        f" {seconds:.0f} s in all\n"
    )
    assert lives == requeues + 1
    assert requeues >= 1
    # Each life saved itself, and the next one took it up.
    assert counted(folder.log(LONG), "$ damcha train --resume") >= 1
    for cell in (LONG, *SHORT):
        # On a slow machine a short one is cut, too; but no life starts anything twice.
        lives = counted(slurm_log(folder, cell), "Starting with JobEnvironment")
        assert 1 <= counted(folder.log(cell), "$ damcha train ") <= lives
        assert 1 <= counted(folder.log(cell), "$ damcha eval ") <= lives

    _, said = here.communicate(timeout=SECONDS)
    assert here.returncode == 0, said
    for cell in (LONG, *SHORT):
        assert metrics(folder, cell) == metrics(StudyFolder(tmp_path / "here"), cell)
    names = table(damcha, tmp_path / "here")
    assert table(damcha, folder.path) == names
    assert names


def test_cancelled_jobs_end_the_wait_and_are_named_with_their_logs(damcha, cluster, tmp_path):
    only = ("--only", LONG, "--only", SHORT[0])
    endless = ("--set", "train.max_steps=10000000")
    process = damcha(*suite_words(tmp_path, 1, "cut", *UNLIMITED, *only, *endless))
    folder = StudyFolder(tmp_path / "cut")
    wait_for(lambda: (folder.path / LONG / "checkpoints" / "last").exists())
    states = status(damcha, folder.path)
    assert {cell: states[cell] for cell in (LONG, SHORT[0])} == {
        LONG: "running",
        SHORT[0]: "pending",
    }
    jobs = json.loads(next((folder.path / "slurm").glob("*[0-9].json")).read_text())["cells"]
    cluster.command("scancel", jobs[SHORT[0]])
    wait_for(lambda: jobs[SHORT[0]] not in cluster.queue("%i"))
    cluster.command("scancel", jobs[LONG])
    out, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, said
    assert "0 of 2 done, 2 interrupted" in out
    for cell in (LONG, SHORT[0]):
        assert f"job {jobs[cell]} " in said
        assert str(folder.path / "slurm" / f"{jobs[cell]}_0_log.out") in said
    states = status(damcha, folder.path)
    assert (states[LONG], states[SHORT[0]], states[SHORT[1]]) == (
        "interrupted", "interrupted", "missing",
    )  # fmt: skip
    # What the cancelled job had saved is whole, and can be gone on with.
    assert (folder.path / LONG / "checkpoints" / "last").read_text().startswith("step-")


def status(damcha: Run, folder: Path) -> dict[str, str]:
    """The states of cells by name."""
    process = damcha("suite", "status", folder, "--json")
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return {cell["cell"]: cell["state"] for cell in json.loads(out)["cells"]}
