"""Writes the pages of docs/reference/ that follow from the code.

    python scripts/build_reference.py            write them
    python scripts/build_reference.py --check    exit 1 and name the pages that are out of date

The tests run the same check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from reference_pages.attentions import attentions_page
from reference_pages.cli import cli_page
from reference_pages.run_file import run_file_page

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "attentions.md": attentions_page,
    "cli.md": cli_page,
    "run-file.md": run_file_page,
}
MARK = "<!-- Written from the code by scripts/build_reference.py; to renew it: make reference -->"


def page(name: str) -> str:
    """The text of a page as it should be."""
    return f"{MARK}\n\n{PAGES[name]()}\n"


def outdated() -> list[str]:
    """Names of the pages that differ from what the code says."""
    return [name for name in PAGES if stored(name) != page(name)]


def stored(name: str) -> str | None:
    """The text of a page as it is; None when there is no such file."""
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(arguments: Sequence[str]) -> None:
    """Write the pages, or check them."""
    if list(arguments) == ["--check"]:
        if outdated():
            names = ", ".join(outdated())
            sys.exit(f"out of date in docs/reference: {names}; write them with: make reference")
        return
    if arguments:
        sys.exit(f"unknown arguments {' '.join(arguments)}; give --check or nothing")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        (FOLDER / name).write_text(page(name), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
