"""A path that cannot even be looked at is the user's to mend: one line and the documented code."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from typer.testing import CliRunner

from damcha_cli.app import app
from damcha_core.data import picture_files
from damcha_core.errors import DataError

OVERLONG = "x" * 300


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["eval", OVERLONG], 4),
        (["train", "--resume", OVERLONG], 4),
        (["train", "--task", "images", "--set", f"data.root={OVERLONG}"], 3),
        (["train", "--task", "cifar10", "--set", f"data.root={OVERLONG}"], 3),
        (["eval", OVERLONG, "--checkpoint", "9" * 5000], 4),
    ],
)
def test_an_overlong_name_is_refused_plainly(words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_entered_is_no_smaller_data_set(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir()

    def walk(folder, **options):
        options["onerror"](OSError(errno.EACCES, "Permission denied", str(Path(folder, "locked"))))
        yield str(folder), [], []

    monkeypatch.setattr(picture_files.os, "walk", walk)
    with pytest.raises(DataError, match=r"locked: cannot be read: Permission denied"):
        picture_files.find_files(tmp_path)
