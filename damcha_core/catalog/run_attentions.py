"""Everything that `attention.name` of a run file may be: the attention rows and the controls."""

from __future__ import annotations

from typing import TypeAlias

from damcha_core.catalog.attentions import AttentionRow, attention_row, attention_rows
from damcha_core.catalog.controls import ControlRow, control_row, control_rows

RunAttention: TypeAlias = "AttentionRow | ControlRow"


def run_attentions() -> tuple[RunAttention, ...]:
    """All of them, the controls last."""
    return (*attention_rows(), *control_rows())


def attention_names() -> list[str]:
    """Their names."""
    return [row.name for row in run_attentions()]


def run_attention(name: str) -> RunAttention:
    """The row of a name.

    Args:
        name: the value of `attention.name`.

    Returns:
        The control of that name, else the attention row.

    Raises:
        UsageError: there is neither; the message lists the attention rows.
    """
    return control_row(name) or attention_row(name)


def built_row(name: str) -> AttentionRow:
    """The row of the layers that a run builds.

    Args:
        name: the value of `attention.name`.

    Returns:
        The row of that name; for a control that of the attention it uses.

    Raises:
        UsageError: there is no such attention and no such control.
    """
    row = run_attention(name)
    return attention_row(row.attention) if isinstance(row, ControlRow) else row
