"""The one place that prints: results on stdout, everything else on stderr.

Text of the user's (names, paths, errors) is never read as markup. Off a terminal a table is as
wide as its content, so that a log file keeps every digit; on a terminal too narrow for it, it
becomes a list.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE = 10_000
"""Columns assumed where the output is no terminal."""

Row = Sequence[str]


def say(text: str = "") -> None:
    """A line of the result, on stdout."""
    _write(sys.stdout, text)


def notice(text: str) -> None:
    """A line the user should see, on stderr; work goes on where stderr cannot be written."""
    try:
        _write(sys.stderr, text)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it stays until the end)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()


def print_json(value: Any) -> None:
    """Indented JSON on stdout."""
    say(json.dumps(value, indent=2, allow_nan=False))


def plain_lines() -> None:
    """Make stdout UTF-8 whatever the locale, because what follows is data for other programs."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def print_record(value: Any) -> None:
    """JSON on one line of stdout."""
    say(json.dumps(value, allow_nan=False, ensure_ascii=False))


def print_pairs(pairs: Mapping[str, str]) -> None:
    """Names and values on stdout, one a line; values are never cut."""
    width = max(len(name) for name in pairs)
    for name, value in pairs.items():
        say(f"{name.ljust(width)}  {value}")


def print_table(title: str, columns: Row, *sections: Sequence[Row]) -> None:
    """A table on stdout; the first column is text, the others are aligned right.

    Args:
        title: the line above it.
        columns: names; one may have several lines.
        sections: groups of rows, a line between two groups.
    """
    terminal = console()
    table = _table(columns, sections)
    wide = terminal.options.update(width=WIDE)
    if terminal.is_terminal and terminal.measure(table, options=wide).maximum > terminal.width:
        _print_list(title, columns, sections)
        return
    from rich.text import Text

    with terminal.capture() as captured:
        terminal.print(Text(title, style="bold"))
        terminal.print(table)
    # rich fills every line up with spaces, which a log file has no use for.
    say("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _table(columns: Row, sections: Sequence[Sequence[Row]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if number == 0 else "right", no_wrap=True)
    for rows in sections:
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        table.add_section()
    return table


def _print_list(title: str, columns: Row, sections: Sequence[Sequence[Row]]) -> None:
    names = [column.replace("\n", "") for column in columns]
    say(title)
    for row in [row for rows in sections for row in rows]:
        say(row[0])
        for name, cell in zip(names[1:], row[1:], strict=True):
            if cell:
                say(f"  {name} {' '.join(cell.split())}")


def console(*, stderr: bool = False) -> Console:
    """A rich console that neither wraps off a terminal nor reads markup."""
    from rich.console import Console

    plain = Console(stderr=stderr)
    width = None if plain.is_terminal else WIDE
    return Console(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


def number(value: float | None) -> str:
    """A loss or a count of seconds: six significant digits, a dash where there is none."""
    return "-" if value is None else f"{value:.6g}"


def score(value: float | None) -> str:
    """A score for a column of a table, whose values are of about one size."""
    if value is None:
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1:
        return f"{value:.5f}"
    return f"{value:.4f}" if 1 <= abs(value) < 1e6 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
