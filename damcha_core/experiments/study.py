"""A study: a suite with its choices made, and the folder that its runs go to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from damcha_core.config.toml_text import read_toml
from damcha_core.config.values import printable
from damcha_core.errors import CheckpointError, ConfigError, UsageError
from damcha_core.experiments.cell import Cell, as_toml
from damcha_core.experiments.expansion import RECIPE, chosen_budget, chosen_tasks, expand, read_sets
from damcha_core.experiments.study_folder import StudyFolder
from damcha_core.experiments.suite import KEYS, Suite, read_suite
from damcha_core.files import replace_text
from damcha_core.train.run_folder import DEFAULT_PARENT

CHOICES: dict[str, type] = {"name": str, "seeds": int, "budget": str, "builtin": bool, "set": dict}
"""What [study] of a stored suite adds to what a suite file says."""
RATES = "rates"
"""What it adds with --tuned: where the learning rates are from."""


@dataclass(frozen=True)
class Study:
    """A suite with its choices made.

    Attributes:
        folder: where its runs, records and logs are.
        suite: as resolved: its tasks are those that are trained, its one budget the chosen one.
        cells: its runs.
        seeds: number of seeds, from 0.
        budget: name of the budget; "recipe" changes nothing.
        builtin: whether the tasks are the built-in counterparts of the suite's.
        settings: by dotted key, of every cell; they beat all else.
        rates: where tuned learning rates are from; empty: those of the recipes.
    """

    folder: StudyFolder
    suite: Suite
    cells: tuple[Cell, ...]
    seeds: int
    budget: str
    builtin: bool
    settings: Mapping[str, object]
    rates: str = ""

    @property
    def name(self) -> str:
        """Name of the suite."""
        return self.suite.name

    def store(self) -> None:
        """Write suite.toml, from which load_study makes an equal study.

        Raises:
            UsageError: the folder holds the study of another suite.
            DiskError: it cannot be written.
        """
        path, text = self.folder.suite_file, self.document()
        if path.exists():
            stored = load_study(self.folder.path)
            if (stored.name, stored.builtin) != (self.name, self.builtin):
                raise UsageError(
                    f"{self.folder.path} holds the study {study_title(stored)}, not "
                    f"{study_title(self)}; choose another --out"
                )
            if path.read_text(encoding="utf-8") == text:
                return
        self.folder.prepare()
        replace_text(path, text)

    def document(self) -> str:
        """The text of suite.toml."""
        suite = self.suite
        overrides = []
        for override in suite.overrides:
            selected = {"task": override.task, "attention": override.attention}
            entry: dict[str, Any] = {key: name for key, name in selected.items() if name}
            entry |= {} if override.seed is None else {"seed": override.seed}
            overrides.append({**entry, "set": dict(override.settings)})
        document: dict[str, Any] = {
            "summary": suite.summary,
            "tasks": list(suite.tasks),
            "attentions": list(suite.attentions),
            "study": {
                "name": suite.name,
                "seeds": self.seeds,
                "budget": self.budget,
                "builtin": self.builtin,
                "set": dict(self.settings),
                **({RATES: self.rates} if self.rates else {}),
            },
            "grid": dict(suite.grid),
            "budget": {name: dict(tables) for name, tables in suite.budgets.items()},
            "override": overrides,
        }
        return tomli_w.dumps(
            {key: value for key, value in document.items() if value not in ({}, [])}
        )


def study_title(study: Study) -> str:
    """Name of a study with what tells it from the same suite on other data."""
    return f"{study.name} on built-in data" if study.builtin else study.name


def plan_study(
    suite: Suite,
    *,
    out: Path | None = None,
    seeds: int = 1,
    budget: str | None = None,
    builtin: bool = False,
    sets: Sequence[str] = (),
) -> Study:
    """A study as the command line asks for it; nothing is written.

    Args:
        suite: what is planned.
        out: its folder; None: runs/<suite>, or runs/<suite>-builtin.
        seeds: number of seeds, from 0.
        budget: name of a budget; None: see chosen_budget.
        builtin: train on the built-in counterparts of the tasks.
        sets: "section.key=value" each, for every cell.

    Raises:
        UsageError: the suite has no such budget, or the number of seeds is below 1.
        ConfigError: settings are not valid; all problems are reported.
    """
    if seeds < 1:
        raise UsageError(f"--seeds {seeds}: give the number of seeds, at least 1")
    name = chosen_budget(suite, budget, builtin=builtin)
    tasks = chosen_tasks(suite, builtin=builtin)
    tables = {task: table for task, table in suite.budgets.get(name, {}).items() if task in tasks}
    folder = out or DEFAULT_PARENT / (suite.name + ("-builtin" if builtin else ""))
    resolved = Suite(
        name=suite.name,
        origin=suite.origin,
        summary=suite.summary,
        tasks=tasks,
        attentions=suite.attentions,
        grid=suite.grid,
        overrides=tuple(one for one in suite.overrides if one.task is None or one.task in tasks),
        budgets={} if name == RECIPE else {name: tables},
    )
    return Study(
        folder=StudyFolder(folder),
        suite=resolved,
        cells=expand(resolved, seeds=seeds, budget=name, sets=sets),
        seeds=seeds,
        budget=name,
        builtin=builtin,
        settings=read_sets(resolved, sets),
    )


def load_study(path: Path) -> Study:
    """The study of a folder.

    Args:
        path: the folder.

    Raises:
        CheckpointError: there is no study in that folder.
        ConfigError: its suite.toml is damaged, or not valid in this version.
    """
    folder = StudyFolder(path)
    if not folder.suite_file.is_file():
        what = "no suite.toml in it" if path.exists() else "no such folder"
        raise CheckpointError(f"{path}: not the folder of a study: {what}")
    document = read_toml(folder.suite_file)
    origin = printable(str(folder.suite_file))
    given = document.get("study", {})
    wrong = [
        key
        for key, kind in CHOICES.items()
        if not isinstance(given, Mapping) or type(given.get(key, {})) is not kind
    ]
    if wrong:
        raise ConfigError([f"{origin}: damaged: [study] lacks a good {', '.join(wrong)}"])
    rates = given.get(RATES, "")
    suite = read_suite(
        {key: document[key] for key in KEYS if key in document}, given["name"], origin
    )
    sets = [f"{dotted}={as_toml(value)}" for dotted, value in given.get("set", {}).items()]
    cells = expand(suite, seeds=given["seeds"], budget=given["budget"], sets=sets)
    return Study(
        folder=folder,
        suite=suite,
        cells=cells,
        seeds=given["seeds"],
        budget=given["budget"],
        builtin=given["builtin"],
        settings=read_sets(suite, sets),
        rates=rates if isinstance(rates, str) else "",
    )
