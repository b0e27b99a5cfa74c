"""Links between the pages lead somewhere; the citation is one and the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import markdown_page as pages
import pytest

REPOSITORY = pages.REPOSITORY
BIBTEX = (REPOSITORY / "CITATION.bib").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.page_name)
def test_links_lead_to_files_and_headings(path: Path):
    for target in pages.links(path):
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.is_file(), f"{target} leads nowhere"
        assert found.is_relative_to(REPOSITORY)
        if anchor:
            assert anchor in pages.anchors(found), f"{target}: no such heading"


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.page_name)
def test_pages_name_nobodys_machine(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|Users|work)/|localhost|\b\d+\.\d+\.\d+\.\d+\b", text)


def test_the_readme_has_the_bibtex_of_the_citation_file():
    (block,) = pages.blocks_in(REPOSITORY / "README.md", "bibtex")
    assert block.text == BIBTEX


def test_both_citation_files_say_the_same():
    cff = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    title = re.search(r"title += \{(.+)\},", BIBTEX)[1]
    authors = re.search(r"author += \{(.+)\},", BIBTEX)[1].split(" and ")
    assert title in cff
    assert len(authors) == 6
    for author in authors:
        for name in author.strip("{}").split(", "):
            assert name in cff
