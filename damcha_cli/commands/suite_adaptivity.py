"""`damcha suite adaptivity`: whether the generated metrics of a study's models do anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from damcha_cli.errors import reported


@reported
def adaptivity(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Study folder.")],
    samples: Annotated[
        int, typer.Option(min=2, help="Samples of the validation split that are looked at.")
    ] = 256,
) -> None:
    """Look at the metrics of every finished run that generates them.

    Writes adaptivity.json into the run folders: how much of a metric follows the input, its
    singular values and symmetric part, the largest score, and what happens to loss and main metric
    when each sample gets the metrics of another one. `damcha export-results` shows them.
    """
    from damcha_cli.output import notice, say
    from damcha_core.errors import CheckpointError, UsageError
    from damcha_core.experiments.adaptivity.analysis import analyse
    from damcha_core.experiments.adaptivity.record import store
    from damcha_core.experiments.results.reading import read_study
    from damcha_core.train.trained_run import load_run

    study = read_study(folder)
    n_stored = 0
    for cell in study.cells:
        place = folder / cell.id
        if cell.state != "done" or not cell.attention.startswith("damcha"):
            continue
        try:
            record = analyse(load_run(place), n_samples=samples)
        except (UsageError, CheckpointError) as error:  # a static metric has nothing to show
            notice(f"note: {cell.id}: {error}")
            continue
        say(str(store(place, record)))
        n_stored += 1
    if not n_stored:
        raise CheckpointError(f"{folder}: no finished run there generates metrics")
