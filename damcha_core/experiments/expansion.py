"""From a suite to the cells of a study."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from damcha_core.catalog.names import choices
from damcha_core.catalog.tasks import task_row
from damcha_core.config.overrides import layer_from_sets
from damcha_core.config.values import shown
from damcha_core.errors import ConfigError, UsageError
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.suite import Suite
from damcha_core.experiments.suite_tables import SETTLED

RECIPE = "recipe"
"""The budget that changes nothing."""
SMALL = "small"
"""The budget of the built-in data, unless another one is named."""


def chosen_budget(suite: Suite, name: str | None, *, builtin: bool) -> str:
    """The budget that a study is given.

    Args:
        suite: what is planned.
        name: the budget asked for; None: "small" on built-in data, where the suite has it, else
            "recipe".
        builtin: whether the tasks are replaced by their built-in counterparts.

    Raises:
        UsageError: the suite has no such budget.
    """
    if name is None:
        return SMALL if builtin and SMALL in suite.budgets else RECIPE
    if name != RECIPE and name not in suite.budgets:
        known = (RECIPE, *suite.budgets)
        raise UsageError(f"{suite.origin} has no budget {shown(name)}; {choices(name, known)}")
    return name


def chosen_tasks(suite: Suite, *, builtin: bool) -> tuple[str, ...]:
    """The tasks of a study: those of the suite, or their counterparts on built-in data."""
    if not builtin:
        return suite.tasks
    return tuple(dict.fromkeys(task_row(name).instead for name in suite.tasks))


def read_sets(suite: Suite, sets: Sequence[str]) -> dict[str, object]:
    """The settings of `--set section.key=value`, for every cell.

    Args:
        suite: what is planned.
        sets: the arguments; a later one beats an earlier one.

    Raises:
        ConfigError: one is malformed, or not to be set for all cells at once.
    """
    problems: list[str] = []
    layer = layer_from_sets(sets, problems)
    settings = {f"{section}.{key}": setting.value for (section, key), setting in layer.items()}
    for dotted in settings:
        if dotted in SETTLED:
            problems.append(f"--set: {dotted} is refused: {SETTLED[dotted]} settles it")
        elif dotted in suite.grid:
            problems.append(f"--set: {dotted} is refused: [grid] of {suite.origin} varies it")
    if problems:
        raise ConfigError(problems)
    return settings


def expand(
    suite: Suite,
    *,
    seeds: int = 1,
    budget: str | None = None,
    builtin: bool = False,
    sets: Sequence[str] = (),
) -> tuple[Cell, ...]:
    """The cells of a suite; the settings of each are resolved, and so checked.

    Args:
        suite: what is planned.
        seeds: number of seeds, from 0.
        budget: name of a budget; None: see chosen_budget.
        builtin: train on the built-in counterparts of the tasks.
        sets: "section.key=value" each, for every cell; they beat all else.

    Returns:
        The cells: seeds outside, then tasks, then the grid, then attentions, so that a study that
        is stopped early has whole comparisons.

    Raises:
        UsageError: the suite has no such budget.
        ConfigError: settings are not valid; all problems are reported.
    """
    given = read_sets(suite, sets)
    of_task = suite.budgets.get(chosen_budget(suite, budget, builtin=builtin), {})
    cells = []
    for seed, task in product(range(seeds), chosen_tasks(suite, builtin=builtin)):
        for point, attention in product(grid_points(suite.grid), suite.attentions):
            settings = {**of_task.get(task, {}), **point}
            for override in suite.overrides:
                if override.selects(task, attention, seed):
                    settings.update(override.settings)
            name = cell_id(task, attention, point, seed)
            where = f"{suite.origin}, {task} with {attention}"
            cells.append(Cell(name, task, attention, seed, {**settings, **given}, where))
    require_valid(cells, suite)
    return tuple(cells)


def grid_points(grid: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    """Every combination of the values of a grid; the one empty combination of an empty one."""
    for values in product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def cell_id(task: str, attention: str, point: Mapping[str, object], seed: int) -> str:
    """The name of a cell, fit for a folder: digits-damcha-d_model64-n_layers2-s0."""
    last = [dotted.partition(".")[2] for dotted in point]
    parts = [task, attention]
    for dotted, key in zip(point, last, strict=True):
        name = key if last.count(key) == 1 else dotted
        parts.append(name + file_text(point[dotted]))
    return "-".join([*parts, f"s{seed}"])


def file_text(value: object) -> str:
    """A value as part of a file's name."""
    if isinstance(value, list):
        return "x".join(file_text(item) for item in value)
    text = shown(value) if not isinstance(value, str) else value
    return re.sub(r"[^A-Za-z0-9.+_]+", "_", text)[:40]


def require_valid(cells: Sequence[Cell], suite: Suite) -> None:
    """Resolve every cell's settings.

    Raises:
        ConfigError: some are not valid, or two cells would have one name.
    """
    problems: list[str] = []
    names = [cell.id for cell in cells]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            problems.append(f"{suite.origin}: two cells would be called {name}")
    places: dict[str, list[str]] = {}  # what is wrong with several cells alike is said once
    for cell in cells:
        try:
            cell.config(Path(cell.id))
        except ConfigError as error:
            for problem in error.problems:
                text = problem.removeprefix(f"{cell.origin}: ")
                places.setdefault(text, []).append(cell.origin)
    for text, found in places.items():
        more = f" and {len(found) - 1} more cells" if len(found) > 1 else ""
        problems.append(f"{found[0]}{more}: {text}")
    if problems:
        raise ConfigError(problems)
