"""Small studies whose cells take no time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_studies import FOUR_CELLS, PROGRAM, small_study

from damcha_core.experiments import cell_run
from damcha_core.experiments.study import Study


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are carried out by stand_in_program.py."""
    monkeypatch.setattr(cell_run, "PROGRAM", PROGRAM)


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., Study]:
    """Makes studies of four cells in one folder, with more lines in the suite file."""

    def make(more: str = "", *, seeds: int = 1) -> Study:
        return small_study(tmp_path / "study", FOUR_CELLS + more, seeds=seeds)

    return make
