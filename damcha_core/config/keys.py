"""All keys of a run file, and the known key that an unknown one was most likely meant to be."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic.fields import FieldInfo

from damcha_core.catalog.controls import ControlRow
from damcha_core.catalog.loading import load
from damcha_core.catalog.names import nearest
from damcha_core.catalog.run_attentions import RunAttention, run_attentions
from damcha_core.config import usual_names
from damcha_core.config.schema import (
    AttentionSection,
    DataSection,
    EvalSection,
    ModelSection,
    RunSection,
    TrainSection,
)
from damcha_core.config.values import LONGEST_SHOWN, Settings, shown

SECTIONS: dict[str, type[Settings]] = {
    "run": RunSection,
    "model": ModelSection,
    "attention": AttentionSection,
    "data": DataSection,
    "train": TrainSection,
    "eval": EvalSection,
}


def options_class(row: RunAttention) -> type[Settings] | None:
    """The class with the options of an attention or a control, or None when it has none."""
    if row.options is None:
        return None
    loaded: type[Settings] = load(row.options)
    return loaded


def option_owners() -> dict[str, tuple[str, ...]]:
    """Each attention option with the names of the rows that know it, presets and controls last."""

    def is_derived(row: RunAttention) -> bool:
        return isinstance(row, ControlRow) or bool(row.preset)

    owners: dict[str, tuple[str, ...]] = {}
    for row in sorted(run_attentions(), key=is_derived):
        options = options_class(row)
        for key in {} if options is None else options.model_fields:
            owners[key] = (*owners.get(key, ()), row.name)
    return owners


def fields(section: str) -> dict[str, FieldInfo]:
    """The keys of a section; those of [attention] are the name and every row's options."""
    known = dict(SECTIONS[section].model_fields)
    if section == "attention":
        del known["options"]
        for row in run_attentions():
            options = options_class(row)
            known.update({} if options is None else options.model_fields)
    return known


def dotted_keys() -> tuple[str, ...]:
    """All keys as "section.key", in the order of the run file."""
    return tuple(f"{section}.{key}" for section in SECTIONS for key in fields(section))


def plain(name: str) -> str:
    """A name as the known ones are spelt: small letters and underscores."""
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def sections_with(key: str, first: str) -> list[str]:
    """The sections that know a key, a preferred one first."""
    order = [first, *(name for name in SECTIONS if name != first)]
    return [name for name in order if name in SECTIONS and key in fields(name)]


def suggested_section(name: str) -> str | None:
    """The section that an unknown section was most likely meant to be, or None."""
    spelt = plain(name)
    return usual_names.SECTIONS.get(spelt) or nearest(spelt, SECTIONS)


def suggested_key(section: str, key: str) -> str | None:
    """The dotted key that an unknown key was most likely meant to be.

    Args:
        section: the section it stood in (it need not be a known one).
        key: the unknown key.

    Returns:
        A known key: the same name in another section, else the one that another project's name
        stands for, else the nearest by letters (keys of the same section first). None: no key
        is near.
    """
    spelt = plain(key)
    homes = sections_with(spelt, section)
    if homes:
        return f"{homes[0]}.{spelt}"
    usual = usual_names.KEYS.get(spelt)
    if usual:
        return in_section(section, usual)
    candidates = near_names(section)
    guess = nearest(spelt, candidates)
    return candidates[guess] if guess else None


def in_section(section: str, dotted: str) -> str:
    """The same key in the section that was written, if that one has it too."""
    key = dotted.partition(".")[2]
    return f"{section}.{key}" if section in SECTIONS and key in fields(section) else dotted


def near_names(section: str) -> dict[str, str]:
    """All names that count as known with their dotted keys, the closest relatives first."""
    names: dict[str, str] = {}
    order: Iterable[str] = [section, *(name for name in SECTIONS if name != section)]
    for home in order:
        for key in fields(home) if home in SECTIONS else ():
            names.setdefault(key, f"{home}.{key}")
    for name, dotted in usual_names.KEYS.items():
        if len(name) > 2:  # nearly everything short is one letter away from these
            names.setdefault(name, in_section(section, dotted))
    return names


def unknown_section(name: str) -> str:
    """What is said about a section that does not exist."""
    guess = suggested_section(name)
    hint = f"did you mean [{guess}]? " if guess else ""
    known = ", ".join(f"[{section}]" for section in SECTIONS)
    return f"there is no section [{written(name)}]; {hint}known: {known}"


def outside_sections(name: str) -> str:
    """What is said about a key that stands before the first section."""
    section, _, key = (suggested_key("", name) or "").partition(".")
    if not key:
        return f"{written(name)} stands outside the sections, and none of them has such a key"
    if key == name:
        return f"{name} stands outside the sections; it belongs under [{section}]"
    return f"{written(name)} stands outside the sections; did you mean {key}, under [{section}]?"


def unknown_key(section: str, key: str) -> str:
    """What is said about a key that its section does not have."""
    dotted = f"{section}.{written(key)}"
    guess = suggested_key(section, key)
    if guess is None:
        return f"there is no key {dotted}; [{section}] has " + ", ".join(fields(section))
    home, _, name = guess.partition(".")
    if name == key:
        return f"{dotted} is in the wrong section; {key} belongs to [{home}]: write {guess}"
    return f"there is no key {dotted}; did you mean {guess}?"


def written(name: str) -> str:
    """A name as it was written, quoted and cut when it would not print on one short line."""
    return name if 0 < len(name) <= LONGEST_SHOWN and name.isprintable() else shown(name)
