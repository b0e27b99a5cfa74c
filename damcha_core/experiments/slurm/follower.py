"""Following jobs to their ends, by the folder of the study and by squeue."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from damcha_core.experiments.cell import Cell
from damcha_core.experiments.slurm.ledger import Ledger, Waiting
from damcha_core.experiments.slurm.queue import Listed, SlurmUnreachable, look
from damcha_core.experiments.slurm.standings import (
    UNFINISHED,
    found_in,
    step_on_disk,
    without_answer,
)

GONE_SECONDS = 10.0
"""A job that is not listed for so long is over; by then its files have crossed the network."""
PATIENCE_SECONDS = 600.0
"""How long squeue may give no answer."""
TELL_SECONDS = 60.0
"""How often the state of the queue is told where nothing changes."""


class Follower:
    """Looks again and again at what is in hand; a look is one call.

    Args:
        ledger: of the study; it is brought up to date.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.observer = ledger.observer
        self._answered = time.monotonic()
        self._told: tuple[object, float] = (None, 0.0)

    def look(self) -> list[Cell]:
        """Settle what has ended, tell what has begun.

        Returns:
            Cells that were in the hands of another process and are in nobody's now.

        Raises:
            SlurmUnreachable: squeue has given no answer for long.
        """
        listed = self.ask()
        self.look_at_files()
        return [] if listed is None else self.look_at_jobs(listed)

    def ask(self) -> dict[str, Listed] | None:
        """What squeue lists of the jobs; None: it gave no answer this time.

        Raises:
            SlurmUnreachable: it has given none for long.
        """
        waiting = self.ledger.waiting.values()
        try:
            listed = look(one.job.array for one in waiting if one.job is not None)
        except SlurmUnreachable as problem:
            silent = time.monotonic() - self._answered
            if silent > PATIENCE_SECONDS:
                raise SlurmUnreachable(
                    f"Slurm has given no answer for {silent / 60:.0f} min: {problem}\n"
                    "its jobs may be at work all the same; the same command waits on"
                ) from None
            if self._told[0] != str(problem):
                self._told = (str(problem), time.monotonic())
                self.observer.notice(f"{problem}; asking again")
            return None
        self._answered = time.monotonic()
        return listed

    def look_at_files(self) -> None:
        """Settle the cells whose record is there."""
        for one in list(self.ledger.waiting.values()):
            if self.ledger.folder.record(one.cell.id) is None:
                continue
            now = self.ledger.free_standing(one.cell)
            if now is not None and now.state not in UNFINISHED:
                self.ledger.settle(one.cell, now)

    def look_at_jobs(self, listed: Mapping[str, Listed]) -> list[Cell]:
        """Tell of cells that were started, settle those whose jobs are gone; see look."""
        free: list[Cell] = []
        running: dict[str, int] = {}
        reasons: list[str] = []
        for one in list(self.ledger.waiting.values()):
            found = found_in(listed, one.job) if one.job is not None else None
            if found is not None and found.alive:
                one.gone_since = 0.0
                if found.waits:
                    reasons.append(found.reason)
                    one.told = False
                else:
                    running[one.cell.id] = step_on_disk(self.ledger.folder, one.cell.id)
                    self.tell_started(one)
            elif one.job is not None:
                self.look_after_gone(one, found)
            elif self.ledger.free_standing(one.cell) is not None:
                free.append(one.cell)
        self.tell_queue(running, reasons)
        return free

    def look_after_gone(self, one: Waiting, found: Listed | None) -> None:
        """Settle a cell whose job is over, once that is certain."""
        one.gone_since = one.gone_since or time.monotonic()
        now = self.ledger.free_standing(one.cell)
        if now is None or time.monotonic() - one.gone_since < GONE_SECONDS:
            return
        assert one.job is not None
        self.ledger.settle(
            one.cell, without_answer(one.job, found) if now.state in UNFINISHED else now
        )

    def tell_started(self, one: Waiting) -> None:
        """Tell once in each life that a cell is at work."""
        if not one.told:
            one.told = True
            there = self.ledger.folder.run(one.cell.id).config_file.is_file()
            self.observer.started(one.cell, resumed=there)

    def tell_queue(self, running: Mapping[str, int], reasons: Sequence[str]) -> None:
        """Tell how the jobs stand, when that has changed and now and then."""
        why = max(set(reasons), key=reasons.count) if reasons else ""
        key = (sorted(running), len(reasons), why)
        before, when = self._told
        if key != before or time.monotonic() - when > TELL_SECONDS:
            self._told = (key, time.monotonic())
            self.observer.queued(running, len(reasons), why)
