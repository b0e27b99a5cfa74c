"""The attention layers that a run file can name."""

from __future__ import annotations

from damcha_core.catalog.attention_row import AttentionRow
from damcha_core.catalog.collaborative import COLLABORATIVE
from damcha_core.catalog.controls import control_row, no_layer
from damcha_core.catalog.damcha import DAMCHA_ROWS
from damcha_core.catalog.dcmha import DCMHA
from damcha_core.catalog.differential import DIFFERENTIAL
from damcha_core.catalog.elliptical import ELLIPTICAL
from damcha_core.catalog.gated import GATED
from damcha_core.catalog.mha import MHA
from damcha_core.catalog.names import unknown_name
from damcha_core.catalog.talking_heads import TALKING_HEADS
from damcha_core.errors import UsageError

__all__ = ["AttentionRow", "attention_row", "attention_rows", "register_attention"]

ROWS: dict[str, AttentionRow] = {}


def register_attention(row: AttentionRow) -> None:
    """Adds a row to the catalogue.

    Args:
        row: the new attention layer or preset.

    Raises:
        ValueError: a row, or a control, of this name is there already.
    """
    if row.name in ROWS or control_row(row.name):
        raise ValueError(f"an attention called {row.name} is in the catalogue already")
    ROWS[row.name] = row


def attention_rows() -> tuple[AttentionRow, ...]:
    """All rows, in the order in which they were added."""
    return tuple(ROWS.values())


def attention_row(name: str) -> AttentionRow:
    """The row of a name.

    Args:
        name: the value of `attention.name`.

    Returns:
        The row.

    Raises:
        UsageError: the name is that of a control, or of nothing; the message lists the names.
    """
    if name in ROWS:
        return ROWS[name]
    control = control_row(name)
    if control is not None:
        raise UsageError(no_layer(control))
    raise UsageError(unknown_name("attention", name, ROWS))


BUILT_IN = (
    MHA,
    TALKING_HEADS,
    COLLABORATIVE,
    ELLIPTICAL,
    DCMHA,
    DIFFERENTIAL,
    *DAMCHA_ROWS,
    GATED,
)

for built_in in BUILT_IN:
    register_attention(built_in)
