"""docs/reference/attentions.md, from the attention catalogue."""

from __future__ import annotations

from damcha_core.catalog.attentions import AttentionRow, attention_rows
from damcha_core.catalog.controls import ControlRow, control_rows
from damcha_core.config.controls import as_built
from damcha_core.config.resolve import resolve_mapping
from damcha_core.config.values import shown
from reference_pages.table import code, table

D_MODEL, N_HEADS, N_LAYERS, N_TOKENS = 128, 8, 4, 64

INTRODUCTION = f"""\
# Attentions

What `attention.name` and `--attention` accept. In Python, `TransformerPC(..., attention=...)`,
`build_attention` and `replace_attention` accept the same names but for the
[controls](#controls). The numbers are those of the attentions in a stack of the published
quick-start size: d_model {D_MODEL}, {N_HEADS} heads, {N_LAYERS} layers. Everything else in the
stack is the same for all of them. The mathematics, and what each structure really restricts, is in
[Method](../method.md).

- **parameters**: the exact number of attention parameters.
- **multiply-adds a token**: of a forward pass through all attentions, for sequences of {N_TOKENS}
  tokens (the patches of a CIFAR-10 picture). The matrix products are counted, as torch's
  `FlopCounterMode` counts them at two operations each; softmax and other pointwise work are not. A
  causal layer is charged for all pairs of tokens.

`damcha` and `damcha-block-diagonal` are one function class. They differ in the step size of one
layer alone, so a difference between their scores is a difference of step sizes."""

CONTROLS = """\
## Controls

A control is no layer. It is `mha` in a model of another size, so that a comparison with `damcha` is
one at equal size or at equal cost. It takes the run file of a `damcha` run, its options included,
under another `attention.name`, and chooses its sizes when the file is read. The run folder's
`run.toml` keeps both: `[model]` is that of the `damcha` it is matched to, `matched_d_ff` and
`matched_n_layers` are what the control is built with
([Method](../method.md#controls-of-equal-size-and-of-equal-cost)). The sizes in the table are those
for `cifar10`."""

SETTINGS = {"run": {"task": "cifar10"}}
"""The task of the quick-start size that the controls are shown for."""


def attentions_page() -> str:
    """The page: one table of all rows, then each family by itself, then the controls."""
    families: dict[str, list[AttentionRow]] = {}
    for row in attention_rows():
        families.setdefault(row.builder, []).append(row)
    columns = ["name", "what it is", "parameters", "multiply-adds a token", "causal"]
    rows = [
        [
            code(row.name),
            row.summary,
            f"{row.parameters(D_MODEL, N_HEADS, N_LAYERS, {}):,}",
            multiply_adds(row, is_causal=False),
            multiply_adds(row, is_causal=True),
        ]
        for row in attention_rows()
    ]
    sections = [family_section(members) for members in families.values()]
    return "\n\n".join([INTRODUCTION, table(columns, rows), *sections, controls_section()])


def multiply_adds(row: AttentionRow, *, is_causal: bool) -> str:
    """Multiply-adds of a forward pass for one token, as text."""
    count = row.multiply_adds(
        D_MODEL, N_HEADS, N_LAYERS, {}, n_tokens=N_TOKENS, is_causal=is_causal
    )
    return f"{count / N_TOKENS:,.0f}"


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
    if first.head_multiple > 1:
        facts.insert(3, f"- The number of heads has to be a multiple of {first.head_multiple}.")
    columns = ["name", "formula"]
    cells = [[code(row.name), code(row.formula)] for row in rows]
    if any(row.preset for row in rows):
        columns.append("fixes")
        for row, line in zip(rows, cells, strict=True):
            line.append(", ".join(f"`{key} = {shown(v)}`" for key, v in row.preset.items()))
    return "\n\n".join([f"## {first.name}", "\n".join(facts), table(columns, cells)])


def controls_section() -> str:
    """What the controls match, and the sizes that they come to."""
    columns = ["name", "what it is", "within", "here", "here, causal"]
    rows = [
        [
            code(row.name),
            row.summary,
            f"{row.tolerance:.0%}",
            sizes(row, is_causal=False),
            sizes(row, is_causal=True),
        ]
        for row in control_rows()
    ]
    return f"{CONTROLS}\n\n{table(columns, rows)}"


def sizes(row: ControlRow, *, is_causal: bool) -> str:
    """The sizes that a control is built with, as text."""
    settings = {**SETTINGS, "model": {"causal": is_causal}, "attention": {"name": row.name}}
    model = as_built(resolve_mapping(settings)).model
    return ", ".join(f"{key} {getattr(model, key):,}" for key in row.sizes)


def yes(value: bool) -> str:
    """A bool in words."""
    return "yes" if value else "no"
