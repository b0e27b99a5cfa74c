"""How far a cell has come, as seen from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from damcha_core.config.identity import config_hash
from damcha_core.config.resolve import config_from_run
from damcha_core.config.schema import RunConfig
from damcha_core.errors import DamchaError
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.identity import UNKNOWN, Identity
from damcha_core.experiments.study_folder import StudyFolder


class State(str, Enum):
    """What is said of a cell."""

    DONE = "done"
    OUT_OF_DATE = "out of date"
    FAILED = "failed"
    DIVERGED = "diverged"
    RUNNING = "running"
    PENDING = "pending"
    INTERRUPTED = "interrupted"
    MISSING = "missing"

    def __str__(self) -> str:
        return self.value


UNSUCCESSFUL = (State.FAILED, State.DIVERGED)


@dataclass(frozen=True)
class Standing:
    """The state of a cell with the reason for it.

    Attributes:
        state: one of the states.
        reason: the last lines of a failure, or what a result that is out of date differs in.
        record: what the cell came to, where it has ended.
    """

    state: State
    reason: str = ""
    record: Mapping[str, Any] | None = None


def standing(folder: StudyFolder, cell: Cell, identity: Identity) -> Standing:
    """Where a cell stands; to be asked by the process that holds the cell's lock.

    Args:
        folder: of the study.
        cell: one of its cells.
        identity: what the cell would be begun under now.
    """
    record = folder.record(cell.id)
    if record is not None and record.get("state") in ("failed", "diverged"):
        return Standing(State(record["state"]), str(record.get("reason", "")), record)
    if record is not None and folder.has_scores(cell.id):
        differs = identity.differences(record.get("identity"))
        return Standing(*out_of_date(differs, State.DONE), record)
    run = folder.run(cell.id)
    if not run.config_file.is_file():
        return Standing(State.MISSING)
    begun = folder.begun(cell.id)
    if begun is None:  # by hand, with the command as printed
        same = same_settings(run.config_file, cell.config(run.path))
        differs = [] if same else ["settings"]
    else:
        differs = identity.differences(begun)
    return Standing(*out_of_date(differs, State.INTERRUPTED))


def out_of_date(differs: list[str], otherwise: State) -> tuple[State, str]:
    """The state of a run that differs from the plan in something, or in nothing."""
    if not differs:
        return otherwise, ""
    return State.OUT_OF_DATE, f"{' and '.join(differs)} changed since"


def same_settings(stored: Path, planned: RunConfig) -> bool:
    """Whether a run.toml is that of a plan, whose horizon is not fixed yet."""
    try:
        horizon = planned.train.horizon_steps
        flags = {"train.horizon_steps": horizon}
        return config_hash(config_from_run(stored, flags=flags)) == config_hash(planned)
    except DamchaError:
        return False


def seen_standing(folder: StudyFolder, cell: Cell, identity: Identity) -> Standing:
    """Where a cell stands, for a process that does not work on it.

    Args:
        folder: of the study.
        cell: one of its cells.
        identity: what the cell would be begun under now; with its data unknown they are not
            compared.
    """
    if not folder.path.is_dir():
        return Standing(State.MISSING)
    lock = folder.lock(cell.id)
    if not lock.acquire():
        return Standing(State.RUNNING)
    try:
        if folder.is_training(cell.id):
            return Standing(State.RUNNING)
        return standing(folder, cell, identity)
    finally:
        lock.release()


def planned_identity(cell: Cell, run: Path, code: str, data: str = UNKNOWN) -> Identity:
    """What a cell would be begun under now.

    Args:
        cell: one of a study's cells.
        run: its run folder.
        code: see code_hash.
        data: see data_hash; empty: not known.
    """
    return Identity(config_hash(cell.config(run)), data, code)
