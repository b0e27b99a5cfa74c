"""How a run shows itself while it trains: a live bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from damcha_cli.output import console, duration, notice, number
from damcha_core.train.observer import EpochReport, Observer, RunStart, StepReport

DATA_LINE_BYTES = 32 * 2**20
"""Off a terminal, a download says how far it is each time this much more has come."""


class PlainProgress(Observer):
    """One line an epoch on stderr; what a log file should hold."""

    def __init__(self) -> None:
        self._epochs = 0
        self._told = 0

    def notice(self, text: str) -> None:
        """Print a notice."""
        notice(f"note: {text}")

    def progress(self, what: str, done: int, total: int) -> None:
        """Print now and then how far a download, or reading, has come."""
        begun = done < self._told
        if begun:
            self._told = 0
        if done - self._told >= DATA_LINE_BYTES or done == total or (begun and not total):
            self._told = done
            notice(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}")

    def started(self, start: RunStart) -> None:
        """Print what is about to be trained, and where."""
        self._epochs = start.epochs
        notice(
            f"training {start.attention} on {start.task}: {start.parameters:,} parameters, "
            f"{start.steps:,} steps, device {start.device}"
            f"{f', {start.processes} processes' if start.processes > 1 else ''}, "
            f"into {start.folder}"
        )

    def epoch(self, report: EpochReport) -> None:
        """Print an epoch's scores."""
        best = " (best)" if report.improved else ""
        notice(
            f"epoch {report.epoch}/{self._epochs}  step {report.step}  "
            f"train loss {number(report.train_loss)}  "
            f"valid {report.main} {number(report.metrics[report.main])}{best}  "
            f"{duration(report.seconds)}"
        )


class LiveProgress(PlainProgress):
    """A bar that follows the steps, with the best score so far beside it."""

    def __init__(self, terminal: Console) -> None:
        super().__init__()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[scores]}", markup=False),
            TimeRemainingColumn(),
            console=terminal,
            expand=True,
            transient=True,
        )
        self._task: TaskID | None = None
        self._valid = ""

    def started(self, start: RunStart) -> None:
        """Start the bar."""
        super().started(start)
        description = f"epoch {start.first_epoch + 1}/{start.epochs}"
        self._task = self._bar.add_task(description, total=start.steps, scores="")
        self._bar.start()

    def step(self, report: StepReport) -> None:
        """Move the bar."""
        assert self._task is not None, "a run starts before its first step"
        self._bar.update(
            self._task,
            advance=1,
            description=f"epoch {report.epoch}/{self._epochs}",
            scores=f"loss {report.loss:.4g}{self._valid}",
        )

    def epoch(self, report: EpochReport) -> None:
        """Show the best main score so far beside the bar."""
        value = report.metrics[report.main]
        if report.improved and value is not None:
            self._valid = f"  best {report.main} {value:.4g}"

    def finished(self) -> None:
        """Take the bar away."""
        self._bar.stop()


def build_progress() -> PlainProgress:
    """A live bar where stderr is a terminal that can redraw a line, plain lines elsewhere."""
    terminal = console(stderr=True)
    return LiveProgress(terminal) if terminal.is_interactive else PlainProgress()
