"""Every command line of the README and the documentation runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import markdown_page as pages
import pytest
from tiny_runs import child_environment
from typer.testing import CliRunner

from damcha_cli.app import app

# What is appended to a command so that it takes a second: the first entry found in it counts.
SHORTER = (
    ("--resume", ()),
    ("stop_after_epochs", ("--set", "train.batch_size=650")),
    ("--dry-run", ()),
    (
        "suite run diagnostics",
        ("--only", "recall-damcha-n_pairs4-*", "--set", "train.max_steps=2"),
    ),
    ("suite run", ("--only", "digits-damcha-*", "--set", "train.max_steps=2")),
    (
        "damcha train",
        (
            *("--set", "train.max_steps=2", "--set", "data.verify=false"),
            # A model of two steps would write texts up to its limit.
            *("--set", "eval.beam=1", "--set", "eval.max_new_tokens=2"),
        ),
    ),
    ("damcha profile", ("--lengths", "8,16", "--repeats", "2")),
    ("damcha", ()),
)

# Commands that set up an environment: what the Makefile does in their place, and .ci/run tries.
SET_UP = {
    "python3 -m venv .venv": "$(PYTHON) -m venv $(VENV)",
    ". .venv/bin/activate": "BIN := $(VENV)/bin",
    "pip install -e .": "$(BIN)/python -m pip install -e .",
    'pip install -e ".[dev]"': '$(BIN)/python -m pip install -e ".[dev]"',
    "python -m pytest": "$(BIN)/python -m pytest",
}
MAKEFILE = (pages.REPOSITORY / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
LANGUAGES = {"bash", "bibtex", "math", "python", "text", "toml"}


@pytest.mark.parametrize("path", pages.pages_with("bash"), ids=pages.page_name)
def test_the_commands_of_a_page_run_in_its_order(path: Path, desk: Path):
    for block in pages.blocks(path):
        if block.language == "toml" and block.title:
            (desk / block.title).write_text(block.text, encoding="utf-8")
        for command in pages.commands(block) if block.language == "bash" else []:
            check(command)


def check(command: str) -> None:
    """Run a command of ours; of the others see that the Makefile has them."""
    words = shlex.split(command)
    if words[0] == "make":
        assert set(words[1:]) <= TARGETS, command
    elif command in SET_UP:
        assert SET_UP[command] in MAKEFILE
    elif words[0] == "torchrun":
        short = ("--set", "train.max_steps=2")
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *words[1:], *short],
            env=child_environment(), capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    else:
        assert words[0] == "damcha", f"no test knows how to run: {command}"
        extra = next(extra for part, extra in SHORTER if part in command)
        result = CliRunner().invoke(app, [*words[1:], *extra])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, f"{command}\n{result.output}"


def test_no_block_escapes_by_its_language():
    for path in pages.PAGES:
        for block in pages.blocks(path):
            assert block.language in LANGUAGES, f"{pages.page_name(path)}: {block.text}"


def test_every_exception_is_used():
    used = {
        command
        for path in pages.PAGES
        for block in pages.blocks_in(path, "bash")
        for command in pages.commands(block)
    }
    assert set(SET_UP) <= used


@pytest.mark.parametrize("path", pages.PAGES, ids=pages.page_name)
def test_the_targets_of_make_that_are_named_exist(path: Path):
    assert set(re.findall(r"`make ([a-z]+)`", pages.prose(path))) <= TARGETS


def test_the_readme_shows_what_make_demo_does():
    readme = {
        command
        for block in pages.blocks_in(pages.REPOSITORY / "README.md", "bash")
        for command in pages.commands(block)
    }
    recipe = MAKEFILE.partition("\ndemo:")[2].partition("\ntest:")[0]
    trained = re.findall(r"demo-train-(\w+)", recipe.partition("\n\n")[0])
    assert trained == ["damcha", "mha"]
    ran = re.findall(r"\$\(BIN\)/(damcha .*?)(?: --json)? > ", recipe)
    assert len(ran) == 4
    assert {line.replace("$*", name) for line in ran for name in trained} <= readme
