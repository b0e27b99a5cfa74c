"""Reading the data of a study before anything starts: what they are, and which are missing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from damcha_core.catalog.tasks import task_row
from damcha_core.data.notify import Notify, no_notice
from damcha_core.errors import DataError
from damcha_core.experiments.cell import Cell
from damcha_core.experiments.identity import data_hash
from damcha_core.tasks.build import build_task


@dataclass(frozen=True)
class StudyData:
    """What was found of the data of a study.

    Attributes:
        hashes: of the data by the id of the cell; cells without data are left out.
        missing: by task, what was looked for and where.
    """

    hashes: Mapping[str, str]
    missing: Mapping[str, str]

    def require_all(self) -> None:
        """Refuse a study whose data are not all there.

        Raises:
            DataError: what is missing for each task, and what runs without it.
        """
        if not self.missing:
            return
        lines = [f"the data of {', '.join(self.missing)} are missing; nothing was started"]
        lines += [f"{task}: {' '.join(text.split())}" for task, text in self.missing.items()]
        instead = ", ".join(dict.fromkeys(task_row(task).instead for task in self.missing))
        lines.append(f"--builtin trains on built-in data instead ({instead}),")
        lines.append("--skip-missing the tasks whose data are there")
        raise DataError("\n".join(lines))


def read_data(cells: Sequence[Cell], notify: Notify = no_notice) -> StudyData:
    """Read the data of every task once for each way in which cells prepare them.

    Args:
        cells: of a study.
        notify: told how far reading or fetching has come.
    """
    known: dict[tuple[str, str], str] = {}
    hashes: dict[str, str] = {}
    missing: dict[str, str] = {}
    for cell in cells:
        config = cell.config(Path(cell.id))
        prepared = (cell.task, json.dumps(config.data.model_dump(), sort_keys=True))
        if prepared not in known:
            try:
                known[prepared] = data_hash(build_task(config, notify=notify).facts)
            except DataError as error:
                known[prepared] = ""
                missing.setdefault(cell.task, str(error))
        if known[prepared]:
            hashes[cell.id] = known[prepared]
    return StudyData(hashes, missing)
