"""From an exception to a plain message and the documented exit code."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import Any

import typer

from damcha_cli.output import notice
from damcha_core.errors import ConfigError, DamchaError


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end with the exit code of the error it raises.

    A DamchaError becomes its message on stderr; Ctrl-C ends with 130; a full disk with 7. Anything
    else is a defect of ours and keeps its traceback (exit code 1).
    """

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except ConfigError as error:
            for problem in error.problems:
                notice(f"error: {problem}")
            raise typer.Exit(error.exit_code) from None
        except DamchaError as error:
            notice(f"error: {error}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            notice("stopped")
            raise typer.Exit(130) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            notice(f"error: the disk is full: {error}")
            raise typer.Exit(7) from None

    return run
