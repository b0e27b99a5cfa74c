"""Controls: runs of a known attention in a model of another size, to compare with fairly.

A control is no layer. It is a function from run settings to run settings, which
`damcha_core.config.controls` applies when a run file is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SIZE_PREFIX = "matched_"
"""`matched_d_ff` among the options of a control stands in for `model.d_ff`."""


@dataclass(frozen=True, kw_only=True)
class ControlRow:
    """One control that a run file can name.

    Args:
        name: the value of `attention.name`.
        summary: one line for lists and for the documentation.
        attention: the row that the model is built with; it has no options.
        target: the row whose model, in the same run file, has to be matched.
        quantity: what has to agree.
        sizes: keys of [model] that are chosen for it, the first one coarsely.
        tolerance: largest relative difference.
        options: dotted path of the class with the options of the target and the chosen sizes.
    """

    name: str
    summary: str
    attention: str
    target: str
    quantity: Literal["parameters", "multiply-adds"]
    sizes: tuple[str, ...]
    tolerance: float
    options: str


ROWS = (
    ControlRow(
        name="mha-matched",
        summary="mha with as many parameters as damcha: d_ff makes up the difference",
        attention="mha",
        target="damcha",
        quantity="parameters",
        sizes=("d_ff",),
        tolerance=0.01,
        options="damcha_core.config.options:MatchedOptions",
    ),
    ControlRow(
        name="mha-flops",
        summary="mha with as many forward multiply-adds as damcha: depth, then d_ff, make up the "
        "difference",
        attention="mha",
        target="damcha",
        quantity="multiply-adds",
        sizes=("n_layers", "d_ff"),
        tolerance=0.03,
        options="damcha_core.config.options:FlopsOptions",
    ),
)


def control_rows() -> tuple[ControlRow, ...]:
    """All controls."""
    return ROWS


def control_row(name: str) -> ControlRow | None:
    """The control of a name, or None where the name is no control."""
    return next((row for row in ROWS if row.name == name), None)


def no_layer(row: ControlRow) -> str:
    """What is said where a layer is asked for by the name of a control."""
    return (
        f"{row.name} is a control, not a layer: {row.attention} in a model whose "
        f"{' and '.join(row.sizes)} give it the {row.quantity} of {row.target}. It can be named in "
        f"a run file and after damcha train --attention; name {row.attention} here"
    )
