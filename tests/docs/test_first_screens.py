"""What a newcomer reads first fits one screen, before the details begin."""

from __future__ import annotations

import math
import re
from pathlib import Path

import markdown_page as pages
import pytest

FIRST_READ = [
    pages.REPOSITORY / "docs" / name
    for name in ("index.md", "getting-started.md", "method.md", "experiments.md")
]
SCREEN = 780
"""Pixels below the title bar of a window of 1440 x 900, with the usual letter size."""
LETTERS = 88
"""Of a line of text in the middle column."""


def height(text: str) -> float:
    """About how tall Markdown is on the page, in pixels, as the theme sets it."""
    total = 65.0  # the title of the page
    for block in re.split(r"\n\n+", pages.FENCE.sub("", text).strip()):
        if block.startswith("|"):
            total += 17 + sum(46 for _ in block.split("\n")) - 46
        elif not block.startswith("#"):
            items = re.split(r"\n(?=- )", block)
            lines = sum(math.ceil(len(" ".join(item.split())) / LETTERS) for item in items)
            total += 15 + 25.6 * lines + 8 * (len(items) - 1)
    for match in pages.FENCE.finditer(text):
        if match[1] == "math":
            total += 68 * len(match[3].strip().split("\n\n"))
        else:
            total += 33 + 19 * len(match[3].strip().split("\n"))
    return total


@pytest.mark.parametrize("path", FIRST_READ, ids=pages.page_name)
def test_the_first_screen_comes_before_the_details(path: Path):
    before, _, details = path.read_text(encoding="utf-8").partition("\n## ")
    assert height(before) <= SCREEN
    if path.name != "index.md":
        assert details


def test_a_long_beginning_is_noticed():
    assert height("# Title\n\n" + "a line of text\n\n" * 30) > SCREEN
