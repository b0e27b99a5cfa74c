"""The parts of a suite file, each checked and what is wrong with it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from damcha_core.catalog.names import choices, unknown_name
from damcha_core.catalog.run_attentions import attention_names
from damcha_core.catalog.tasks import task_row, task_rows
from damcha_core.config.keys import outside_sections
from damcha_core.config.overrides import Layer, Setting, place
from damcha_core.config.values import printable, shown

SETTLED = {
    "run.task": "the list of tasks",
    "attention.name": "the list of attentions",
    "run.seed": "--seeds",
    "run.name": "--out",
    "run.out": "--out",
}
"""Keys of a run file that a study gives every cell itself."""
SELECTORS = ("task", "attention", "seed", "set")


def read_summary(document: Mapping[str, object], origin: str, problems: list[str]) -> str:
    """The one line about a suite."""
    summary = document.get("summary", "")
    if isinstance(summary, str) and (summary.isprintable() or not summary):
        return summary
    problems.append(f"{origin}: summary = {shown(summary)} is refused: give one line of text")
    return ""


def read_names(
    document: Mapping[str, object], origin: str, problems: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks and the attentions of a suite."""
    known = {"task": [row.name for row in task_rows()], "attention": attention_names()}
    found = {}
    for kind, names in known.items():
        given = document.get(f"{kind}s")
        if not isinstance(given, list) or not given or not all(isinstance(n, str) for n in given):
            said = f"= {shown(given)} is refused: " if f"{kind}s" in document else "is missing: "
            problems.append(f"{origin}: {kind}s {said}give a list of names")
            given = []
        problems += [
            f"{origin}: {unknown_name(kind, name, names)}" for name in given if name not in names
        ]
        problems += [
            f"{origin}: {kind}s names {name} twice" for name in set(given) if given.count(name) > 1
        ]
        found[kind] = tuple(name for name in dict.fromkeys(given) if name in names)
    return found["task"], found["attention"]


def read_settings(table: object, where: str, problems: list[str]) -> dict[str, object]:
    """Settings by dotted key, written "section.key" = value or section.key = value.

    Args:
        table: what the file has there.
        where: what a problem names as the place.
        problems: unknown keys are added here, and those that are not a suite's to set.

    Returns:
        The settings whose keys are known.
    """
    if not isinstance(table, Mapping):
        problems.append(
            f'{where} = {shown(table)} is refused: give a table such as {{ "train.lr" = 1e-3 }}'
        )
        return {}
    layer: Layer = {}
    for dotted, value in flat(table).items():
        if dotted in SETTLED:
            problems.append(f"{where}: {dotted} is refused: {SETTLED[dotted]} settles it")
        elif "." not in dotted:
            problems.append(f"{where}: {outside_sections(dotted)}")
        else:
            place(layer, dotted, Setting(value, where), problems)
    return {f"{section}.{key}": setting.value for (section, key), setting in layer.items()}


def flat(table: Mapping[str, object]) -> dict[str, object]:
    """A table of tables as one table with dotted keys."""
    found: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found.update({f"{name}.{key}": inner for key, inner in value.items()})
        else:
            found[name] = value
    return found


def read_grid(
    document: Mapping[str, object], origin: str, problems: list[str]
) -> dict[str, Sequence[object]]:
    """The values of the keys that a suite varies."""
    grid: dict[str, Sequence[object]] = {}
    where = f"{origin}: [grid]"
    for dotted, values in read_settings(document.get("grid", {}), where, problems).items():
        if not isinstance(values, list) or not values:
            problems.append(f"{where}: {dotted} = {shown(values)} is refused: give a list")
        elif any(values.count(value) > 1 for value in values):
            problems.append(f"{where}: {dotted} = {shown(values)} has a value twice")
        else:
            grid[dotted] = values
    return grid


def read_overrides(
    document: Mapping[str, object],
    tasks: Sequence[str],
    attentions: Sequence[str],
    origin: str,
    problems: list[str],
) -> list[dict[str, Any]]:
    """The arguments of each override."""
    given = document.get("override", [])
    if not isinstance(given, list) or not all(isinstance(entry, Mapping) for entry in given):
        problems.append(f"{origin}: override is refused: write [[override]] and its keys below")
        return []
    replaced = [*tasks, *(task_row(name).instead for name in tasks)]
    known = {"task": list(dict.fromkeys(replaced)), "attention": list(attentions)}
    found = []
    for number, entry in enumerate(given, start=1):
        where = f"{origin}: override {number}"
        problems += [
            f"{where}: there is no key {printable(key[:64])}; {choices(key, SELECTORS)}"
            for key in entry
            if key not in SELECTORS
        ]
        for kind, names in known.items():
            name = entry.get(kind)
            if name is not None and name not in names:
                problems.append(f"{where}: {unknown_name(kind, str(name), names)}")
        seed = entry.get("seed")
        if seed is not None and (type(seed) is not int or seed < 0):
            problems.append(f"{where}: seed = {shown(seed)} is refused: give a whole number")
        if "set" not in entry:
            problems.append(
                f'{where}: set is missing: give a table such as {{ "train.lr" = 1e-3 }}'
            )
        settings = read_settings(entry.get("set", {}), f"{where}: set", problems)
        selected = {key: entry.get(key) for key in ("task", "attention", "seed")}
        found.append({"settings": settings, **selected})
    return found


def read_budgets(
    document: Mapping[str, object], origin: str, problems: list[str]
) -> dict[str, dict[str, dict[str, object]]]:
    """Settings by the names of the budget and the task."""
    budgets: dict[str, dict[str, dict[str, object]]] = {}
    given = document.get("budget", {})
    known = [row.name for row in task_rows()]
    if not isinstance(given, Mapping):
        problems.append(f"{origin}: budget is refused: write [budget.NAME.TASK] and its keys below")
        return budgets
    for name, tables in given.items():
        budgets[name] = {}
        if not isinstance(tables, Mapping):
            problems.append(f"{origin}: [budget.{printable(name)}] holds tables by task")
            continue
        for task, table in tables.items():
            where = f"{origin}: [budget.{printable(name)}.{printable(task)}]"
            if task not in known:
                problems.append(f"{where}: {unknown_name('task', task, known)}")
            else:
                budgets[name][task] = read_settings(table, where, problems)
    return budgets
