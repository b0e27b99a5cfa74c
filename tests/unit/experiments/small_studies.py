"""Studies on the built-in digits for tests of the queue, and what tests ask of their folders."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from damcha_core.config.toml_text import parse_toml
from damcha_core.experiments import cell_run
from damcha_core.experiments.runner import RunOptions, StudyOutcome, run_study
from damcha_core.experiments.study import Study, plan_study
from damcha_core.experiments.study_observer import StudyObserver
from damcha_core.experiments.suite import read_suite
from damcha_core.files import find_json_object

PROGRAM = (sys.executable, "-S", str(Path(__file__).with_name("stand_in_program.py")))
FOUR_CELLS = """
tasks = ["digits", "digits-cls"]
attentions = ["mha", "damcha"]
"""


def small_study(folder: Path, text: str, *, seeds: int = 1) -> Study:
    """A study from the text of a suite file."""
    return plan_study(
        read_suite(parse_toml(text, "s.toml"), "s", "s.toml"), out=folder, seeds=seeds
    )


def run_stand_ins(folder: Path, text: str, options: RunOptions, seeds: int = 1) -> StudyOutcome:
    """A runner for child processes of tests."""
    cell_run.PROGRAM = PROGRAM
    return run_study(small_study(folder, text, seeds=seeds), options)


class Told(StudyObserver):
    """Keeps what a study tells."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def notice(self, text: str) -> None:
        self.lines.append(text)

    def started(self, cell: Any, *, resumed: bool) -> None:
        self.lines.append(f"{'resumed' if resumed else 'started'} {cell.id}")

    def finished(self, cell: Any, standing: Any, test: Any, seconds: float) -> None:
        self.lines.append(f"{cell.id} {standing.state}")

    def waiting(self, cells: Any) -> None:
        self.lines.append("waiting for " + " ".join(cell.id for cell in cells))


def states(outcome: StudyOutcome) -> dict[str, str]:
    """The states of cells by name."""
    return {name: str(standing.state) for name, standing in outcome.standings.items()}


def starts(folder: Path) -> Counter[str]:
    """How often each command of a cell was started, as the logs tell: "cell train", "cell eval"."""
    counted: Counter[str] = Counter()
    for log in (folder / "logs").glob("*.log"):
        for line in log.read_text(encoding="utf-8").split("\n"):
            found = re.match(r"\$ damcha (train --resume|train|eval) ", line)
            if found:
                counted[f"{log.stem} {found[1]}"] += 1
    return counted


def scores(folder: Path) -> dict[str, Any]:
    """test.json by cell."""
    return {path.parent.name: find_json_object(path) for path in sorted(folder.glob("*/test.json"))}


def steps_made(folder: Path) -> dict[str, list[str]]:
    """The steps that the stand-ins of each cell say they made."""
    return {
        log.stem: re.findall(r"^step (\d+) in", log.read_text(encoding="utf-8"), re.MULTILINE)
        for log in (folder / "logs").glob("*.log")
    }
