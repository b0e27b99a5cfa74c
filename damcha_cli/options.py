"""Options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from damcha_core.catalog.run_attentions import attention_names
from damcha_core.catalog.tasks import task_rows

TASKS = ", ".join(row.name for row in task_rows())
ATTENTIONS = ", ".join(attention_names())

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder, as train left it.")]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", help="auto (cuda, then mps, then cpu), cpu, cuda, cuda:N or mps."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set section.key=value; repeatable."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
CheckpointOption = Annotated[
    str, typer.Option("--checkpoint", help="best (default), last, or the step of a checkpoint.")
]
SplitOption = Annotated[
    str | None, typer.Option("--split", help="valid, test or train; default eval.split (valid).")
]
