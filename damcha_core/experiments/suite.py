"""Suites: which attentions are trained on which tasks under which settings, from a TOML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from damcha_core.catalog.names import choices, unknown_name
from damcha_core.config.toml_text import parse_toml, read_toml
from damcha_core.config.values import printable, shown
from damcha_core.errors import ConfigError, UsageError
from damcha_core.experiments.suite_tables import (
    read_budgets,
    read_grid,
    read_names,
    read_overrides,
    read_summary,
)

SUITES = files("damcha_core.experiments") / "suites"
ENDING = ".toml"
KEYS = ("summary", "tasks", "attentions", "grid", "override", "budget")
EXTENDS = "extends"
"""Key of a suite file that names the shipped suite whose keys it takes over."""
Settings = Mapping[str, object]


@dataclass(frozen=True)
class Override:
    """Settings of some cells alone.

    Attributes:
        settings: by dotted key.
        task: cells of this task; None: of every task.
        attention: cells of this attention; None: of every one.
        seed: cells of this seed; None: of every one.
    """

    settings: Settings
    task: str | None = None
    attention: str | None = None
    seed: int | None = None

    def selects(self, task: str, attention: str, seed: int) -> bool:
        """Whether it is meant for a cell."""
        wanted = ((self.task, task), (self.attention, attention), (self.seed, seed))
        return all(own in (None, given) for own, given in wanted)


@dataclass(frozen=True)
class Suite:
    """What a suite file says.

    Attributes:
        name: of a shipped suite, or of the file without its ending.
        origin: what a problem names as the place.
        summary: one line for lists.
        tasks: names of tasks.
        attentions: names of attentions and controls.
        grid: values by dotted key; every combination is a cell.
        overrides: a later one beats an earlier one.
        budgets: settings by the names of the budget and the task.
    """

    name: str
    origin: str
    summary: str
    tasks: tuple[str, ...]
    attentions: tuple[str, ...]
    grid: Mapping[str, Sequence[object]]
    overrides: tuple[Override, ...]
    budgets: Mapping[str, Mapping[str, Settings]]


def suite_names() -> tuple[str, ...]:
    """Names of the shipped suites, the study first."""
    names = [
        entry.name.removesuffix(ENDING) for entry in SUITES.iterdir() if entry.name.endswith(ENDING)
    ]
    return tuple(sorted(names, key=lambda name: (name != "study", name)))


def load_suite(name_or_path: str) -> Suite:
    """A shipped suite, or one of the user's.

    Args:
        name_or_path: the name of a shipped suite, or the path of a file ending in .toml.

    Raises:
        UsageError: there is no such suite.
        ConfigError: the file does not parse, or is no suite; all problems are reported.
    """
    if name_or_path in suite_names():
        return read_suite(shipped_document(name_or_path), name_or_path, f"suite {name_or_path}")
    path = Path(name_or_path)
    if path.suffix != ENDING and not path.is_file():
        raise UsageError(
            f"{unknown_name('suite', name_or_path, suite_names())}; "
            f"the path of a file of yours ends in {ENDING}"
        )
    return read_suite(read_toml(path), path.stem, printable(str(path)))


def extended(document: Mapping[str, object], origin: str) -> Mapping[str, object]:
    """A suite file with the keys that it takes over from a shipped suite.

    Args:
        document: the top-level table; with `extends` or without.
        origin: what a problem names as the place.

    Returns:
        The table without `extends`. A key of its own replaces that of the other suite as a whole.

    Raises:
        ConfigError: `extends` names no shipped suite.
    """
    if EXTENDS not in document:
        return document
    name = document[EXTENDS]
    if not isinstance(name, str) or name not in suite_names():
        if isinstance(name, str):
            wrong = unknown_name("suite", name, suite_names())
        else:
            wrong = f"{EXTENDS} = {shown(name)} is refused: give the name of a shipped suite"
        raise ConfigError([f"{origin}: {wrong}"])
    own = {key: value for key, value in document.items() if key != EXTENDS}
    return {**shipped_document(name), **own}


def shipped_document(name: str) -> Mapping[str, object]:
    """The parsed file of a shipped suite, with what it takes over from another one."""
    text = (SUITES / f"{name}{ENDING}").read_text(encoding="utf-8")
    return extended(parse_toml(text, f"suite {name}"), f"suite {name}")


def read_suite(document: Mapping[str, object], name: str, origin: str) -> Suite:
    """A suite from its parsed file.

    Args:
        document: the top-level table; see `extended` for a suite that takes over another.
        name: of the suite.
        origin: what a problem names as the place.

    Raises:
        ConfigError: it is no suite; all problems are reported.
    """
    document = extended(document, origin)
    problems = [
        f"{origin}: there is no key {printable(key[:64])}; {choices(key, (EXTENDS, *KEYS))}"
        for key in document
        if key not in KEYS
    ]
    tasks, attentions = read_names(document, origin, problems)
    suite = Suite(
        name=name,
        origin=origin,
        summary=read_summary(document, origin, problems),
        tasks=tasks,
        attentions=attentions,
        grid=read_grid(document, origin, problems),
        overrides=tuple(
            Override(**given)
            for given in read_overrides(document, tasks, attentions, origin, problems)
        ),
        budgets=read_budgets(document, origin, problems),
    )
    problems += [
        f"{origin}: override sets {key}, which [grid] varies; keep one of the two"
        for override in suite.overrides
        for key in override.settings
        if key in suite.grid
    ]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return suite
