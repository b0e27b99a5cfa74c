"""The bar on a terminal and the lines elsewhere."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from damcha_cli import progress
from damcha_cli.progress import LiveProgress, PlainProgress, build_progress
from damcha_core.train.observer import EpochReport, RunStart, StepReport

START = RunStart(
    folder=Path("runs/[bold]x[/]"),
    task="digits",
    attention="damcha",
    device="cpu",
    parameters=1234,
    epochs=3,
    first_epoch=1,
    horizon_steps=60,
    steps=40,
)
EPOCH = EpochReport(
    epoch=2,
    step=40,
    train_loss=0.5,
    metrics={"masked_mse": 0.25},
    main="masked_mse",
    improved=True,
    seconds=1.5,
)


def report(step: int) -> StepReport:
    return StepReport(
        step=step, epoch=2, loss=0.125, items=64, lr=1e-3, grad_norm=1.0, size=64, seconds=0.1
    )


def terminal(**options: object) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, **options)


def test_plain_lines(capsys) -> None:
    plain = PlainProgress()
    plain.notice("something")
    plain.started(START)
    plain.step(report(21))
    plain.epoch(EPOCH)
    plain.finished()
    assert capsys.readouterr().err.splitlines() == [
        "note: something",
        "training damcha on digits: 1,234 parameters, 40 steps, device cpu, into runs/[bold]x[/]",
        "epoch 2/3  step 40  train loss 0.5  valid masked_mse 0.25 (best)  1.5 s",
    ]


def test_a_download_is_told_now_and_then(capsys) -> None:
    plain = PlainProgress()
    for done in range(0, 101, 1):
        plain.progress("downloading", done * 2**20, 100 * 2**20)
    plain.progress("unpacking", 5, 0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert lines[-2] == "downloading: 104,857,600 of 104,857,600"
    assert lines[-1] == "unpacking: 5"
    plain.progress("reading", 0, 9)
    plain.progress("reading", 9, 9)
    assert capsys.readouterr().err.splitlines() == ["reading: 9 of 9"]


def test_the_bar_shows_epoch_steps_loss_and_best_score() -> None:
    screen = terminal()
    live = LiveProgress(screen)
    live.started(START)
    live.step(report(21))
    live.epoch(EPOCH)
    live.step(report(22))
    live._bar.refresh()
    live.finished()
    drawn = screen.file.getvalue()
    for words in ("epoch 2/3", "2/40", "loss 0.125", "best masked_mse 0.25"):
        assert words in drawn
    lines = drawn.replace("\r", "\n").splitlines()
    assert any("epoch 2/3" in line and "best masked_mse" in line for line in lines)


def test_a_worse_epoch_leaves_the_best_score_standing() -> None:
    live = LiveProgress(terminal())
    live.started(START)
    live.epoch(EPOCH)
    live.epoch(EpochReport(3, 60, 0.4, {"masked_mse": 0.9}, "masked_mse", False, 1.0))
    live.epoch(EpochReport(3, 60, 0.4, {"masked_mse": None}, "masked_mse", True, 1.0))
    live.step(report(61))
    assert "best masked_mse 0.25" in live._bar.tasks[0].fields["scores"]
    live.finished()


def test_a_run_that_never_started_can_be_finished() -> None:
    LiveProgress(terminal()).finished()


@pytest.mark.parametrize(
    ("screen", "kind"),
    [
        (terminal(), LiveProgress),
        (terminal(force_interactive=False), PlainProgress),
        (Console(file=io.StringIO()), PlainProgress),
    ],
    ids=["terminal", "dumb terminal", "file"],
)
def test_a_bar_needs_a_terminal_that_can_redraw(screen, kind, monkeypatch) -> None:
    monkeypatch.setattr(progress, "console", lambda *, stderr: screen)
    assert type(build_progress()) is kind
