"""`damcha reconstruct`: pictures with patches hidden and painted again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from damcha_cli.errors import reported
from damcha_cli.options import (
    CheckpointOption,
    DeviceOption,
    JsonOption,
    RunArgument,
    SetOption,
    SplitOption,
)

MOST_ROWS = 64
"""Pictures that are drawn and listed; the scores and the JSON are over all of them."""


@reported
def reconstruct(
    run: RunArgument,
    images: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[IMAGES]", help="Picture files; none: the first of a split."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="PNG to write; default RUN/samples/reconstruction.png.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many pictures of the split.")] = 8,
    mask_ratio: Annotated[
        float | None, typer.Option(help="Share of hidden patches, 0 to 1; default: the run's.")
    ] = None,
    split: SplitOption = None,
    checkpoint: CheckpointOption = "best",
    device: DeviceOption = None,
    sets: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw original | masked | restored for pictures, with their numbers.

    masked_* are over the hidden patches alone; psnr and ssim are over the composite. Given
    pictures all have the same patches hidden, so that no result depends on the other pictures.
    """
    from damcha_cli.output import notice, print_json, print_pairs, say
    from damcha_cli.report import print_pictures, print_scores, title
    from damcha_core.evaluate.picture_grid import check_grid_path, write_picture_grid
    from damcha_core.train.trained_run import load_run

    flags = {"run.device": device, "eval.split": split, "data.mask_ratio": mask_ratio}
    trained = load_run(run, checkpoint=checkpoint, sets=sets or [], flags=flags)
    trained.reconstruction_task()  # refuses a run of another kind before anything is written
    path = out or trained.folder.prepare_samples() / "reconstruction.png"
    check_grid_path(path)
    restoration, notices = trained.reconstruct(images or [], split=split or "", count=count)
    for line in notices:
        notice(f"note: {line}")
    hidden = f"{restoration.n_hidden} of {restoration.n_patches} patches hidden"
    geometry = write_picture_grid(path, restoration.rows[:MOST_ROWS], note=hidden)
    record = trained.record(restoration.evaluation)
    pictures = restoration.records(geometry)
    if as_json:
        counts = {"hidden_patches": restoration.n_hidden, "patches": restoration.n_patches}
        print_json({**record, "grid": str(path), **counts, "pictures": pictures})
        return
    place = {"run": str(run), "checkpoint": trained.checkpoint, "device": trained.device}
    print_pairs({**title(record), **place, "patches": hidden, "grid": str(path)})
    say()
    print_pictures(pictures[:MOST_ROWS])
    say()
    print_scores(record)
