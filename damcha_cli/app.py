"""The `damcha` program: mounts the commands and nothing else.

Importing this file must stay light: torch, pydantic and rich are imported by the commands that
need them, when they run.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from damcha_cli.commands import eval as eval_command
from damcha_cli.commands import export_results, generate, profile, reconstruct, train
from damcha_cli.commands.suite import suite_app
from damcha_cli.output import say
from damcha_core import __version__

app = typer.Typer(
    name="damcha",
    no_args_is_help=True,
    add_completion=False,
    # Plain help: it opens in a third of the time, and an error is one line instead of a box.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("eval")(eval_command.evaluate)
app.command("generate")(generate.generate)
app.command("reconstruct")(reconstruct.reconstruct)
app.command("profile")(profile.profile)
app.add_typer(suite_app, name="suite")
app.command("export-results")(export_results.export_results)


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        say(f"damcha {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train, evaluate and compare DAMCHA attention with published attentions."""


def main() -> None:
    """Run the program, whatever its output is connected to."""
    prepare_streams()
    try:
        app()
    except SystemExit as leaving:
        if not isinstance(leaving.__context__, BrokenPipeError):
            raise
        # The reader of our output left (as `head` does): nobody is there to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def prepare_streams() -> None:
    """Streams that are closed lead nowhere; characters that one cannot encode are escaped."""
    # In the order of their numbers: what is opened next gets the lowest free one.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays until the end)
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
