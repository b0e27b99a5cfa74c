"""From a run file, `--set` and flags to the settings of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from damcha_core.catalog.names import nearest
from damcha_core.catalog.tasks import task_rows
from damcha_core.config.added_keys import with_added_keys
from damcha_core.config.assembly import assemble
from damcha_core.config.overrides import (
    Layer,
    Setting,
    layer_from_flags,
    layer_from_mapping,
    layer_from_sets,
    stacked,
)
from damcha_core.config.schema import RunConfig, RunSection
from damcha_core.config.toml_text import parse_toml, read_toml
from damcha_core.config.values import printable
from damcha_core.errors import CheckpointError

DATA_VARIABLE = "DAMCHA_DATA"
RUN_FILE = "run.toml"


def resolve(
    file: Path | None = None,
    sets: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
) -> RunConfig:
    """The settings of a run.

    Each of these beats the ones before it: the schema's defaults, the recipe of the task,
    DAMCHA_DATA (the default of data.root alone), the run file, `--set`, flags.

    Args:
        file: a run file; None: none given.
        sets: "section.key=value" each.
        flags: dotted key -> value of the flags that were given; None as a value: not given.

    Returns:
        Complete, checked settings.

    Raises:
        ConfigError: the file does not parse (that alone is reported), or settings are not valid
            (all problems are reported).
    """
    given = {} if file is None else read_toml(Path(file))
    problems: list[str] = []
    layers = [
        layer_from_mapping(given, printable(str(file)), problems),
        layer_from_sets(sets, problems),
        layer_from_flags(flags or {}, problems),
    ]
    return on_recipe(layers, problems)


def resolve_mapping(
    settings: Mapping[str, Mapping[str, object]], *, origin: str = "settings"
) -> RunConfig:
    """The settings of a run from a plain mapping, over the recipe of its task.

    Args:
        settings: sections, each a mapping of keys.
        origin: what a problem names as the place.

    Returns:
        Complete, checked settings.

    Raises:
        ConfigError: settings are not valid; all problems are reported.
    """
    problems: list[str] = []
    return on_recipe([layer_from_mapping(settings, origin, problems)], problems)


def config_from_run(
    folder_or_file: Path,
    sets: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
) -> RunConfig:
    """The settings that a run stored, with changes on top.

    Args:
        folder_or_file: a run folder, or its run.toml.
        sets: "section.key=value" each.
        flags: dotted key -> value of the flags that were given; None as a value: not given.

    Returns:
        Complete, checked settings; neither a recipe nor DAMCHA_DATA has a part in them, and a key
        that came later has the value that was meant without it (see added_keys), so a later
        version reads the same settings.

    Raises:
        CheckpointError: the folder holds no run.toml.
        ConfigError: the file does not parse, or settings are not valid.
    """
    path = Path(folder_or_file)
    if path.is_dir():
        path = path / RUN_FILE
    name = printable(str(path))
    if not path.exists():
        raise CheckpointError(f"{name}: there is no such file; a run folder holds a {RUN_FILE}")
    problems: list[str] = []
    layers = [
        with_added_keys(layer_from_mapping(read_toml(path), name, problems)),
        layer_from_sets(sets, problems),
        layer_from_flags(flags or {}, problems),
    ]
    return assemble(stacked(layers), problems)


def on_recipe(layers: Sequence[Layer], problems: list[str]) -> RunConfig:
    """Puts layers on top of the recipe of the task that they choose.

    A mistyped task gets the recipe of the nearest one, so that the rest is checked as meant.
    """
    top = stacked(layers)
    chosen = top.get(("run", "task"))
    task = RunSection.model_fields["task"].default if chosen is None else chosen.value
    guess = nearest(task, (row.name for row in task_rows())) if isinstance(task, str) else None
    base = {} if guess is None else layer_from_mapping(recipe(guess), "", problems)
    root = os.environ.get(DATA_VARIABLE, "")
    if root:
        base["data", "root"] = Setting(root, f"environment variable {DATA_VARIABLE}")
    return assemble(stacked([base, *layers]), problems)


def recipe(task: str) -> dict[str, Any]:
    """The settings of a task that differ from the schema's defaults.

    Args:
        task: name of a known task.

    Returns:
        Sections, each a mapping of keys; empty when the task has no recipe.
    """
    source = files("damcha_core.config") / "recipes" / f"{task}.toml"
    if not source.is_file():
        return {}
    return parse_toml(source.read_text(encoding="utf-8"), f"recipe {task}")
