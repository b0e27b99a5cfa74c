"""Whether something is left to do of a cell, and making it ready to be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from damcha_core.experiments.cell import Cell
from damcha_core.experiments.cell_state import UNSUCCESSFUL, Standing, State
from damcha_core.experiments.identity import Identity
from damcha_core.experiments.study_folder import StudyFolder


def is_left(
    now: Standing, *, retry: bool, rerun: bool, failed_before: Mapping[str, Any] | None
) -> bool:
    """Whether a runner has something to do of a cell.

    Args:
        now: where the cell stands, as seen under its lock.
        retry: take up again what has failed or diverged.
        rerun: start over what is out of date.
        failed_before: the cell's record when this runner came: what failed since then is not
            taken up again.
    """
    if now.state is State.OUT_OF_DATE:
        return rerun
    if now.state in UNSUCCESSFUL:
        return retry and now.record == failed_before
    return now.state is not State.DONE


def make_ready(folder: StudyFolder, cell: Cell, now: Standing, identity: Identity) -> bool:
    """Clear the place for a cell that is about to be run; its lock is held.

    Args:
        folder: of the study.
        cell: one of its cells, of which something is left to do.
        now: where it stands.
        identity: what it would be begun under now.

    Returns:
        Whether a run is there to be resumed.

    Raises:
        DiskError: what is out of date cannot be moved aside.
    """
    failed_otherwise = now.state in UNSUCCESSFUL and bool(
        identity.differences(folder.begun(cell.id))
    )
    if now.state is State.OUT_OF_DATE or failed_otherwise:
        folder.set_aside(cell.id)
    folder.forget_record(cell.id)
    resumes = folder.run(cell.id).config_file.is_file()
    if not resumes or folder.begun(cell.id) is None:
        folder.store_begun(cell.id, identity.to_mapping())
    return resumes
