"""Child processes that are asked to stop when this process is."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from damcha_core.errors import DamchaError
from damcha_core.train.signals import SignalWatch
from damcha_core.train.world import WORLD_VARIABLES


class Stopped(DamchaError):  # noqa: N818 (being asked to stop is no error)
    """No child is started any more."""


class ChildProcesses(SignalWatch):
    """Context in which SIGINT and SIGTERM are handed on to all children as SIGTERM.

    The children have sessions of their own, so a Ctrl-C in a terminal reaches them once, through
    here. A first signal lets them save themselves; a second one reaches them too, and ends them at
    once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stopping = threading.Event()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._starting = threading.Lock()

    def run(
        self,
        command: Sequence[str],
        *,
        log: Path,
        output: Path | None = None,
        environment: Mapping[str, str],
        inherited: Sequence[int] = (),
    ) -> int:
        """Run a command to its end.

        Args:
            command: program and arguments.
            log: what it says is added to this file.
            output: what it prints on stdout goes to this file; None: to the log too.
            environment: its environment variables.
            inherited: handles that it keeps open.

        Returns:
            Its exit code; -N: it was ended by signal N.

        Raises:
            Stopped: no child is started any more.
        """
        with log.open("ab") as said, (output or log).open("ab") as printed:
            with self._starting:
                if self.stopping.is_set():
                    raise Stopped("stopped")
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=said,
                    env=dict(environment),
                    pass_fds=tuple(inherited),
                    start_new_session=True,
                )
                self._running[child.pid] = child
            if self.stopping.is_set():  # the signal came while it was being started
                child.terminate()
            try:
                return child.wait()
            finally:
                del self._running[child.pid]

    def stop(self) -> None:
        """Ask all children to save themselves and to stop."""
        self.stopping.set()
        for child in list(self._running.values()):
            child.terminate()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        super()._handle(number, _frame)
        self.stop()


def child_environment(source: Path, threads: int) -> dict[str, str]:
    """Variables for a child that runs the same source with a number of threads.

    Args:
        source: the folder that the packages lie in.
        threads: for every library that counts its own.
    """
    # A study started under torchrun must not make processes of that run of its cells.
    inherited = {name: text for name, text in os.environ.items() if name not in WORLD_VARIABLES}
    paths = [str(source), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "OMP_NUM_THREADS": str(threads),
    }
