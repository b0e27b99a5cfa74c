"""`damcha suite`: studies of many runs - list, run, status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damcha_cli.commands import suite_adaptivity, suite_tune
from damcha_cli.errors import reported
from damcha_cli.options import JsonOption, SetOption

if TYPE_CHECKING:
    from damcha_core.experiments.study import Study

suite_app = typer.Typer(
    help="Run whole studies: every attention on every task, seed by seed.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

STUDY = "study"
NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="[SUITE]", help="A suite that suite list names, or a file of yours."),
]
BuiltinOption = Annotated[
    bool, typer.Option("--builtin", help="Train on the built-in data, at the small budget.")
]
SeedsOption = Annotated[int, typer.Option("--seeds", help="Number of seeds, from 0.")]
BudgetOption = Annotated[
    str | None,
    typer.Option(help="A budget of the suite, or recipe; with --builtin: small."),
]


suite_app.command("tune")(suite_tune.tune)
suite_app.command("adaptivity")(suite_adaptivity.adaptivity)


@suite_app.command("list")
@reported
def list_suites(
    name: NameArgument = None,
    builtin: BuiltinOption = False,
    seeds: SeedsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """List the suites; with the name of one: its cells."""
    from damcha_cli.output import print_json, print_table, say
    from damcha_core.experiments.expansion import expand
    from damcha_core.experiments.suite import load_suite, suite_names

    if name is None:
        suites = [load_suite(known) for known in suite_names()]
        sizes = [len(expand(suite, seeds=seeds, builtin=builtin)) for suite in suites]
        if as_json:
            pairs = zip(suites, sizes, strict=True)
            print_json([{"name": s.name, "summary": s.summary, "cells": n} for s, n in pairs])
            return
        rows = [[s.name, str(n), s.summary] for s, n in zip(suites, sizes, strict=True)]
        print_table("suites", ["name", "cells", "summary"], rows)
        return
    suite = load_suite(name)
    cells = expand(suite, seeds=seeds, builtin=builtin)
    if as_json:
        keys = ("id", "task", "attention", "seed", "settings")
        print_json([{key: getattr(cell, key) for key in keys} for cell in cells])
        return
    for cell in cells:
        say(cell.id)


@suite_app.command("run")
@reported
def run(
    name: NameArgument = None,
    everything: Annotated[bool, typer.Option("--all", help="The suite called study.")] = False,
    builtin: BuiltinOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command of every cell and do nothing.")
    ] = False,
    seeds: SeedsOption = 1,
    jobs: Annotated[int, typer.Option(help="Cells at a time; they share the cores.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the study; default runs/SUITE[-builtin].")
    ] = None,
    budget: BudgetOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Cells of this pattern alone (digits-*); repeatable."),
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
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Train at the rates that suite tune has chosen.")
    ] = False,
    sets: SetOption = None,
    executor: Annotated[str, typer.Option(help="Where cells run: local.")] = "local",
    as_json: JsonOption = False,
) -> None:
    """Train and score every cell of a suite that is not done yet.

    It may be stopped at any time, and run again: finished cells are skipped, interrupted ones go
    on. Several of these commands on one folder share the work.
    """
    from damcha_cli.suite_report import print_commands, print_outcome
    from damcha_core.errors import UsageError

    if everything and name not in (None, STUDY):
        raise UsageError(f"--all is the suite {STUDY}; leave one of --all and {name} out")
    if name is None and not everything:
        raise UsageError("name a suite (damcha suite list names them), or give --all")
    if executor != "local":
        raise UsageError(f"--executor {executor[:64]!a}: there is only local")
    study = plan(
        name or STUDY,
        tuned=tuned,
        out=out,
        seeds=seeds,
        budget=budget,
        builtin=builtin,
        sets=sets,
    )
    cells = chosen(study, only)
    if dry_run:
        print_commands(study, cells, jobs)
        return

    from damcha_cli.suite_progress import SuiteProgress
    from damcha_core.experiments.runner import RunOptions, run_study

    options = RunOptions(jobs=jobs, retry=retry, rerun=rerun, skip_missing=skip_missing)
    outcome = run_study(study, options, SuiteProgress(len(cells)), only=cells)
    print_outcome(study, cells, outcome, as_json)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


@suite_app.command("status")
@reported
def status(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Folder of a study; default all in runs.")
    ] = None,
    check_data: Annotated[
        bool, typer.Option("--check-data", help="Read the data too, and compare them.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how far a study has come, while it runs and afterwards."""
    from damcha_cli.suite_report import print_overview, print_status
    from damcha_core.errors import CheckpointError
    from damcha_core.experiments.study import load_study
    from damcha_core.train.run_folder import DEFAULT_PARENT

    if folder is not None:
        print_status(load_study(folder), check_data=check_data, as_json=as_json)
        return
    found = sorted(path.parent for path in DEFAULT_PARENT.glob("*/suite.toml"))
    if not found:
        raise CheckpointError(
            f"there is no study in {DEFAULT_PARENT}; start one with damcha suite run --all "
            "--builtin, or name the folder of one"
        )
    studies = [load_study(path) for path in found]
    if len(studies) == 1:
        print_status(studies[0], check_data=check_data, as_json=as_json)
    else:
        print_overview(studies, as_json)


def plan(name: str, *, sets: list[str] | None, tuned: bool = False, **options: Any) -> Study:
    """The study of a suite's name or file, on request at the rates tuned for its folder."""
    from damcha_core.experiments.study import plan_study
    from damcha_core.experiments.suite import load_suite

    suite = load_suite(name)
    study = plan_study(suite, sets=sets or [], **options)
    if not tuned:
        return study

    from damcha_core.experiments.tuning import with_tuned_rates

    suite = with_tuned_rates(suite, study.folder.path, study.suite.tasks)
    return plan_study(suite, sets=sets or [], **options)


def chosen(study: Study, only: list[str] | None) -> list[Any]:
    """The cells that one of some patterns names; all of them where there is no pattern.

    Raises:
        UsageError: a pattern names none.
    """
    from fnmatch import fnmatchcase

    from damcha_core.errors import UsageError

    for pattern in only or []:
        if not any(fnmatchcase(cell.id, pattern) for cell in study.cells):
            raise UsageError(
                f"--only {pattern[:64]!a}: no cell is called so; "
                f"damcha suite list {study.name} names them"
            )
    return [
        cell
        for cell in study.cells
        if not only or any(fnmatchcase(cell.id, pattern) for pattern in only)
    ]
