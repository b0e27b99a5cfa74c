"""docs/reference/attentions.md, from the attention catalogue."""

from __future__ import annotations

from damcha_core.catalog.attentions import AttentionRow, attention_rows
from damcha_core.config.values import shown
from reference_pages.table import code, table

D_MODEL, N_HEADS, N_LAYERS = 128, 8, 4

INTRODUCTION = f"""\
# Attentions

What `attention.name`, `--attention` and `TransformerPC(..., attention=...)` accept. The last
column is the exact number of attention parameters in a stack of the published quick-start size
(d_model {D_MODEL}, {N_HEADS} heads, {N_LAYERS} layers); everything else in the stack is the same
for all of them. The mathematics, and what each structure really restricts, is in
[Method](../method.md).

`damcha` and `damcha-block-diagonal` are one function class. They differ in the step size of one
layer alone, so a difference between their scores is a difference of step sizes."""


def attentions_page() -> str:
    """The page: one table of all rows, then each family by itself."""
    families: dict[str, list[AttentionRow]] = {}
    for row in attention_rows():
        families.setdefault(row.builder, []).append(row)
    rows = [
        [code(row.name), row.summary, f"{row.parameters(D_MODEL, N_HEADS, N_LAYERS, {}):,}"]
        for row in attention_rows()
    ]
    sections = [family_section(members) for members in families.values()]
    return "\n\n".join([INTRODUCTION, table(["name", "what it is", "parameters"], rows), *sections])


def family_section(rows: list[AttentionRow]) -> str:
    """Formulas, source and licence of a layer and of its presets."""
    first = rows[0]
    facts = [
        f"- Source: {first.source}.",
        f"- Licence: {first.licence}.",
        f"- Causal: {yes(first.causal)}. Decoding can keep a state: {yes(first.cacheable)}.",
        f"- Built by `{first.builder}`, checked against `{first.reference}`.",
        "- Options: "
        + ("see [the run file](run-file.md#attention)." if first.options else "none."),
    ]
    columns = ["name", "formula"]
    cells = [[code(row.name), code(row.formula)] for row in rows]
    if any(row.preset for row in rows):
        columns.append("fixes")
        for row, line in zip(rows, cells, strict=True):
            line.append(", ".join(f"`{key} = {shown(v)}`" for key, v in row.preset.items()))
    return "\n\n".join([f"## {first.name}", "\n".join(facts), table(columns, cells)])


def yes(value: bool) -> str:
    """A bool in words."""
    return "yes" if value else "no"
