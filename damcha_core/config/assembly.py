"""Checks settings section by section and together, and makes the configuration of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from damcha_core.catalog.names import choices
from damcha_core.catalog.run_attentions import attention_names
from damcha_core.catalog.tasks import task_rows
from damcha_core.config.attention_options import attention_section
from damcha_core.config.consistency import conflicts
from damcha_core.config.controls import size_conflicts, with_sizes
from damcha_core.config.findings import Findings
from damcha_core.config.keys import SECTIONS
from damcha_core.config.overrides import Layer
from damcha_core.config.schema import AttentionSection, RunConfig, RunSection
from damcha_core.config.values import Settings, allowed, shown


def assemble(layer: Layer, problems: Sequence[str] = ()) -> RunConfig:
    """Makes the configuration, or reports everything that is wrong with it.

    Args:
        layer: the settings that are not left to the schema's defaults.
        problems: what was found wrong before.

    Returns:
        Complete, checked settings.

    Raises:
        ConfigError: anything is wrong; all problems are reported.
    """
    findings = Findings(layer, problems)
    check_name(findings, "run.task", RunSection, [row.name for row in task_rows()])
    check_name(findings, "attention.name", AttentionSection, attention_names())
    sections: dict[str, Any] = {}
    for section, kind in SECTIONS.items():
        if section == "attention":
            sections[section] = attention_section(findings, checked)
        else:
            sections[section] = checked(kind, section, findings.values(section), findings)
    config = RunConfig(**sections)
    for conflict in conflicts(config):
        findings.add(conflict.keys, conflict.text)
    findings.raise_any()
    for conflict in size_conflicts(config):
        findings.add(conflict.keys, conflict.text)
    findings.raise_any()
    return with_sizes(config)


def check_name(findings: Findings, dotted: str, kind: type[Settings], names: Sequence[str]) -> None:
    """Refuses a name that the catalogue does not have.

    Args:
        findings: the settings; a problem is added here.
        dotted: the key of the name.
        kind: class of the key's section.
        names: the names that there are.
    """
    section, _, key = dotted.partition(".")
    name = findings.values(section).get(key, kind.model_fields[key].default)
    if isinstance(name, str) and name not in names:
        findings.refuse(dotted, f"{dotted} = {shown(name)} is unknown; {choices(name, names)}")
    elif not isinstance(name, str):
        findings.refuse(dotted, f"{dotted} = {shown(name)} is refused: give text in quotes")


def checked(
    kind: type[Settings], section: str, values: Mapping[str, object], findings: Findings
) -> Settings:
    """One section; values that do not fit are reported and replaced by their defaults.

    Args:
        kind: the section's class, or a class of options.
        section: its name in the run file.
        values: settings whose keys the class has.
        findings: a problem is added here for each value that does not fit.

    Returns:
        The section.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        wrong = reasons(kind, error)
    for key, reason in wrong.items():
        dotted = f"{section}.{key}"
        findings.refuse(dotted, f"{dotted} = {shown(values[key])} is refused: give {reason}")
    return kind.model_validate({key: values[key] for key in values if key not in wrong})


def reasons(kind: type[Settings], error: ValidationError) -> dict[str, str]:
    """What each refused key accepts, as words that follow "give"."""
    found: dict[str, str] = {}
    for item in error.errors(include_url=False):
        key = str(item["loc"][0])
        accepts = allowed(kind.model_fields[key])
        if item["type"] == "value_error":
            accepts = str(item["ctx"]["error"])
        elif isinstance(item["input"], str) and accepts.startswith(("a ", "true")):
            accepts += ", without quotes"
        found.setdefault(key, accepts)
    return found
