"""Tables as Markdown."""

from __future__ import annotations

import re

from damcha_core.experiments.export.sections import reader_tables
from damcha_core.experiments.export.table import Column, Entry, Table
from damcha_core.experiments.results.study_report import StudyReport

ARROWS = {"": "", "higher": " ↑", "lower": " ↓"}
SPECIAL = re.compile(r"[\\`*{}\[\]<>#|&~$^]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown or its usual extensions could read as markup; an underscore within a word is
none."""


def escape(text: str) -> str:
    """Text as Markdown that shows it, on one line."""
    return SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def code(text: str) -> str:
    """Text as a span of code, on one line."""
    text = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{edge}{text}{edge}{fence}" if text else ""


def _entry(entry: Entry) -> str:
    return f"**{escape(entry.text)}**" if entry.best else escape(entry.text)


def _heading(column: Column) -> str:
    return escape(column.title) + ARROWS[column.better]


def table_text(table: Table, level: int = 2) -> str:
    """A table under its heading, with its notes below.

    Args:
        table: any.
        level: of the heading.

    Returns:
        Lines that end in a line break.
    """
    head = [_heading(column) for column in table.columns]
    body = [[_entry(entry) for entry in row] for row in table.rows]
    widths = [max(3, *(len(row[i]) for row in [head, *body])) for i in range(len(head))]
    rules = [
        "-" * width if column.is_text else "-" * (width - 1) + ":"
        for column, width in zip(table.columns, widths, strict=True)
    ]
    lines = [f"{'#' * level} {escape(table.title)}", ""]
    for row in [head, rules, *body]:
        padded = [
            cell.ljust(width) if column.is_text else cell.rjust(width)
            for cell, column, width in zip(row, table.columns, widths, strict=True)
        ]
        lines.append(f"| {' | '.join(padded)} |")
    if table.notes:
        lines += ["", *(f"- {escape(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def markdown(report: StudyReport, *, title: str = "Results", level: int = 1) -> str:
    """A study as a Markdown document.

    Args:
        report: of a study.
        title: of the document.
        level: of its heading.

    Returns:
        The document; its last part says how each run is made again.
    """
    parts = [f"{'#' * level} {escape(title)}\n"]
    if report.study.summary:
        parts.append(escape(report.study.summary) + "\n")
    parts += [table_text(table, level + 1) for table in reader_tables(report)]
    commands = [f"- {code(cell.command)}\n" for cell in report.study.cells if cell.command]
    if commands:
        head = f"{'#' * (level + 1)} Commands\n\nEach makes its run in the folder of the study.\n\n"
        parts.append(head + "".join(commands))
    return "\n".join(parts)
