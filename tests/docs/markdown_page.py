"""The pages a reader sees, cut into what the tests look at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    title: str
    text: str


def page_name(path: Path) -> str:
    """Path of a page as a test's id."""
    return path.relative_to(REPOSITORY).as_posix()


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = FENCE.finditer(path.read_text(encoding="utf-8"))
    return [Block(match[1], match[2] or "", match[3]) for match in found]


def blocks_in(path: Path, language: str) -> list[Block]:
    """The blocks of one language."""
    return [block for block in blocks(path) if block.language == language]


def commands(block: Block) -> list[str]:
    """The command lines of a block; a backslash at the end of a line joins the next one."""
    return [line.strip() for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def links(path: Path) -> list[str]:
    """Targets of the links of a page that lead to files of the repository."""
    targets = LINK.findall(prose(path))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(path: Path) -> set[str]:
    """Anchors that the headings of a page get."""
    return {slug(heading) for heading in HEADING.findall(prose(path))}


def slug(heading: str) -> str:
    """Anchor of a heading, as MkDocs and GitHub make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def pages_with(language: str) -> list[Path]:
    """Pages that have a block of a language."""
    return [path for path in PAGES if blocks_in(path, language)]
