"""What a study tells the outside while it goes; the core itself prints nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_state import Standing


@dataclass(frozen=True)
class Score:
    """The main metric of a finished cell on the test split."""

    metric: str
    value: float | None


class StudyObserver:
    """Receives the events of a study, one at a time; the base class ignores them all."""

    def notice(self, text: str) -> None:
        """Something the user should know."""

    def progress(self, what: str, done: int, total: int) -> None:
        """How far reading or fetching data has come; total 0 is unknown."""

    def planned(self, n_cells: int, n_left: int) -> None:
        """The work is about to begin; n_left cells have not ended yet."""

    def started(self, cell: Cell, *, resumed: bool) -> None:
        """A cell was started, or goes on where it stopped."""

    def finished(self, cell: Cell, standing: Standing, test: Score | None, seconds: float) -> None:
        """A cell has ended, well or not."""

    def waiting(self, cells: Sequence[Cell]) -> None:
        """Nothing is left to start; other processes work on these."""

    def submitted(self, job: str, cells: Sequence[Cell], logs: Path) -> None:
        """Cells were given to a cluster as one job, whose logs are in a folder."""

    def queued(self, running: Mapping[str, int], pending: int, reason: str) -> None:
        """How the jobs of a cluster stand, now and then.

        Args:
            running: the last step that is on the disk, by cell at work.
            pending: cells that wait.
            reason: why they wait, in the cluster's words.
        """
