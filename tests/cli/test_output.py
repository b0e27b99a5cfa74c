"""The one printer: tables that keep every digit, at any width."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from damcha_cli import output
from damcha_cli.report import heading

COLUMNS = ["", "masked_mse", "a long\nname"]
SECTIONS = [["[bold]x[/]", "0.123456", "1"], [":smile:", "2", "-"]], [["unit", "dB", "one\ntwo"]]


@pytest.fixture
def terminal(monkeypatch):
    """Makes stdout a terminal of some columns."""

    def of_width(columns: int) -> None:
        def console(*, stderr: bool = False) -> Console:
            return Console(force_terminal=True, width=columns, markup=False, highlight=False)

        monkeypatch.setattr(output, "console", console)

    return of_width


def test_off_a_terminal_a_table_is_as_wide_as_its_content(capsys) -> None:
    name = "a run name of many letters " * 9
    output.print_table("title", COLUMNS, [[name, "0.123456", "1"]])
    out = capsys.readouterr().out
    assert name.rstrip() in out
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_text_of_the_users_is_no_markup(capsys) -> None:
    output.print_table("[red]title", COLUMNS, *SECTIONS)
    out = capsys.readouterr().out
    for text in ("[red]title", "[bold]x[/]", ":smile:"):
        assert text in out


def test_a_terminal_that_is_wide_enough_gets_the_table(capsys, terminal) -> None:
    terminal(60)
    output.print_table("title", COLUMNS, *SECTIONS)
    out = capsys.readouterr().out
    assert "─" in out
    assert "0.123456" in out


def test_a_narrow_terminal_gets_a_list_with_every_digit(capsys, terminal) -> None:
    terminal(20)
    output.print_table("title", COLUMNS, *SECTIONS)
    assert capsys.readouterr().out.splitlines() == [
        *("title", "[bold]x[/]", "  masked_mse 0.123456", "  a longname 1"),
        *(":smile:", "  masked_mse 2", "  a longname -"),
        *("unit", "  masked_mse dB", "  a longname one two"),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0.00000"),
        (0.030001, "0.03000"),
        (-0.5, "-0.50000"),
        (14.50753, "14.5075"),
        (100.0, "100.0000"),
        (2.118e-16, "2.118e-16"),
        (1.5e9, "1.5e+09"),
    ],
)
def test_scores_have_digits_where_they_matter(value, text) -> None:
    assert output.score(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (119, "119.0 s"), (150, "2.5 min"), (9000, "2.5 h")]
)
def test_durations_are_said_as_a_person_would(seconds, text) -> None:
    assert output.duration(seconds) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("psnr", "psnr"),
        ("masked_psnr", "masked_psnr"),
        ("masked_mean_absolute_error", "masked_mean_\nabsolute_\nerror"),
    ],
)
def test_long_metric_names_are_folded_at_their_words(name, text) -> None:
    assert heading(name) == text


def test_json_cannot_hold_a_number_that_is_none() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        output.print_json({"value": float("nan")})


def test_work_goes_on_where_stderr_cannot_be_written(monkeypatch, capsys) -> None:
    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    output.notice("one")
    output.notice("two")
    sys.stderr.close()
    output.say("result")
    assert capsys.readouterr().out == "result\n"
