"""docs/reference/cli.md, from the Typer app."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer

from damcha_cli.app import app
from damcha_core import errors
from reference_pages.table import code, table

INTRODUCTION = """\
# Command line

`damcha` and `python -m damcha_cli` are the same program. Results go to standard output; progress,
notes and errors go to standard error. `--json` prints the result alone, for other programs. Where
the output is no terminal, progress comes as plain lines.

Every key of the [run file](run-file.md) can be set with `--set section.key=value`; the flags of
`damcha train` are short forms of the keys that change most."""

VALUES = {str: "TEXT", int: "N", float: "X", Path: "PATH", bool: ""}
# The codes that no class of damcha_core.errors stands for.
OTHER_CODES = {
    0: "Done. A finished run that is resumed has nothing left to do, which is 0 too.",
    1: "Cells of a study failed or diverged; or a defect of ours, with its traceback.",
    130: "Ctrl-C, after a checkpoint was saved.",
    143: "SIGTERM, after a checkpoint was saved.",
}


def cli_page() -> str:
    """The page: one section a command, then the exit codes."""
    sections = [command_section(name, command) for name, command in all_commands()]
    return "\n\n".join([INTRODUCTION, *sections, exit_codes()])


def all_commands() -> list[tuple[str, Any]]:
    """Every command with its whole name; those of a group stand in its place."""
    found: list[tuple[str, Any]] = []
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        found += (
            [(name, command)]
            if inner is None
            else [(f"{name} {part}", one) for part, one in inner.items()]
        )
    return found


def command_section(name: str, command: Any) -> str:
    """Usage, help text, arguments and options of one command."""
    arguments = [p for p in command.params if is_argument(p)]
    options = [p for p in command.params if not is_argument(p)]
    usage = " ".join(["damcha", name, *(metavar(command, p) for p in arguments), "[OPTIONS]"])
    parts = [f"## damcha {name}", f"```text\n{usage}\n```", inspect.cleandoc(command.help)]
    if arguments:
        rows = [[code(metavar(command, p)), p.help or ""] for p in arguments]
        parts.append(table(["argument", "meaning"], rows))
    rows = [
        [code(" ".join([*p.opts, metavar(command, p)]).strip()), default(p), p.help or ""]
        for p in options
    ]
    parts.append(table(["option", "default", "meaning"], rows))
    return "\n\n".join(parts)


def is_argument(parameter: Any) -> bool:
    """Whether a parameter is given by its place; the names of options start with a dash."""
    return not parameter.opts[0].startswith("-")


def metavar(command: Any, parameter: Any) -> str:
    """What stands for the value in the usage; nothing for a flag."""
    return parameter.metavar or VALUES[value_type(command, parameter.name)]


def value_type(command: Any, name: str) -> type:
    """The plain type of a parameter: str | None, list[str] and Annotated[str, ...] are str."""
    kind = inspect.signature(command.callback, eval_str=True).parameters[name].annotation
    while get_origin(kind) is not None:
        if get_origin(kind) in (Union, UnionType):
            kind = next(part for part in get_args(kind) if part is not type(None))
        elif get_origin(kind) in (Annotated, list):
            kind = get_args(kind)[0]
    return kind


def default(parameter: Any) -> str:
    """A default that says something; off and not given are left out."""
    if parameter.default in (None, False) or callable(parameter.default):
        return ""
    return code(str(parameter.default))


def exit_codes() -> str:
    """What each exit code means, from the classes that carry them."""
    meanings = dict(OTHER_CODES)
    for kind in vars(errors).values():
        if isinstance(kind, type) and "exit_code" in vars(kind) and kind.exit_code > 1:
            meanings[kind.exit_code] = inspect.getdoc(kind).splitlines()[0]
    rows = [[str(number), meanings[number]] for number in sorted(meanings)]
    return "## Exit codes\n\n" + table(["code", "meaning"], rows)
