"""docs/reference/run-file.md, from the schema, the task catalogue and the recipes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

from pydantic.fields import FieldInfo

from damcha_core.catalog.attentions import attention_row
from damcha_core.catalog.controls import control_row
from damcha_core.catalog.tasks import task_rows
from damcha_core.config.document import to_mapping
from damcha_core.config.keys import SECTIONS, fields, option_owners
from damcha_core.config.resolve import recipe, resolve_mapping
from damcha_core.config.values import allowed, shown
from reference_pages.table import code, table

INTRODUCTION = """\
# Run file

A run file is TOML with six sections. Every key may be left out. Each of these beats the ones
before it:

1. the defaults on this page,
2. the recipe of the task ([below](#recipes)),
3. the environment variable `DAMCHA_DATA`, for `data.root` alone,
4. the run file, given with `damcha train --config FILE`,
5. `--set section.key=value`,
6. flags such as `--epochs`; a flag that is not given never counts.

An unknown key is refused, with the nearest known one. Types are strict: `epochs = 1.5`,
`compile = 1` and `lr = nan` are refused. All problems of a file are reported at once, before
anything is written. The file with everything filled in is stored in the run folder as `run.toml`.

`0` and `""` mean "off" or "not given"; each key says which."""


def run_file_page() -> str:
    """The page: sections, tasks, recipes."""
    sections = [key_section(name) for name in SECTIONS]
    return "\n\n".join([INTRODUCTION, *sections, tasks(), recipes()])


def key_section(name: str) -> str:
    """All keys of one section; those of [attention] say whose they are."""
    heading = f"## [{name}]"
    meaning = inspect.getdoc(SECTIONS[name]).splitlines()[0]
    if name != "attention":
        return "\n\n".join([heading, meaning, key_table(fields(name))])
    parts = [heading, meaning, key_table({"name": fields(name)["name"]})]
    for owners in dict.fromkeys(option_owners().values()):
        own = {key: fields(name)[key] for key, rows in option_owners().items() if rows == owners}
        parts += [f"Options of {owner_names(owners)}:", key_table(own)]
    parts.append(
        "A preset such as `damcha-psd` fixes some of these ([Attentions](attentions.md)); an "
        "option that contradicts it, or that has no effect beside the others, is refused."
    )
    return "\n\n".join(parts)


def owner_names(owners: Sequence[str]) -> str:
    """Whose options some keys are, as text; presets go with their layer."""
    controls = [name for name in owners if control_row(name)]
    rows = [attention_row(name) for name in owners if name not in controls]
    layers = [row.name for row in rows if not row.preset]
    kinds = ["its presets"] if len(rows) > len(layers) else []
    kinds += ["the controls matched to it"] if layers and controls else []
    return " and ".join([", ".join(map(code, layers or controls)), *kinds])


def key_table(known: Mapping[str, FieldInfo]) -> str:
    """Keys with what they accept, their default and their meaning."""
    rows = [
        [code(key), allowed(field), code(shown(field.default)), field.description or ""]
        for key, field in known.items()
    ]
    return table(["key", "value", "default", "meaning"], rows)


def tasks() -> str:
    """What can be trained, and what is measured."""
    rows = [
        [
            code(row.name),
            row.summary,
            "built in" if row.builtin else "in `data.root`",
            ", ".join(code(metric.name) for metric in row.metrics),
        ]
        for row in task_rows()
    ]
    note = "The first metric chooses the best checkpoint, on the validation split."
    return "\n\n".join(
        ["## Tasks", table(["`run.task`", "what it learns", "data", "metrics"], rows), note]
    )


def recipes() -> str:
    """The keys that the recipes of the tasks set, side by side."""
    names = [row.name for row in task_rows()]
    settings = {name: to_mapping(resolve_mapping({"run": {"task": name}})) for name in names}
    keys = {
        (section, key): None
        for section in SECTIONS
        for key in fields(section)
        if any(key in recipe(name).get(section, {}) for name in names)
    }
    rows = [
        [f"`{section}.{key}`", *(shown(settings[name][section][key]) for name in names)]
        for section, key in keys
    ]
    text = (
        "A task has its own settings where the defaults above would not suit its data. They are "
        "our choice: the published sources give the quick-start size and no recipe."
    )
    return "\n\n".join(["## Recipes", text, table(["key", *map(code, names)], rows)])
