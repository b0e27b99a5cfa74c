"""Studies with the real programs: killed, broken, and by the commands as printed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from child_runs import run_command_line, wait_for
from tiny_runs import child_environment, sha256
from typer.testing import CliRunner

from damcha_cli.app import app
from damcha_core.experiments.study_folder import StudyFolder

pytestmark = pytest.mark.slow

SUITE = """
summary = "two small cells, and one for a device that is not there"
tasks = ["digits"]
attentions = ["mha", "dcmha", "damcha"]

[budget.tiny.digits]
"run.device" = "cpu"
"run.threads" = 1
"model.d_model" = 16
"model.n_heads" = 2
"model.d_ff" = 16
"model.n_layers" = 1
"train.max_steps" = 40
"train.warmup_steps" = 2
"train.save_every_steps" = 2

[[override]]
attention = "damcha"
set = { "attention.mlp_hidden" = [8] }

[[override]]
attention = "dcmha"
set = { "run.device" = "cuda:7" }
"""
SECONDS = 200.0
"""How long anything here may take before it counts as hanging."""
MHA, BROKEN, DAMCHA = "digits-mha-s0", "digits-dcmha-s0", "digits-damcha-s0"


def arguments(file: Path, out: Path, *more: str) -> list[str]:
    return ["suite", "run", str(file), "--budget", "tiny", "--out", str(out), *more]


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite of these tests."""
    file = tmp_path_factory.mktemp("suite") / "tiny.toml"
    file.write_text(SUITE, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def undisturbed(suite_file: Path, tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """The study as it goes when nobody interferes; only to be read."""
    out = tmp_path_factory.mktemp("undisturbed") / "study"
    answer = CliRunner().invoke(app, arguments(suite_file, out, "--json"))
    assert answer.exit_code == 1, answer.stderr
    assert json.loads(answer.stdout)["states"] == {"done": 2, "failed": 1}
    return StudyFolder(out)


def weights(folder: StudyFolder, cell: str) -> dict[str, str]:
    """Hash of the weights in each checkpoint of a cell."""
    found = sorted((folder.run(cell).path / "checkpoints").glob("step-*/weights.safetensors"))
    return {path.parent.name: sha256(path) for path in found}


def outcome(folder: StudyFolder, cell: str) -> dict[str, Any]:
    """What an interruption must not change."""
    return {
        "weights": weights(folder, cell),
        "test": json.loads(folder.test_file(cell).read_text(encoding="utf-8")),
        "items": sha256(folder.run(cell).samples / "test.jsonl"),
    }


def test_a_broken_cell_leaves_the_others_done(undisturbed):
    for cell in (MHA, DAMCHA):
        assert undisturbed.record(cell)["state"] == "done"
        test = json.loads(undisturbed.test_file(cell).read_text(encoding="utf-8"))
        assert (test["split"], test["metrics"]["masked_mse"]["n"]) == ("test", 8000)
    record = undisturbed.record(BROKEN)
    assert (record["state"], record["exit_code"]) == ("failed", 2)
    assert "cuda:7" in record["reason"]
    assert len(record["reason"].split("\n")) <= 2


def test_a_printed_command_runs_as_it_is_and_gives_the_same_run(undisturbed, suite_file, tmp_path):
    out = tmp_path / "by hand"
    printed = CliRunner().invoke(app, arguments(suite_file, out, "--dry-run", "--jobs", "2"))
    lines = printed.stdout.split("\n")
    assert (printed.exit_code, printed.stderr, len(lines), lines[-1]) == (0, "", 4, "")
    words = shlex.split(lines[0])
    assert words[0] == "damcha"
    assert not out.exists()
    subprocess.run(
        [sys.executable, "-m", "damcha_cli", *words[1:]],
        env=child_environment(), check=True, capture_output=True, timeout=SECONDS,
    )  # fmt: skip
    assert weights(StudyFolder(out), MHA) == weights(undisturbed, MHA)


def trainer_of(run: Path) -> int:
    """The process that trains into a folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "train" in words and str(run) in words:
            return int(path.parent.name)
    raise AssertionError(f"nobody trains into {run}")


def test_three_kills_change_nothing(child, undisturbed, suite_file, tmp_path):
    folder = StudyFolder(tmp_path / "study")
    line = arguments(suite_file, folder.path)
    # As soon as a cell is being started; in the middle of one, its trainer with the runner; in
    # the middle of another one, whose trainer goes on alone.
    moments = (
        (lambda: folder.log(MHA).exists() and "$ damcha" in folder.log(MHA).read_text(), False),
        (lambda: (folder.path / MHA / "checkpoints" / "last").exists(), True),
        (lambda: (folder.path / DAMCHA / "checkpoints" / "last").exists(), False),
    )
    for number, (moment, with_trainer) in enumerate(moments):
        process = child(run_command_line, line, tmp_path / f"output {number}")
        wait_for(moment, process, SECONDS)
        process.kill()
        process.join()
        if with_trainer and not folder.run(MHA).result_file.exists():
            os.kill(trainer_of(folder.path / MHA), signal.SIGKILL)
    process = child(run_command_line, line, tmp_path / "output")
    process.join(SECONDS)
    assert process.exitcode == 1
    assert folder.record(BROKEN)["state"] == "failed"
    for cell in (MHA, DAMCHA):
        assert outcome(folder, cell) == outcome(undisturbed, cell)
        steps = metrics_steps(folder, cell)
        assert steps == list(range(1, 41))
        assert folder.log(cell).read_text(encoding="utf-8").count("$ damcha eval") == 1


def metrics_steps(folder: StudyFolder, cell: str) -> list[int]:
    lines = folder.run(cell).metrics_file.read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    return [line["step"] for line in read if line["split"] == "train"]
