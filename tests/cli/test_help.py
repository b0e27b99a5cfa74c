"""Help is complete, and opens without the heavy packages."""

from __future__ import annotations

import re

import pytest
from command_line import damcha, python

from damcha_core import __version__
from damcha_core.catalog.attentions import attention_rows
from damcha_core.catalog.tasks import task_rows

HEAVY = {"torch", "torchvision", "numpy", "rich", "PIL", "safetensors", "filelock"}
TYPERS_OWN = {"pydantic"}
"""What newer versions of Typer import themselves to parse the options of a command."""


def imported(report: str) -> set[str]:
    """Top-level packages in the output of -X importtime."""
    names = re.findall(r"^import time:[^|]*\|[^|]*\| +([\w.]+)", report, flags=re.MULTILINE)
    assert "damcha_cli.app" in names, "the report was not understood"
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("arguments", "code", "banned"),
    [
        (("--help",), 0, HEAVY | TYPERS_OWN),
        (("train", "--help"), 0, HEAVY),
        (("suite", "run", "--help"), 0, HEAVY),
        (("profile", "--help"), 0, HEAVY),
        (("train", "--epoch", "3"), 2, HEAVY),
        (("trian",), 2, HEAVY),
    ],
    ids=[
        "help",
        "help of a command",
        "help of a group's command",
        "help of the profiler",
        "mistyped option",
        "mistyped command",
    ],
)
def test_help_and_a_mistyped_line_import_nothing_heavy(arguments, code, banned) -> None:
    answer = python("-X", "importtime", "-m", "damcha_cli", *arguments)
    assert answer.code == code
    assert imported(answer.err) & banned == set()


def test_the_commands_are_listed() -> None:
    commands = damcha("--help").done().out.partition("Commands:")[2]
    listed = re.findall(r"^  ([a-z-]+) ", commands, flags=re.MULTILINE)
    assert listed == [
        *("train", "eval", "generate", "reconstruct", "profile", "export-results", "suite"),
    ]


def test_the_options_of_the_design_are_there() -> None:
    out = damcha("train", "--help").done().out
    for option in (
        *("--task", "--attention", "--config", "--set", "--name", "--out", "--resume", "--device"),
        *("--seed", "--epochs", "--batch-size", "--lr", "--precision", "--dry-run", "--json"),
    ):
        assert f" {option} " in out
    words = re.sub(r"\s+", " ", out).replace("- ", "-")
    for row in (*task_rows(), *attention_rows()):
        assert row.name in words


def test_no_command_is_a_question_and_shows_the_help() -> None:
    answer = damcha()
    assert "Usage: " in answer.out + answer.err
    assert "Traceback" not in answer.err


def test_the_version_is_that_of_the_package() -> None:
    assert damcha("--version").done().out == f"damcha {__version__}\n"
