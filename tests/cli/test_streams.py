"""Output that goes to odd places: pipes that close, terminals that cannot, no terminal at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import child_environment, python

NEEDS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
TABLE = (
    "from damcha_cli.app import prepare_streams\n"
    "from damcha_cli.output import notice, print_pairs, print_table\n"
    "prepare_streams()\n"
    "notice('ü 😀')\n"
    "print_pairs({'run': 'ü 😀 [bold]x[/]'})\n"
    "print_table('scores', ['', 'masked_mse'], [['ü', '0.123456']])\n"
)


def script(program: str) -> Path:
    """A program as a file, which every locale can name."""
    path = Path("program.py")
    path.write_text(program, encoding="utf-8")
    return path


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line in bash; $DAMCHA is the program."""
    program = f'"{sys.executable}" -m damcha_cli'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("$DAMCHA", program)],
        env=child_environment(**environment),
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        "$DAMCHA --version >&-",
        "$DAMCHA --version >&- 2>&-",
        "$DAMCHA --help <&- >&- 2>&-",
        "$DAMCHA --help > /dev/null",
        pytest.param("$DAMCHA --version 2> /dev/full", marks=NEEDS_FULL),
    ],
)
def test_closed_streams_are_no_error(command) -> None:
    done = shell(command)
    assert done.returncode == 0
    assert done.stderr == b""


@pytest.mark.parametrize("arguments", ["--help", "--version"])
def test_a_reader_that_leaves_is_no_error(arguments) -> None:
    # The pipe is closed before the program starts, so that it cannot win the race.
    done = shell(f"(sleep 0.5; $DAMCHA {arguments}) | true")
    assert (done.returncode, done.stderr) == (0, b"")


@NEEDS_FULL
def test_a_full_disk_under_stdout_has_its_code() -> None:
    program = (
        "import sys\n"
        "from damcha_core.config import resolve\n"
        "import damcha_cli.output\n"
        "resolve.resolve = lambda *_: damcha_cli.output.say('result')\n"
        "from damcha_cli.commands import train\n"
        "train._start = lambda *_: None\n"
        "sys.argv = ['damcha', 'train']\n"
        "from damcha_cli.app import main\n"
        "main()\n"
    )
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=child_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 7
    assert done.stderr.startswith(b"error: the disk is full")


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_what_a_stream_cannot_encode_is_escaped(environment) -> None:
    answer = python(script(TABLE), **environment)
    assert (answer.code, answer.err.count("\n")) == (0, 1)
    assert "0.123456" in answer.out
    assert "[bold]x[/]" in answer.out
    assert "\\U0001f600" in answer.out + answer.err or "\\udcf0" in answer.out


@pytest.mark.parametrize(
    "environment", [{"COLUMNS": "40"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=str
)
def test_off_a_terminal_the_environment_cuts_nothing(environment) -> None:
    answer = python(script(TABLE.replace("'0.123456'", "'0.123456' * 20")), **environment)
    assert answer.code == 0
    assert "0.123456" * 20 in answer.out
    assert "\x1b" not in answer.out


def read_terminal(columns: int, *command: str, **environment: str) -> str:
    """Output of a command whose streams are a terminal of some columns."""
    import pty

    controller, terminal = pty.openpty()
    variables = child_environment(COLUMNS=str(columns), **environment)
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=variables
    )
    os.close(terminal)
    chunks = []
    try:
        while chunk := os.read(controller, 65536):
            chunks.append(chunk)
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(controller)
    assert process.wait(60) == 0
    return b"".join(chunks).decode("utf-8").replace("\r\n", "\n")


def test_a_terminal_gets_style_and_one_without_colour_gets_none() -> None:
    digits = "0.1234567890123456789012345678901234567890"
    program = (sys.executable, str(script(TABLE.replace("0.123456", digits))))
    styled = read_terminal(100, *program, TERM="xterm-256color", NO_COLOR="")
    assert "\x1b[1mscores" in styled
    assert "─" in styled
    narrow = read_terminal(40, *program, TERM="xterm-256color", NO_COLOR="1")
    assert f"  masked_mse {digits}\n" in narrow
    assert "\x1b[3" not in narrow
    assert "\x1b" not in read_terminal(100, *program, TERM="dumb", NO_COLOR="")


def test_a_whole_command_works_at_the_poorest_of_terminals(digits_run) -> None:
    environment = {
        **{"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TERM": "dumb", "NO_COLOR": "1"},
        **{"COLUMNS": "40", "MPLBACKEND": "TkAgg", "DISPLAY": "nowhere:9"},
    }
    command = f"unset HOME; exec $DAMCHA reconstruct '{digits_run}' --out grid.png --count 2"
    done = shell(command, **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    out = done.stdout.decode("ascii")
    assert "mean training picture" in out
    assert "grid.png" in out
    assert Path("grid.png").is_file()
