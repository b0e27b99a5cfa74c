"""`damcha suite`: what it lists, prints, refuses and tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import damcha

from damcha_core.experiments import cell_run

TINY = """
summary = "tiny"
tasks = ["digits"]
attentions = ["mha", "damcha"]
"""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are carried out by a program that does as damcha does, without training."""
    import sys

    program = Path(__file__).parents[1] / "unit" / "experiments" / "stand_in_program.py"
    monkeypatch.setattr(cell_run, "PROGRAM", (sys.executable, "-S", str(program)))
    Path("tiny.toml").write_text(TINY, encoding="utf-8")


def test_the_suites_are_listed_with_their_sizes():
    listed = damcha("suite", "list", "--json").json()
    assert [(one["name"], one["cells"]) for one in listed] == [
        ("study", 28),
        ("ablations", 52),
        ("comparison", 40),
        ("diagnostics", 36),
        ("diagnostics-heads", 27),
        ("scaling", 36),
    ]
    out = damcha("suite", "list").done().out
    assert all(one["name"] in out and one["summary"] in out for one in listed)


def test_the_cells_of_a_suite_are_listed():
    lines = damcha("suite", "list", "study", "--builtin").done().out.split()
    assert (len(lines), lines[0], lines[-1]) == (28, "digits-mha-s0", "concepts-damcha-s0")
    cells = damcha("suite", "list", "scaling", "--json").json()
    assert cells[0]["settings"] == {"model.d_model": 64, "model.n_layers": 2}


def test_a_dry_run_prints_the_commands_and_nothing_else():
    answer = damcha("suite", "run", "--all", "--builtin", "--dry-run").done()
    lines = answer.out.split("\n")
    assert (len(lines), lines.pop(), answer.err) == (29, "", "")
    assert all(line.startswith("damcha train --task ") for line in lines)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run",), 2, ["--all"]),
        (("run", "--all", "ablations"), 2, ["leave one of"]),
        (("run", "ablation"), 2, ["did you mean ablations?"]),
        (("run", "x.toml"), 2, ["x.toml: there is no such file"]),
        (("run", "study", "--seeds", "0"), 2, ["--seeds 0"]),
        (("run", "study", "--builtin", "--jobs", "0"), 2, ["--jobs 0"]),
        (("run", "study", "--budget", "smll"), 2, ["did you mean small?"]),
        (("run", "study", "--executor", "cloud"), 2, ["no executor called", "local, slurm"]),
        (("run", "study", "--executor", "slrm"), 2, ["did you mean slurm?"]),
        (("run", "study", "--slurm", "time=60"), 2, ["--slurm", "add --executor slurm"]),
        (("run", "study", "--no-wait"), 2, ["--no-wait", "add --executor slurm"]),
        (
            ("run", "study", "--executor", "slurm", "--slurm", "tme=60"),
            2,
            ["no key 'tme'", "did you mean time?"],
        ),
        (("run", "study", "--only", "cifer*"), 2, ["no cell is called so"]),
        (("run", "study", "--set", "train.lr=0"), 2, ["train.lr = 0"]),
        (("status", "x"), 4, ["no such folder"]),
        (("status",), 4, ["no study in runs"]),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused(arguments, code, words):
    damcha("suite", *arguments).refused(code, *words)
    assert list(Path().iterdir()) == []


def test_missing_data_are_listed_and_nothing_starts():
    answer = damcha("suite", "run", "--all", "--only", "wmt-*", "--only", "commongen-*")
    answer.refused(3, "wmt: ", "commongen: ", "--builtin", "--skip-missing", most_lines=5)
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("stand_in")
def test_progress_table_status_and_exit_code(monkeypatch):
    monkeypatch.setenv("STAND_IN_FAILS", "digits-mha-s0=5")
    answer = damcha("suite", "run", "tiny.toml")
    assert answer.code == 1
    told = answer.err.split("\n")
    assert told[:2] == ["2 cells, 2 of them not ended yet", "started digits-mha-s0"]
    assert told[2].startswith("[1/2] digits-mha-s0 diverged: error: digits-mha-s0 is meant to fail")
    assert "1 of 2 done, 1 diverged" in answer.out
    states = {cell["cell"]: cell["state"] for cell in status()["cells"]}
    assert states == {"digits-mha-s0": "diverged", "digits-damcha-s0": "done"}
    monkeypatch.delenv("STAND_IN_FAILS")
    record = damcha("suite", "run", "tiny.toml", "--retry", "--json").json()
    assert record["states"] == {"done": 2}
    assert {cell["metric"] for cell in record["cells"]} == {"masked_mse"}
    assert "2 of 2 done" in damcha("suite", "status").done().out


