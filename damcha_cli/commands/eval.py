"""`damcha eval`: the scores of a run on a split."""

from __future__ import annotations

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


@reported
def evaluate(
    run: RunArgument,
    split: SplitOption = None,
    checkpoint: CheckpointOption = "best",
    batch_size: Annotated[
        int | None, typer.Option(help="Samples a forward pass; it moves no score.")
    ] = None,
    device: DeviceOption = None,
    sets: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a finished or running run; the test split only when asked for.

    Numbers are computed in float64, so batch size, threads and device do not move them.
    """
    from damcha_cli.output import notice, print_json, print_pairs, say
    from damcha_cli.report import print_scores, title
    from damcha_core.train.trained_run import load_run

    flags = {"run.device": device, "eval.split": split, "eval.batch_size": batch_size}
    trained = load_run(run, checkpoint=checkpoint, sets=sets or [], flags=flags)
    split = trained.config.eval.split
    evaluation, record = trained.evaluate(split, notify=lambda line: notice(f"note: {line}"))
    reason = trained.keep_samples(evaluation)
    if reason:
        notice(f"note: samples/ is left as it is: {reason}")
    if as_json:
        print_json(record)
        return
    place = {"run": str(run), "checkpoint": trained.checkpoint, "device": trained.device}
    print_pairs({**title(record), **place})
    say()
    print_scores(record)
