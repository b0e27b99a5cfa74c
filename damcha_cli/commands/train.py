"""`damcha train`: a new run, or `--resume` of one that stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from damcha_cli.errors import one_voice, reported
from damcha_cli.options import ATTENTIONS, TASKS, DeviceOption, JsonOption, SetOption

if TYPE_CHECKING:
    from damcha_core.config.schema import RunConfig
    from damcha_core.train.observer import Observer
    from damcha_core.train.run import RunOutcome
    from damcha_core.train.world import World


@reported
def train(
    task: Annotated[
        str | None, typer.Option(help=f"One of {TASKS}; without a run file: digits.")
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help=f"One of {ATTENTIONS}; without a run file: damcha.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Run file (TOML).")] = None,
    sets: SetOption = None,
    name: Annotated[str | None, typer.Option(help="Run folder runs/NAME.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder as a path.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Continue the run in this folder.")
    ] = None,
    device: DeviceOption = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a micro-batch.")] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32, bfloat16, float16 or float64.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, make one step, write nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a model; with no options: damcha on the built-in digits.

    A flag beats --set, --set beats the run file, the run file beats the task's recipe.
    """
    from damcha_core.train.world import joined_world

    flags: dict[str, object] = {
        "run.task": task,
        "attention.name": attention,
        "run.name": name,
        "run.out": out,
        "run.device": device,
        "run.seed": seed,
        "train.epochs": epochs,
        "train.batch_size": batch_size,
        "train.lr": lr,
        "train.precision": precision,
    }
    world = joined_world()
    with one_voice(world):
        world.together(lambda: _require_fitting(world, config, resume, dry_run))
        if resume is not None:
            outcome = _resume(resume, sets or [], flags, world)
        else:
            settings = world.together(lambda: _resolved(config, sets or [], flags))
            if dry_run:
                _rehearse(settings, as_json)
                return
            outcome = _start(settings, world)
        if world.leads:
            _print_outcome(outcome, as_json)


def _require_fitting(world: World, config: Path | None, resume: Path | None, dry_run: bool) -> None:
    """Refuse options that do not go together."""
    from damcha_core.errors import UsageError

    if resume is not None and (config is not None or dry_run):
        other = "--config" if config is not None else "--dry-run"
        raise UsageError(
            f"--resume goes with the settings stored in the run, not with {other}; "
            "change single ones with --set"
        )
    if dry_run and world.size > 1:
        raise UsageError("--dry-run makes the steps of one process; start it without torchrun")


def _resolved(config: Path | None, sets: list[str], flags: dict[str, object]) -> RunConfig:
    from damcha_core.config.resolve import resolve

    return resolve(config, sets, flags)


def _start(settings: RunConfig, world: World) -> RunOutcome:
    from damcha_core.train.run import start

    return start(settings, _observer(world), world)


def _resume(folder: Path, sets: list[str], flags: dict[str, object], world: World) -> RunOutcome:
    from damcha_core.train.run import resume

    return resume(folder, _observer(world), sets=sets, flags=flags, world=world)


def _observer(world: World) -> Observer:
    from damcha_cli.progress import build_progress
    from damcha_core.train.observer import Observer

    return build_progress() if world.leads else Observer()


def _print_outcome(outcome: RunOutcome, as_json: bool) -> None:
    from damcha_cli.output import notice, print_json
    from damcha_cli.report import print_run

    if outcome.already_complete:
        notice(f"{outcome.folder} is complete (ended by {outcome.ended}); nothing was trained")
    if as_json:
        print_json(outcome.result)
    else:
        print_run(outcome.result, str(outcome.folder))


def _rehearse(settings: RunConfig, as_json: bool) -> None:
    from damcha_cli.output import print_json
    from damcha_cli.progress import build_progress
    from damcha_cli.report import plan_record, print_plan
    from damcha_core.train.rehearsal import rehearse

    plan = rehearse(settings, build_progress())
    if as_json:
        print_json(plan_record(plan))
    else:
        print_plan(plan)
