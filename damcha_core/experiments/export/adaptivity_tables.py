"""What the generated metrics do, from adaptivity.json: for programs and for a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from damcha_core.experiments.export.table import (
    Column,
    Entry,
    Table,
    plain_table,
    significant,
    words,
)
from damcha_core.experiments.results.plain_json import mapping_in, number_in, text_in
from damcha_core.experiments.results.study_report import StudyReport

TITLE = "What the metrics m_i do"
RUN_HEAD = ("run_folder", "task", "attention", "seed", "quantity", "value")
HEAD_QUANTITIES = (
    "explained_share",
    "explained_share_of_change",
    "length_share_of_change",
    "input_deviation",
    "mean_norm",
    "change_norm",
    "symmetric_norm",
    "antisymmetric_norm",
    "symmetric_share",
    "largest_score",
    "singular_values",
    "mean_singular_values",
)
SHOWN = (
    ("explained_share_mean", "explained by the input"),
    ("explained_share_largest", "at most"),
    ("symmetric_share_mean", "symmetric"),
    ("largest_singular_value", "largest singular value"),
    ("largest_score", "largest |score|"),
    ("swap_metric_own", "own"),
    ("swap_metric_swapped", "swapped"),
    ("swap_loss_difference", "loss by the swap"),
    ("swap_loss_standard_error", "standard error"),
)
"""What a reader is shown of a run, and its title."""
NOTES = (
    "Explained by the input: share of the variance of m_i that differs from sequence to sequence, "
    "the mean over layers and heads, and the most of a head.",
    "Symmetric: share of the squared norm of the mean m_i that its symmetric part holds, the mean "
    "over layers and heads; the singular values are of the mean m_i too.",
    "Own and swapped: the metric of the run when every sequence has its own m_i, and those of "
    "another sequence. Where the swap adds no loss, the adaptation is idle.",
)


def adaptivity(report: StudyReport) -> Table:
    """A row a run and quantity, for runs whose metrics were looked at."""
    rows = [
        [cell.id, cell.task, cell.attention, cell.seed, quantity, value]
        for cell in report.study.cells
        for quantity, value in run_numbers(cell.adaptivity)
    ]
    return plain_table("adaptivity", TITLE, list(RUN_HEAD), rows)


def adaptivity_heads(report: StudyReport) -> Table:
    """A row a run, layer and head."""
    rows = [
        [cell.id, cell.task, cell.attention, cell.seed, layer, head["head"]]
        + [head.get(name) for name in HEAD_QUANTITIES]
        for cell in report.study.cells
        for layer, head in heads(cell.adaptivity)
    ]
    columns = ["run_folder", "task", "attention", "seed", "layer", "head", *HEAD_QUANTITIES]
    return plain_table("adaptivity-heads", f"{TITLE}, head by head", columns, rows)


def run_numbers(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Names and values of what adaptivity.json says of a run as a whole."""
    for key, value in mapping_in(record, "summary").items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{key}_")
        else:
            yield from _numbers({key: value})
    found = [head for _, head in heads(record)]
    shares = [head["symmetric_share"] for head in found if "symmetric_share" in head]
    if shares:
        yield "symmetric_share_mean", sum(shares) / len(shares)
    values = [
        float(value)
        for head in found
        for value in _listed(head.get("singular_values"))
        if isinstance(value, int | float)
    ]
    if values:
        yield "largest_singular_value", max(values)
        yield "smallest_singular_value", min(values)
    swap = mapping_in(record, "swap")
    for part in ("metric", "loss"):
        yield from _numbers(mapping_in(swap, part), f"swap_{part}_")


def heads(record: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number of the layer, and what is said of a head, with the share of its symmetric part."""
    for layer in _listed(record.get("layers")):
        number = number_in(layer, "layer")
        if number is None:
            continue
        for head in _listed(layer.get("heads")):
            if number_in(head, "head") is None:
                continue
            share = symmetric_share(head)
            yield int(number), head if share is None else {**head, "symmetric_share": share}


def symmetric_share(head: Mapping[str, Any]) -> float | None:
    """Share of the squared norm that the symmetric part holds; the two parts are orthogonal."""
    symmetric = number_in(head, "symmetric_norm")
    antisymmetric = number_in(head, "antisymmetric_norm")
    if symmetric is None or antisymmetric is None:
        return None
    whole = symmetric**2 + antisymmetric**2
    return symmetric**2 / whole if whole else None


def adaptivity_table(report: StudyReport) -> Table | None:
    """What a reader is shown: a row a run."""
    cells = report.study.cells
    found = {cell.id: dict(run_numbers(cell.adaptivity)) for cell in cells}
    found = {name: numbers for name, numbers in found.items() if numbers}
    if not found:
        return None
    shown = [(key, title) for key, title in SHOWN if any(key in n for n in found.values())]
    columns = [Column("run_folder", "run", is_text=True), Column("metric", "metric", is_text=True)]
    columns += [Column(key, title) for key, title in shown]
    named = {c.id: text_in(mapping_in(c.adaptivity.get("swap"), "metric"), "name") for c in cells}
    rows = [
        (
            words(name),
            words(named[name]),
            *(Entry(significant(n.get(key)), n.get(key)) for key, _ in shown),
        )
        for name, n in found.items()
    ]
    return Table("adaptivity", TITLE, tuple(columns), tuple(rows), NOTES)


def _numbers(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key in values:
        number = number_in(values, key)
        if number is not None:
            yield f"{prefix}{key}", number


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
