"""The damcha program as tests call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import damcha_core
from damcha_cli.app import app

SMALL = (
    *("--device", "cpu", "--set", "run.threads=1"),
    *("--set", "model.d_model=16", "--set", "model.n_heads=2", "--set", "model.d_ff=16"),
    *("--set", "model.n_layers=1", "--set", "attention.mlp_hidden=[8]"),
    *("--set", "train.warmup_steps=2"),
)
"""A model that trains in no time; everything else is the recipe's."""


@dataclass(frozen=True)
class Answer:
    """How a command ended.

    Attributes:
        code: exit code.
        out: what it printed as its result.
        err: what it said on the way.
        bug: the exception that the program did not expect.
    """

    code: int
    out: str
    err: str
    bug: BaseException | None = None

    def done(self) -> Answer:
        """Itself, if all went well."""
        assert self.code == 0, (self.code, self.err, self.bug)
        return self

    def json(self) -> Any:
        """The result as JSON, with nothing beside it on stdout."""
        return json.loads(self.done().out)

    def refused(self, code: int, *words: str, most_lines: int = 2) -> None:
        """Check a refusal: its code, its few plain lines, and no result."""
        assert (self.code, self.bug) == (code, None), (self.code, self.err, self.bug)
        assert not self.out
        lines = self.err.splitlines()
        assert lines[0].startswith("error: ")
        assert len(lines) <= most_lines, self.err
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, (word, self.err)


def damcha(*arguments: object) -> Answer:
    """Call the program in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    expected = isinstance(result.exception, SystemExit | None)
    return Answer(
        result.exit_code, result.stdout, result.stderr, None if expected else result.exception
    )


def python(*arguments: object, **environment: str) -> Answer:
    """Call another Python that finds the packages, with some variables added."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=child_environment(**environment),
        capture_output=True,
        timeout=120,
        check=False,
    )
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return Answer(done.returncode, out, err)


def child_environment(**environment: str) -> dict[str, str]:
    """Variables for a child process."""
    root = str(Path(damcha_core.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1", **environment}
