"""`damcha suite`: studies of many runs - list, run, status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damcha_cli.commands import suite_adaptivity, suite_tune
from damcha_cli.errors import reported
from damcha_cli.options import JsonOption, SetOption

if TYPE_CHECKING:
    from damcha_core.experiments.runner import Executor
    from damcha_core.experiments.slurm.job_options import JobOptions
    from damcha_core.experiments.study import Study

suite_app = typer.Typer(
    help="Run whole studies: every attention on every task, seed by seed.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

STUDY = "study"
LOCAL, SLURM = "local", "slurm"
NameArgument = Annotated[
    str | None,
    typer.Argument(metavar="[SUITE]", help="A suite that suite list names, or a file of yours."),
]
StudyArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[SUITE]",
        help="A suite that suite list names, a file of yours, or the folder of a study.",
    ),
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
    name: StudyArgument = None,
    everything: Annotated[bool, typer.Option("--all", help="The suite called study.")] = False,
    builtin: BuiltinOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command of every cell and do nothing.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Number of seeds, from 0; default 1.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Cells at a time; local: default 1, they share the cores; slurm: default all."
        ),
    ] = None,
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
        bool,
        typer.Option(
            "--tuned", help="Train at the rates that suite tune has chosen, or at shipped ones."
        ),
    ] = False,
    sets: SetOption = None,
    executor: Annotated[
        str, typer.Option(help="Where cells run: local, or slurm (one array of jobs).")
    ] = LOCAL,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            "--slurm",
            metavar="KEY=VALUE",
            help="What to ask of Slurm, as sbatch names it (time=4:00:00); repeatable.",
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Submit to Slurm and leave; suite status tells more.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train and score every cell of a suite that is not done yet.

    It may be stopped at any time, and run again: finished cells are skipped, interrupted ones go
    on. Several of these commands on one folder share the work. The folder of a study in place of a
    suite goes on with what is stored in it.
    """
    from damcha_core.errors import UsageError

    if everything and name not in (None, STUDY):
        raise UsageError(f"--all is the suite {STUDY}; leave one of --all and {name} out")
    if name is None and not everything:
        raise UsageError("name a suite (damcha suite list names them), or give --all")
    job_options = asked_of_slurm(executor, slurm, no_wait)
    choices: dict[str, Any] = {"out": out, "seeds": seeds, "budget": budget, "sets": sets}
    choices |= {"builtin": builtin or None, "tuned": tuned or None}
    given = {key: value for key, value in choices.items() if value is not None}
    study = stored(name, given) if is_folder_of_a_study(name) else plan(name or STUDY, **given)
    cells = chosen(study, only)
    if dry_run:
        from damcha_cli.suite_report import print_commands, print_jobs

        if job_options is None:
            print_commands(study, cells, jobs)
        else:
            print_jobs(study, cells, job_options, jobs)
        return

    from damcha_cli.suite_progress import SuiteProgress
    from damcha_cli.suite_report import print_outcome
    from damcha_core.experiments.runner import RunOptions, run_here, run_study

    options = RunOptions(jobs=jobs, retry=retry, rerun=rerun, skip_missing=skip_missing)
    where = run_here if job_options is None else on_slurm(job_options, waits=not no_wait)
    outcome = run_study(study, options, SuiteProgress(len(cells)), only=cells, executor=where)
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


def asked_of_slurm(executor: str, slurm: list[str] | None, no_wait: bool) -> JobOptions | None:
    """What the options of `suite run` ask of Slurm; None: cells run here.

    Raises:
        UsageError: there is no such executor, or options of the other one are given.
    """
    from damcha_core.catalog.names import unknown_name
    from damcha_core.errors import UsageError
    from damcha_core.experiments.slurm.job_options import read_job_options

    if executor not in (LOCAL, SLURM):
        raise UsageError(f"--executor: {unknown_name('executor', executor, (LOCAL, SLURM))}")
    if executor == SLURM:
        return read_job_options(slurm or ())
    if slurm or no_wait:
        option = "--slurm" if slurm else "--no-wait"
        raise UsageError(f"{option} is for jobs of a cluster: add --executor slurm")
    return None


def on_slurm(job_options: JobOptions, *, waits: bool) -> Executor:
    """The executor of a cluster, on a machine that has one.

    Raises:
        UsageError: it has none, or submitit is not installed.
    """
    from damcha_core.experiments.slurm.executor import SlurmExecutor
    from damcha_core.experiments.slurm.queue import require_slurm

    require_slurm()  # before data are read, and before anything is written
    return SlurmExecutor(job_options, waits)


def is_folder_of_a_study(name: str | None) -> bool:
    """Whether a name is no suite of ours but a folder with a study in it."""
    from damcha_core.experiments.suite import suite_names

    return name is not None and name not in suite_names() and (Path(name) / "suite.toml").is_file()


def stored(name: str | None, given: dict[str, Any]) -> Study:
    """The study of a folder, whose choices have been made.

    Raises:
        UsageError: choices are given again, or it holds what suite tune compares.
    """
    from damcha_core.errors import UsageError
    from damcha_core.experiments.study import load_study
    from damcha_core.experiments.tuned_rates import RATE
    from damcha_core.experiments.tuning import RUNS

    if given:
        flags = ", ".join(f"--{key.removesuffix('s') if key == 'sets' else key}" for key in given)
        raise UsageError(
            f"{name} holds a study with its choices made; leave {flags} out, or name the suite "
            "instead of the folder"
        )
    folder = Path(name or "")
    study = load_study(folder)
    if folder.resolve().name == RUNS and RATE in study.suite.grid:
        # As a study they would have the test split scored, which tuning must not look at.
        raise UsageError(f"{name} holds the runs of damcha suite tune; go on with that command")
    return study


def plan(name: str, *, sets: list[str] | None = None, tuned: bool = False, **options: Any) -> Study:
    """The study of a suite's name or file, on request at the rates tuned for its folder."""
    from damcha_core.experiments.study import plan_study
    from damcha_core.experiments.suite import load_suite

    suite = load_suite(name)
    study = plan_study(suite, sets=sets or [], **options)
    if not tuned:
        return study

    import shlex
    from dataclasses import replace

    from damcha_cli.output import notice
    from damcha_core.experiments.tuned_rates import tuned_rates, with_tuned_rates

    found = tuned_rates(study.folder.path)
    again = ["damcha", "suite", "tune", name, *(["--builtin"] if study.builtin else [])]
    again += ["--out", str(study.folder.path)]
    suite = with_tuned_rates(suite, found, study.suite.tasks, shlex.join(again))
    notice(f"learning rates: {found.origin}")
    return replace(plan_study(suite, sets=sets or [], **options), rates=found.provenance)


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
