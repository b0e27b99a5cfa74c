"""Every Python block and every run file of the README and the documentation works."""

from __future__ import annotations

import re
from pathlib import Path

import markdown_page as pages
import pytest

from damcha_core.config.resolve import resolve
from damcha_core.experiments.suite import load_suite


@pytest.mark.parametrize("path", pages.pages_with("python"), ids=pages.page_name)
def test_the_python_blocks_of_a_page_run_in_its_order(path: Path, desk: Path):
    names: dict[str, object] = {"__name__": "example"}
    for block in pages.blocks_in(path, "python"):
        exec(compile(block.text, pages.page_name(path), "exec"), names)


@pytest.mark.parametrize("path", pages.pages_with("toml"), ids=pages.page_name)
def test_the_run_files_and_suites_of_a_page_are_valid(path: Path, tmp_path: Path):
    for number, block in enumerate(pages.blocks_in(path, "toml")):
        file = tmp_path / f"page-{number}.toml"
        file.write_text(block.text, encoding="utf-8")
        if re.search("^attentions = ", block.text, re.MULTILINE):
            assert load_suite(str(file)).attentions
        else:
            assert resolve(file)


def test_the_quick_start_keeps_the_shape_of_x():
    first = pages.blocks_in(pages.REPOSITORY / "README.md", "python")[0]
    names: dict[str, object] = {}
    exec(first.text, names)
    assert tuple(names["x"].shape) == (2, 16, 128)
    assert names["y"].shape == names["x"].shape