@pytest.mark.usefixtures("stand_in")
def test_a_changed_suite_is_seen_by_status_once_it_was_run():
    damcha("suite", "run", "tiny.toml").done()
    more = '[[override]]\nattention = "damcha"\nset = { train.lr = 5e-3 }\n'
    Path("tiny.toml").write_text(TINY + more, encoding="utf-8")
    answer = damcha("suite", "run", "tiny.toml").done()
    assert "digits-damcha-s0 out of date: settings changed since; --rerun" in answer.err
    assert status("--check-data")["states"] == {"done": 1, "out of date": 1}
    damcha("suite", "run", "tiny.toml", "--rerun").done()
    assert status()["states"] == {"done": 2}


@pytest.mark.usefixtures("stand_in")
def test_several_studies_are_listed_one_a_line():
    damcha("suite", "run", "tiny.toml").done()
    damcha("suite", "run", "tiny.toml", "--out", "runs/other", "--only", "*-mha-*").done()
    overview = damcha("suite", "status", "--json").json()
    assert [one["states"] for one in overview] == [{"done": 1, "missing": 1}, {"done": 2}]
    out = damcha("suite", "status").done().out
    assert "runs/other" in out
    assert "runs/tiny" in out


@pytest.mark.usefixtures("stand_in")
def test_the_folder_of_a_study_goes_on_with_its_stored_choices():
    words = ("--seeds", "2", "--set", "train.lr=2e-3", "--only", "*-mha-s1")
    damcha("suite", "run", "tiny.toml", *words).done()
    Path("tiny.toml").unlink()
    record = damcha("suite", "run", "runs/tiny", "--json").json()
    assert record["states"] == {"done": 4}
    assert record["suite"] == "tiny"
    assert status()["states"] == {"done": 4}
    answer = damcha("suite", "run", "runs/tiny", "--seeds", "3", "--set", "train.lr=1e-3")
    answer.refused(2, "runs/tiny", "choices made", "--seeds, --set")


@pytest.mark.usefixtures("stand_in")
def test_the_runs_of_a_tuning_are_no_study_to_go_on_with():
    damcha("suite", "tune", "tiny.toml", "--only", "*-mha-*")
    answer = damcha("suite", "run", "runs/tiny/tune")
    answer.refused(2, "holds the runs of damcha suite tune", most_lines=1)
    assert not list(Path().glob("runs/tiny/tune/*/test.json"))


def test_a_dry_run_shows_the_jobs_that_would_be_submitted():
    words = ("suite", "run", "study", "--builtin", "--dry-run", "--executor", "slurm")
    answer = damcha(*words, "--slurm", "partition=gpu", "--jobs", "3", "--only", "digits-*").done()
    lines = answer.out.split("\n")
    assert (lines[-1], answer.err, len(lines)) == ("", "", 16)
    assert lines[0] == (
        "# sbatch --job-name=damcha-study-builtin --array=0-13%3 --time=240 --cpus-per-task=2 "
        "--partition=gpu --signal=USR2@120 --requeue"
    )
    folder = Path("runs/study-builtin").resolve()
    assert lines[1] == f"damcha suite run {folder} --only digits-mha-s0 --jobs 1"
    assert list(Path().iterdir()) == []


def test_without_slurm_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = damcha("suite", "run", "study", "--builtin", "--executor", "slurm")
    answer.refused(2, "sbatch", "not on PATH", most_lines=1)
    assert list(Path().iterdir()) == []


def status(*more: str) -> dict[str, object]:
    return json.loads(damcha("suite", "status", "runs/tiny", "--json", *more).done().out)
