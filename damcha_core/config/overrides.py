"""Settings from several places - file, `--set`, flags - each remembered with its origin."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from damcha_core.config.keys import SECTIONS, fields, outside_sections, unknown_key, unknown_section
from damcha_core.config.toml_text import parse_toml
from damcha_core.config.values import shown
from damcha_core.errors import ConfigError

MOST_UNKNOWN = 50  # each costs a search for the nearest name
SET_EXAMPLE = "write --set section.key=value, such as --set train.lr=1e-3"


@dataclass(frozen=True)
class Setting:
    """A value and where it was given: a file's name, "--set", a flag, or "" for our own."""

    value: object
    origin: str


Layer = dict[tuple[str, str], Setting]  # (section, key) -> setting


def layer_from_mapping(mapping: Mapping[str, object], origin: str, problems: list[str]) -> Layer:
    """The settings of a parsed run file.

    Args:
        mapping: sections, each a mapping of keys.
        origin: what a problem names as the place.
        problems: unknown sections and keys are added here, a limited number of them.

    Returns:
        The settings whose keys are known.
    """
    layer: Layer = {}
    unknown: list[tuple[str, str | None]] = []
    for section, table in mapping.items():
        if section not in SECTIONS:
            unknown.append((section, None))
        elif not isinstance(table, Mapping):
            problems.append(
                f"{origin}: {section} = {shown(table)} is refused: {section} is a section; write "
                f"[{section}] and its keys below"
            )
        else:
            known = fields(section)
            for key, value in table.items():
                if key in known:
                    layer[section, key] = Setting(value, origin)
                else:
                    unknown.append((section, key))
    for section, key in unknown[:MOST_UNKNOWN]:
        if key is not None:
            text = unknown_key(section, key)
        elif isinstance(mapping[section], (Mapping, list)):
            text = unknown_section(section)
        else:
            text = outside_sections(section)
        problems.append(f"{origin}: {text}")
    if len(unknown) > MOST_UNKNOWN:
        problems.append(f"{origin}: and {len(unknown) - MOST_UNKNOWN} more unknown names")
    return layer


def place(layer: Layer, dotted: str, setting: Setting, problems: list[str]) -> None:
    """Adds one setting to a layer, or a problem when there is no such key.

    Args:
        layer: where the setting goes.
        dotted: "section.key".
        setting: the value with its origin.
        problems: an unknown section or key is added here.
    """
    section, _, key = dotted.partition(".")
    if section not in SECTIONS:
        problems.append(f"{setting.origin}: {unknown_section(section)}")
    elif key not in fields(section):
        problems.append(f"{setting.origin}: {unknown_key(section, key)}")
    else:
        layer[section, key] = setting


def layer_from_sets(sets: Sequence[str], problems: list[str]) -> Layer:
    """The settings of `--set section.key=value`.

    Args:
        sets: the arguments; a later one beats an earlier one.
        problems: malformed arguments, unknown sections and keys are added here.

    Returns:
        The settings whose keys are known.
    """
    layer: Layer = {}
    for argument in sets:
        dotted, equals, text = argument.partition("=")
        section, dot, key = (part.strip() for part in dotted.partition("."))
        if not (equals and dot and section and key and "." not in key):
            problems.append(f"--set {shown(argument)}: {SET_EXAMPLE}")
        else:
            setting = Setting(set_value(section, key, text), "--set")
            place(layer, f"{section}.{key}", setting, problems)
    return layer


def set_value(section: str, key: str, text: str) -> object:
    """The value that the text after the equals sign stands for.

    Args:
        section: a known section.
        key: any key.
        text: a TOML value, or bare text.

    Returns:
        The TOML value; the text itself when it is none, or when the key takes text and the
        value is something else (a folder may be called 1).
    """
    text = text.strip()
    try:
        parsed = parse_toml(f"value = {text}", "--set")
    except ConfigError:
        return text
    if parsed.keys() != {"value"}:
        return text
    value: object = parsed["value"]
    field = fields(section).get(key) if section in SECTIONS else None
    takes_text = field is not None and field.annotation is str
    return text if takes_text and not isinstance(value, str) else value


def layer_from_flags(flags: Mapping[str, object], problems: list[str]) -> Layer:
    """The settings of command-line flags.

    Args:
        flags: dotted key -> value; None: the flag was not given.
        problems: unknown keys are added here.

    Returns:
        The settings whose keys are known.
    """
    layer: Layer = {}
    for dotted, given in flags.items():
        value = os.fspath(given) if isinstance(given, os.PathLike) else given
        if value is not None:
            place(layer, dotted, Setting(value, flag_name(dotted)), problems)
    return layer


def flag_name(dotted: str) -> str:
    """The flag behind a dotted key: attention.name is --attention, train.lr is --lr."""
    section, _, key = dotted.partition(".")
    name = section if dotted == "attention.name" else key
    return "--" + name.replace("_", "-")


def stacked(layers: Sequence[Layer]) -> Layer:
    """Several layers as one; a later layer beats an earlier one.

    run.name and run.out are two ways to say one thing, so one of them given later clears the
    other one given earlier.
    """
    merged: Layer = {}
    for layer in layers:
        for given, other in (("name", "out"), ("out", "name")):
            if ("run", given) in layer and ("run", other) not in layer:
                merged.pop(("run", other), None)
        merged.update(layer)
    return merged
