"""The cells that a study folder should hold, from its suite.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damcha_core.config.identity import config_hash
from damcha_core.errors import DamchaError
from damcha_core.experiments.study import load_study


@dataclass(frozen=True)
class PlannedCell:
    """A cell that belongs to a study.

    Attributes:
        id: its name.
        task: what is learnt.
        attention: with which attention.
        seed: of the run.
        grid: the settings that the suite's grid varies.
        config_hash: of its settings as planned; empty where it is in no plan.
    """

    id: str
    task: str
    attention: str
    seed: int
    grid: Mapping[str, Any]
    config_hash: str = ""


@dataclass(frozen=True)
class SuitePlan:
    """What a suite.toml says.

    Attributes:
        summary: of the suite.
        grid: dotted keys that it varies.
        cells: in its order.
        rates: where tuned learning rates are from; empty: those of the recipes.
    """

    summary: str = ""
    grid: tuple[str, ...] = ()
    cells: tuple[PlannedCell, ...] = ()
    rates: str = ""


def read_plan(folder: Path) -> SuitePlan:
    """The plan of a study folder.

    Args:
        folder: a study folder.

    Returns:
        Its plan; an empty one where there is no suite.toml that this version can read, so that
        the records alone say what there is.
    """
    try:
        study = load_study(folder)
    except DamchaError:
        return SuitePlan()
    grid = tuple(study.suite.grid)
    cells = [
        PlannedCell(
            cell.id,
            cell.task,
            cell.attention,
            cell.seed,
            {key: cell.settings.get(key) for key in grid},
            config_hash(cell.config(folder / cell.id)),
        )
        for cell in study.cells
    ]
    return SuitePlan(study.suite.summary, grid, tuple(cells), study.rates)
