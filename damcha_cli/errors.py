"""From an exception to a plain message and the documented exit code."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from damcha_cli.output import notice
from damcha_core.errors import ConfigError, DamchaError, Interrupted

if TYPE_CHECKING:
    from damcha_core.train.world import World


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end with the exit code of the error it raises.

    A DamchaError becomes its message on stderr; Ctrl-C ends with 130; a full disk with 7. Anything
    else is a defect of ours and keeps its traceback (exit code 1). A reader of our output that
    left is for main() to see.
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        with told():
            command(*arguments, **options)

    return run


@contextmanager
def told(speaks: Callable[[BaseException], bool] = lambda _error: True) -> Iterator[None]:
    """Tell of the errors that a person can mend, and end the program with their exit code.

    Args:
        speaks: asked about the error: False ends the program without a word.
    """

    def say(error: BaseException, text: str) -> None:
        if speaks(error):
            notice(text)

    try:
        yield
    except ConfigError as error:
        say(error, "\n".join(f"error: {problem}" for problem in error.problems))
        raise typer.Exit(error.exit_code) from None
    except Interrupted as stop:
        say(stop, str(stop))
        raise typer.Exit(stop.exit_code) from None
    except DamchaError as error:
        say(error, f"error: {error}")
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt as stop:
        say(stop, "stopped")
        raise typer.Exit(130) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        say(error, f"error: the disk is full: {error}")
        raise typer.Exit(7) from None


@contextmanager
def one_voice(world: World) -> Iterator[None]:
    """Let the processes of one run tell their errors once and end together.

    An error that all of them know of is told by the leader, and nobody leaves before it has
    spoken, because a launcher kills the others when the first one ends. An error of one process
    is told by that one; the others then miss it, and one of them may say so if nobody has spoken.

    Args:
        world: the processes; one process is left to `reported`.
    """
    if world.size == 1:
        yield
        return
    from damcha_core.train.process_group import ManyProcesses

    assert isinstance(world, ManyProcesses)

    def speaks(error: BaseException) -> bool:
        if world.agreed or isinstance(error, KeyboardInterrupt):
            return world.leads
        return world.may_tell(error)

    failed = True
    try:
        with told(speaks):
            yield
        failed = False
    except typer.Exit as leaving:
        if not world.agreed and isinstance(leaving.__context__, DamchaError):
            # What waits inside torch for processes that are gone could hold up a usual end.
            os._exit(leaving.exit_code)
        raise
    finally:
        world.close(failed=failed)
