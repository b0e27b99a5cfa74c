"""Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines)


def cell(text: str) -> str:
    """Text that stays inside its cell."""
    return text.replace("|", r"\|").replace("\n", " ")


def code(text: str) -> str:
    """Text as code; nothing for nothing."""
    return f"`{text}`" if text else ""
