"""The damcha program in this process, and runs that it left behind."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import SMALL, Answer, damcha

Damcha = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test works in a new folder, and no setting of the machine's owner reaches it."""
    monkeypatch.chdir(tmp_path)
    for variable in ("DAMCHA_DATA", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short reconstruction run on the digits with two checkpoints; only to be read."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    damcha("train", *SMALL, "--seed", 4, "--epochs", 2, "--out", folder).done()
    return folder


@pytest.fixture(scope="session")
def classifier_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short classification run on the digits; only to be read."""
    folder = tmp_path_factory.mktemp("runs") / "classifier"
    damcha("train", *SMALL, "--task", "digits-cls", "--epochs", 1, "--out", folder).done()
    return folder


@pytest.fixture
def own_run(digits_run: Path, tmp_path: Path) -> Path:
    """A copy of digits_run that a test may damage."""
    return Path(shutil.copytree(digits_run, tmp_path / "own"))
