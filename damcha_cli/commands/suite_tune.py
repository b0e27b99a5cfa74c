"""`damcha suite tune`: a learning rate for every attention on every task, chosen on valid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damcha_cli.errors import reported
from damcha_cli.options import JsonOption, SetOption
from damcha_core.experiments.rate_grid import GRID, widened, written

if TYPE_CHECKING:
    from damcha_core.experiments.study import Study
    from damcha_core.experiments.tuning import TuningOutcome


@reported
def tune(
    name: Annotated[
        str, typer.Argument(metavar="[SUITE]", help="A suite that suite list names, or your file.")
    ] = "study",
    builtin: Annotated[
        bool, typer.Option("--builtin", help="Train on the built-in data, at the small budget.")
    ] = False,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="RATES",
            help="Rates to try, with commas between; default those tried before, else "
            f"{written(GRID)}.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command of every cell and do nothing.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Cells at a time; they share the cores.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the study to tune for; default runs/SUITE[-builtin]."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="A budget of the suite, or recipe; with --builtin: small.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Cells of this pattern alone (digits-*); repeatable."),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="TASK", help="Tune for this task alone; repeatable."),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Take up again what has failed or diverged.")
    ] = False,
    rerun: Annotated[
        bool,
        typer.Option("--rerun", help="Start over what is out of date; old runs are moved aside."),
    ] = False,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out tasks whose data are missing.")
    ] = False,
    sets: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the learning rate of each attention on each task, on the validation split.

    All attentions of a task are given the same grid, the same budget and seed 0. The runs go to
    DIR/tune, the choice to DIR/tuning.json, and suite run --tuned trains with it. No test split is
    looked at. With a wider --grid only the new rates are trained.
    """
    from damcha_cli.commands.suite import chosen
    from damcha_cli.suite_report import print_commands
    from damcha_core.experiments.suite import load_suite
    from damcha_core.experiments.tuning import plan_tuning, tune

    plan = plan_tuning(
        load_suite(name),
        out=out,
        grid=None if grid is None else rates(grid),
        budget=budget,
        builtin=builtin,
        sets=sets or [],
    )
    cells = of_tasks(plan, chosen(plan, only), tasks)
    if dry_run:
        print_commands(plan, cells, jobs)
        return

    from damcha_cli.output import print_json
    from damcha_cli.suite_progress import SuiteProgress
    from damcha_core.experiments.runner import RunOptions

    options = RunOptions(jobs=jobs, retry=retry, rerun=rerun, skip_missing=skip_missing)
    outcome = tune(plan, options, SuiteProgress(len(cells)), only=cells)
    if as_json:
        print_json(outcome.record)
    else:
        print_choices(outcome)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def rates(grid: str) -> list[float]:
    """The numbers of `--grid`.

    Raises:
        UsageError: one of them is no number.
    """
    from damcha_core.errors import UsageError

    try:
        return [float(word) for word in grid.split(",")]
    except ValueError:
        raise UsageError(
            f"--grid {grid[:64]!a}: give numbers with commas between, such as {written(GRID)}"
        ) from None


def print_choices(outcome: TuningOutcome) -> None:
    """The score of every rate, and which one was chosen."""
    from damcha_cli.output import notice, print_table, score

    record = outcome.record
    names = [repr(rate) for rate in record["grid"]]
    rows = []
    for pair, found in record["cells"].items():
        shown = [_shown(found, rate, score) for rate in names]
        rows.append([pair, found["metric"], *shown, _choice(found)])
    print_table(str(outcome.file), ["task/attention", "on valid", *names, "chosen"], rows)
    for line in edge_lines(record):
        notice(line)


def edge_lines(record: dict[str, Any]) -> list[str]:
    """What to do about rates that were chosen at an end of their grid.

    Args:
        record: of a tuning.

    Returns:
        A line for each such pair, and behind those of a task how to go on with all of it.
    """
    lines = []
    for task, grid in record["grids"].items():
        at_end = []
        for pair, found in record["cells"].items():
            if found["edge"] and pair.partition("/")[0] == task:
                where = "smallest" if found["chosen"] == grid[0] else "largest"
                lines.append(f"edge: {pair}: the best rate is the {where}, {found['chosen']!r}")
                at_end.append(found["chosen"])
        if at_end:
            wide = written(widened(grid, at_end))
            lines.append(
                f"widen the grid for all attentions of {task}: --task {task} --grid {wide}"
            )
    return lines


def of_tasks(plan: Study, cells: list[Any], tasks: list[str] | None) -> list[Any]:
    """Those of some cells that are of the named tasks; all of them where none is named.

    Raises:
        UsageError: one is no task of the suite.
    """
    from damcha_core.catalog.names import unknown_name
    from damcha_core.errors import UsageError

    for task in tasks or []:
        if task not in plan.suite.tasks:
            raise UsageError(f"--task: {unknown_name('task', task, plan.suite.tasks)}")
    return [cell for cell in cells if not tasks or cell.task in tasks]


def _shown(found: dict[str, Any], rate: str, score: Any) -> str:
    state = found["states"].get(rate, "")  # a rate that was tried for other tasks
    return str(score(found["scores"][rate])) if state == "done" else str(state)


def _choice(found: dict[str, Any]) -> str:
    if found["chosen"] is None:
        return "none yet"
    return f"{found['chosen']!r}{' (end of the grid)' if found['edge'] else ''}"
