"""One run of a study as it lies on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from damcha_core.experiments.results.item_records import ItemRecords, read_items

STATES = ("done", "out of date", "failed", "diverged", "running", "interrupted", "missing")


@dataclass(frozen=True)
class MetricRecord:
    """A score of the test split, as test.json states it.

    Attributes:
        value: None where the metric is not available.
        unit: of the value.
        n: things that the value is a mean over.
        better: "lower" or "higher".
    """

    value: float | None
    unit: str
    n: int
    better: str


@dataclass(frozen=True)
class CurvePoint:
    """One line of a learning curve.

    Attributes:
        step: optimiser steps done.
        train_loss: mean training loss of the steps since the point before; None without any.
        valid_loss: loss on the validation split.
        metrics: by name, on the validation split; None where not available.
    """

    step: int
    train_loss: float | None
    valid_loss: float | None
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class CellResult:
    """What is known of one run.

    Attributes:
        id: name of the cell, which is its run folder within the study folder.
        task: what was learnt.
        attention: with which attention.
        seed: of the run.
        grid: the settings that the suite's grid varies, by dotted key.
        state: one of STATES.
        reason: why it failed, in the program's own last words; empty where there is nothing to say.
        folder: the run folder.
        metrics: the scores of the test split by name, the main one first; empty without them.
        floors: scores of the trivial answers, by name.
        details: what the evaluation states beside its scores.
        parameters: of the whole model.
        multiply_adds: of a forward pass for one sample of mean length.
        seconds: training and validation took, added up over interruptions.
        config_hash: which settings it ran under.
        code: which version of the package made it.
        command: what makes this run again inside the study folder.
        curve: one point a validation.
        adaptivity: what adaptivity.json holds; empty without one.
    """

    id: str
    task: str
    attention: str
    seed: int
    grid: Mapping[str, Any]
    state: str
    reason: str
    folder: Path
    metrics: Mapping[str, MetricRecord] = field(default_factory=dict)
    floors: Mapping[str, Mapping[str, MetricRecord]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    parameters: int | None = None
    multiply_adds: int | None = None
    seconds: float | None = None
    config_hash: str = ""
    code: str = ""
    command: str = ""
    curve: tuple[CurvePoint, ...] = ()
    adaptivity: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether its scores count."""
        return self.state == "done"

    @cached_property
    def items(self) -> ItemRecords | None:
        """The items of the test split; None where they are missing or damaged."""
        return read_items(self.folder / "samples" / "test.jsonl")


@dataclass(frozen=True)
class Study:
    """A study folder.

    Attributes:
        name: of the folder.
        summary: what the suite file says of itself.
        grid: dotted keys that the suite varies.
        cells: all runs that belong to it, in the order of the suite.
        tuning: what `damcha suite tune` left; empty without it.
        rates: where tuned learning rates are from; empty: those of the recipes.
    """

    name: str
    summary: str
    grid: tuple[str, ...]
    cells: tuple[CellResult, ...]
    tuning: Mapping[str, Any] = field(default_factory=dict)
    rates: str = ""

    @property
    def tasks(self) -> list[str]:
        """The tasks, in the order of the suite."""
        return list(dict.fromkeys(cell.task for cell in self.cells))

    @property
    def attentions(self) -> list[str]:
        """The attentions, in the order of the suite."""
        return list(dict.fromkeys(cell.attention for cell in self.cells))
