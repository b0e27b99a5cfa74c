"""The table that every format is written from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Better = Literal["", "lower", "higher"]
Value = str | int | float | None

SIGNIFICANT_DIGITS = 4
MOST_DECIMALS = 8
NOTHING = "-"


@dataclass(frozen=True)
class Column:
    """What stands above a column.

    Attributes:
        key: its name in CSV and JSON.
        title: its name for a reader.
        better: which way values are better; empty where neither is.
        is_text: whether it holds words.
    """

    key: str
    title: str
    better: Better = ""
    is_text: bool = False


@dataclass(frozen=True)
class Entry:
    """One place of a table.

    Attributes:
        text: for a reader, plain text of any characters.
        value: for a program; None where there is none.
        best: whether it is marked as the best of its column.
    """

    text: str
    value: Value = None
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A table without a format.

    Attributes:
        name: for files and labels: lower-case words with hyphens.
        title: for a reader.
        columns: what stands above.
        rows: one entry a column each.
        notes: what has to be known to read it.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()


def words(text: str) -> Entry:
    """An entry that is its own text."""
    return Entry(text, text)


def count(value: int | None) -> Entry:
    """A whole number, with commas for a reader."""
    return Entry(NOTHING if value is None else f"{value:,}", value)


def decimals_for(values: Iterable[float | None]) -> int:
    """Decimals that show the largest of some values with SIGNIFICANT_DIGITS digits.

    Args:
        values: of one column; None is left out.

    Returns:
        0 to MOST_DECIMALS, the same for the whole column, so that its values line up.
    """
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if largest == 0:
        return SIGNIFICANT_DIGITS - 1
    place = math.floor(math.log10(largest))
    return min(MOST_DECIMALS, max(0, SIGNIFICANT_DIGITS - 1 - place))


def fixed(value: float | None, decimals: int) -> str:
    """A number with so many decimals, never a negative zero; a dash for None."""
    if value is None:
        return NOTHING
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def significant(value: float | None, digits: int = SIGNIFICANT_DIGITS) -> str:
    """A number with so many significant digits; a dash for None."""
    return NOTHING if value is None else f"{value:.{digits}g}"


def mark_best(entries: Sequence[Entry], shown: Sequence[str | None], better: Better) -> list[Entry]:
    """Entries of a column with the best of them marked.

    Values that are shown alike are marked alike, because a reader sees them as equal.

    Args:
        entries: the column.
        shown: the number that a reader sees in each entry; None where it takes no part.
        better: which way is better; empty marks nothing.

    Returns:
        The entries, marked if at least two take part.
    """
    numbers = [None if text is None else float(text) for text in shown]
    present = [number for number in numbers if number is not None]
    if not better or len(present) < 2:
        return list(entries)
    best = min(present) if better == "lower" else max(present)
    return [
        replace(entry, best=number == best) for entry, number in zip(entries, numbers, strict=True)
    ]


def plain(value: Any) -> Entry:
    """A stored value; lists and objects as JSON."""
    if value is None or isinstance(value, str | int | float):
        return Entry("" if value is None else str(value), value)
    return words(json.dumps(value, ensure_ascii=False, sort_keys=True))


def plain_table(name: str, title: str, columns: list[str], rows: list[list[Any]]) -> Table:
    """A table for programs: one row a fact, every number as it is stored."""
    return Table(
        name,
        title,
        tuple(Column(key, key.replace("_", " ")) for key in columns),
        tuple(tuple(plain(value) for value in row) for row in rows),
    )
