"""Who has which cell of a study in hand, and what those came to that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_preparation import is_left
from damcha_core.experiments.cell_run import main_score
from damcha_core.experiments.cell_state import Standing, State, planned_identity, standing
from damcha_core.experiments.data_check import StudyData
from damcha_core.experiments.identity import Identity, code_hash
from damcha_core.experiments.runner import RunOptions
from damcha_core.experiments.slurm.submission import Job
from damcha_core.experiments.study import Study
from damcha_core.experiments.study_observer import Score, StudyObserver


@dataclass
class Waiting:
    """A cell that some job, or some other process, has in hand.

    Attributes:
        cell: the cell.
        identity: what it would be begun under now.
        job: that it was given to; None: another process is at work on it.
        told: whether it was said that it is at work.
        gone_since: when its job was first not listed any more; 0: it is.
    """

    cell: Cell
    identity: Identity
    job: Job | None
    told: bool = False
    gone_since: float = 0.0


class Ledger:
    """The cells of a study that is worked off on a cluster.

    Args:
        study: what is planned.
        cells: those of its cells to work on.
        data: what was found of their data.
        options: how.
        observer: told what happens.

    Attributes:
        cells: those whose data are there.
        waiting: cells in hand, by id.
        standings: of the cells that have ended, or that nobody waits for.
    """

    def __init__(
        self,
        study: Study,
        cells: Sequence[Cell],
        data: StudyData,
        options: RunOptions,
        observer: StudyObserver,
    ) -> None:
        self.folder = study.folder
        self.options = options
        self.observer = observer
        self.cells = [cell for cell in cells if cell.id in data.hashes]
        self.waiting: dict[str, Waiting] = {}
        self.standings: dict[str, Standing] = {}
        # Only what had failed before this runner came is retried: not what another one retries.
        self._failed_before = {cell.id: self.folder.record(cell.id) for cell in self.cells}
        code = code_hash()
        self._identities = {
            cell.id: planned_identity(
                cell, self.folder.run(cell.id).path, code, data.hashes[cell.id]
            )
            for cell in self.cells
        }

    @property
    def n_open(self) -> int:
        """How many cells had not ended when this runner came."""
        return sum(record is None for record in self._failed_before.values())

    def identity(self, cell: Cell) -> Identity:
        """What a cell would be begun under now."""
        return self._identities[cell.id]

    def put_in_hand(self, cell: Cell, job: Job | None) -> None:
        """Wait for a cell from now on: for its job, or for another process."""
        self.waiting[cell.id] = Waiting(cell, self.identity(cell), job)

    def standing(self, cell: Cell) -> Standing:
        """Where a cell stands whose lock is held."""
        return standing(self.folder, cell, self.identity(cell))

    def is_left(self, cell: Cell, now: Standing) -> bool:
        """Whether there is something to do of a cell."""
        return is_left(
            now,
            retry=self.options.retry,
            rerun=self.options.rerun,
            failed_before=self._failed_before[cell.id],
        )

    def free_standing(self, cell: Cell) -> Standing | None:
        """Where a cell stands; None: a process is at work on it."""
        lock = self.folder.lock(cell.id)
        if not lock.acquire():
            return None
        try:
            return None if self.folder.is_training(cell.id) else self.standing(cell)
        finally:
            lock.release()

    def settle(self, cell: Cell, now: Standing) -> None:
        """A cell that was waited for has ended."""
        del self.waiting[cell.id]
        seconds: Any = (now.record or {}).get("seconds", 0.0)
        self.tell_finished(cell, now, float(seconds))

    def tell_finished(self, cell: Cell, now: Standing, seconds: float = 0.0) -> None:
        """Keep where a cell stands and tell it."""
        found: Any = main_score(self.folder, cell) if now.state is State.DONE else None
        self.standings[cell.id] = now
        self.observer.finished(cell, now, Score(*found) if found else None, seconds)
