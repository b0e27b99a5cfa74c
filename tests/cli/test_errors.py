"""Every error ends with its documented code; a defect of ours keeps its traceback."""

from __future__ import annotations

import errno

import pytest
from command_line import damcha, python

from damcha_core import errors
from damcha_core.config import resolve

CODES = {
    errors.UsageError: 2,
    errors.DataError: 3,
    errors.CheckpointError: 4,
    errors.NonFiniteError: 5,
    errors.OutOfMemoryError: 6,
    errors.DiskError: 7,
}


@pytest.fixture
def failing(monkeypatch):
    """Makes `damcha train` fail in a way."""

    def with_error(error: BaseException) -> None:
        def fail(*_arguments: object, **_options: object) -> None:
            raise error

        monkeypatch.setattr(resolve, "resolve", fail)

    return with_error


@pytest.mark.parametrize(("kind", "code"), CODES.items())
def test_an_error_of_the_users_is_its_text(kind, code, failing) -> None:
    failing(kind("[bold]the thing[/]: the reason\nthe next step"))
    answer = damcha("train")
    answer.refused(code)
    assert answer.err == "error: [bold]the thing[/]: the reason\nthe next step\n"


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)])
def test_a_signal_has_its_own_code(number, code, failing) -> None:
    failing(errors.Interrupted("stopped and saved", number))
    answer = damcha("train")
    assert (answer.code, answer.err, answer.out) == (code, "stopped and saved\n", "")


def test_every_problem_of_the_settings_has_a_line(failing) -> None:
    failing(errors.ConfigError(["one", "two"]))
    answer = damcha("train")
    assert (answer.code, answer.err) == (2, "error: one\nerror: two\n")


def test_ctrl_c_outside_training_is_no_traceback(failing) -> None:
    failing(KeyboardInterrupt())
    answer = damcha("train")
    assert (answer.code, answer.err, answer.out) == (130, "stopped\n", "")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said(number, failing) -> None:
    failing(OSError(number, "no room"))
    damcha("train").refused(7, "no room")


@pytest.mark.parametrize(
    "bug", [ValueError("x"), OSError(errno.EBADF, "x"), AssertionError(), KeyError("x")]
)
def test_a_defect_of_ours_is_not_taken_for_the_users(bug, failing) -> None:
    failing(bug)
    answer = damcha("train")
    assert answer.bug is bug
    assert answer.code == 1


def test_a_defect_of_ours_keeps_its_traceback_and_ends_with_1() -> None:
    program = (
        "import sys\n"
        "from damcha_core.config import resolve\n"
        "def broken(*arguments): raise RuntimeError('a bug of ours')\n"
        "resolve.resolve = broken\n"
        "sys.argv = ['damcha', 'train']\n"
        "from damcha_cli.app import main\n"
        "main()\n"
    )
    answer = python("-c", program)
    assert answer.code == 1
    assert answer.err.startswith("Traceback (most recent call last)")
    assert answer.err.endswith("RuntimeError: a bug of ours\n")
    assert "in broken" in answer.err
