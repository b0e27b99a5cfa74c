"""How a study shows itself while it goes: a line on stderr for what begins and what ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from damcha_cli.output import duration, notice, score
from damcha_cli.progress import PlainProgress
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_state import UNSUCCESSFUL, Standing, State
from damcha_core.experiments.study_observer import Score, StudyObserver


class SuiteProgress(StudyObserver):
    """Plain lines, fit for a terminal and for a log file.

    Args:
        n_cells: number of cells to be seen through.
    """

    def __init__(self, n_cells: int) -> None:
        self._n_cells = n_cells
        self._n_ended = 0
        self._data = PlainProgress()

    def notice(self, text: str) -> None:
        """Print a notice."""
        notice(f"note: {text}")

    def progress(self, what: str, done: int, total: int) -> None:
        """Print now and then how far reading or fetching data has come."""
        self._data.progress(what, done, total)

    def planned(self, n_cells: int, n_left: int) -> None:
        """Print how much there is to do."""
        self._n_cells = n_cells
        notice(f"{n_cells} cells, {n_left} of them not ended yet")

    def started(self, cell: Cell, *, resumed: bool) -> None:
        """Print what begins."""
        notice(f"{'resumed' if resumed else 'started'} {cell.id}")

    def finished(self, cell: Cell, standing: Standing, test: Score | None, seconds: float) -> None:
        """Print what a cell came to."""
        self._n_ended += 1
        place = f"[{self._n_ended}/{self._n_cells}]"
        took = f", {duration(seconds)}" if seconds else ""
        if standing.state is State.DONE:
            value = f": {test.metric} {score(test.value)}" if test else ""
            notice(f"{place} {cell.id} {'done' if seconds else 'is done'}{value}{took}")
            return
        advice = {
            State.OUT_OF_DATE: "--rerun starts it over",
            State.FAILED: "--retry takes it up again",
            State.DIVERGED: "--retry takes it up again",
        }.get(standing.state, "")
        first = standing.reason.partition("\n")[0]
        why = "; ".join(part for part in (first, advice if not seconds else "") if part)
        notice(f"{place} {cell.id} {standing.state}{': ' if why else ''}{why}{took}")
        if standing.state is State.INTERRUPTED or (standing.state in UNSUCCESSFUL and seconds):
            for line in standing.reason.split("\n")[1:]:
                notice(f"    {line}")

    def waiting(self, cells: Sequence[Cell]) -> None:
        """Print what other processes are at work on."""
        names = ", ".join(cell.id for cell in cells[:4])
        more = f" and {len(cells) - 4} more" if len(cells) > 4 else ""
        notice(f"waiting for {names}{more}: another process is at work there")

    def submitted(self, job: str, cells: Sequence[Cell], logs: Path) -> None:
        """Print what was given to a cluster."""
        what = cells[0].id if len(cells) == 1 else f"{len(cells)} cells"
        notice(f"submitted {what} as job {job}; logs in {logs}")

    def queued(self, running: Mapping[str, int], pending: int, reason: str) -> None:
        """Print how the jobs of a cluster stand."""
        steps = [f"{name} (step {step})" if step else name for name, step in running.items()]
        more = f" and {len(steps) - 4} more" if len(steps) > 4 else ""
        at_work = f"at work: {', '.join(steps[:4])}{more}" if steps else ""
        why = f" ({reason})" if reason not in ("", "None") else ""
        waits = f"{pending} pending{why}" if pending else ""
        if at_work or waits:
            notice("; ".join(part for part in (at_work, waits) if part))
