"""Tables as LaTeX that needs no package: plain tabular in the article class."""

from __future__ import annotations

import re

from damcha_core.experiments.export.sections import reader_tables
from damcha_core.experiments.export.table import Column, Entry, Table
from damcha_core.experiments.results.study_report import StudyReport

ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "`": r"\char96{}",
    "'": r"\char39{}",
    "[": "{[}",
    "]": "{]}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "×": r"$\times$",
}
"""What stands for a character. Square brackets would begin an option after a line break."""

ARROWS = {"": "", "higher": " ↑", "lower": " ↓"}
NOT_IN_THE_FONT = "×÷ÐÞðþ"
MOST_ROWS = 40
"""Rows of a table on one page."""
STANDALONE = "\\documentclass{article}\n\\begin{document}\n%s\\end{document}\n"


def escape(text: str) -> str:
    """Text as LaTeX that shows it, on one line.

    Args:
        text: any characters.

    Returns:
        ASCII and the accented letters of Latin-1. Any other character is given by its number,
        such as [U+4E2D], because the plain article class has no sign for it.
    """
    escaped = "".join(_escaped(letter) for letter in " ".join(text.split()))
    # Two hyphens would become a dash.
    return re.sub("-(?=-)", "-{}", escaped)


def _escaped(letter: str) -> str:
    if letter in ESCAPES:
        return ESCAPES[letter]
    if " " <= letter <= "~":
        return letter
    if "À" <= letter <= "ÿ" and letter not in NOT_IN_THE_FONT:
        return letter
    return f"{{[}}U+{ord(letter):04X}{{]}}"


def _entry(entry: Entry) -> str:
    text = escape(entry.text)
    return f"\\textbf{{{text}}}" if entry.best else text


def _heading(column: Column) -> str:
    return escape(column.title + ARROWS[column.better])


def table_text(table: Table) -> str:
    """A table with its caption above and its notes below, in parts where it is long.

    Args:
        table: any.

    Returns:
        Lines that end in a line break.
    """
    starts = range(0, max(1, len(table.rows)), MOST_ROWS)
    return "".join(_part(table, start, len(starts)) for start in starts)


def _part(table: Table, start: int, n_parts: int) -> str:
    number = start // MOST_ROWS + 1
    label = re.sub("[^A-Za-z0-9-]", "-", table.name) + (f"-{number}" if n_parts > 1 else "")
    caption = table.title + (f" ({number} of {n_parts})" if n_parts > 1 else "")
    layout = "".join("l" if column.is_text else "r" for column in table.columns)
    rows = [" & ".join(map(_heading, table.columns)) + r" \\ \hline"]
    rows += [" & ".join(map(_entry, row)) + r" \\" for row in table.rows[start : start + MOST_ROWS]]
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{escape(caption)}}}",
        rf"\label{{tab:{label}}}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3pt}",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\hline",
        *rows,
        r"\hline",
        r"\end{tabular}",
    ]
    if table.notes and number == n_parts:
        notes = "\\par\n".join(escape(note) for note in table.notes)
        lines += [r"\par\smallskip", rf"\begin{{minipage}}{{\linewidth}}\raggedright {notes}", ""]
        lines += [r"\end{minipage}"]
    lines.append(r"\end{table}")
    # LaTeX holds few tables back; a page break now and then lets it set them.
    return "\n".join(lines) + "\n\\clearpage\n"


def commands_text(report: StudyReport) -> str:
    """How each run is made again, as paragraphs that may break at spaces."""
    commands = [cell.command for cell in report.study.cells if cell.command]
    if not commands:
        return ""
    lines = [r"\begingroup\raggedright\footnotesize"]
    lines += [rf"\noindent\texttt{{{escape(command)}}}\par" for command in commands]
    return "\n".join(lines) + "\n\\endgroup\n"


def latex(report: StudyReport, *, standalone: bool = False) -> str:
    r"""A study as LaTeX.

    Args:
        report: of a study.
        standalone: a document of its own; otherwise what \input{} puts into another one.

    Returns:
        The text; it needs no package.
    """
    text = "".join(table_text(table) for table in reader_tables(report)) + commands_text(report)
    return STANDALONE % text if standalone else text
