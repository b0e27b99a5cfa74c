"""The section [attention]: a name from the catalogue, and the options that its row has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from damcha_core.catalog.attentions import AttentionRow, attention_row, attention_rows
from damcha_core.catalog.names import nearest
from damcha_core.catalog.run_attentions import RunAttention, attention_names, run_attention
from damcha_core.config.findings import Findings
from damcha_core.config.keys import option_owners, options_class
from damcha_core.config.schema import AttentionSection
from damcha_core.config.values import Settings, shown

Checked = Callable[[type[Settings], str, Mapping[str, object], Findings], Settings]


def attention_section(findings: Findings, checked: Checked) -> AttentionSection:
    """The attention's name with the options of its row, those of a preset filled in.

    Args:
        findings: the settings; problems are added here.
        checked: makes a section of values and reports those that do not fit.

    Returns:
        The section; the default one when the name is unknown and near no other.
    """
    values = findings.values("attention")
    name = values.pop("name", AttentionSection.model_fields["name"].default)
    row = likely_row(name)
    if row is None:
        return AttentionSection()
    kind = options_class(row)
    known = {} if kind is None else kind.model_fields
    for key in [key for key in values if key not in known]:
        findings.refuse(f"attention.{key}", foreign_option(key, row))
        del values[key]
    preset = row.preset if isinstance(row, AttentionRow) else {}
    for key, fixed in preset.items():
        given = values.get(key, fixed)
        if given != fixed or type(given) is not type(fixed):
            findings.refuse(f"attention.{key}", contradiction(key, given, fixed, row.name))
        values[key] = fixed
    options = None if kind is None else checked(kind, "attention", values, findings)
    return AttentionSection(name=row.name, options=options)


def likely_row(name: object) -> RunAttention | None:
    """The row of a name, or of the nearest known name, so that its options can be checked too."""
    names = attention_names()
    if not isinstance(name, str):
        return None
    guess = name if name in names else nearest(name, names)
    return None if guess is None else run_attention(guess)


def foreign_option(key: str, row: RunAttention) -> str:
    """What is said about an option of another attention."""
    owner = option_owners()[key][0]
    return (
        f"attention.{key} belongs to attention {owner}, not to {row.name}: leave it out, or choose "
        f"attention.name = {shown(owner)}"
    )


def contradiction(key: str, given: object, fixed: object, name: str) -> str:
    """What is said about an option that a preset fixes to another value."""
    hint = "leave it out"
    builder = attention_row(name).builder
    for other in attention_rows():
        if other.builder == builder and not other.preset:
            hint += f", or choose attention.name = {shown(other.name)}"
    return (
        f"attention.{key} = {shown(given)} is refused: {name} fixes {key} = {shown(fixed)}; {hint}"
    )
