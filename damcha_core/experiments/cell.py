"""One run of a study: what it trains, and the command that trains it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from damcha_core.config.resolve import resolve_mapping
from damcha_core.config.schema import RunConfig

PROGRAM = "damcha"


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        id: its name in the study, and the name of its run folder.
        task: name of the task.
        attention: name of the attention or of the control.
        seed: of every random draw.
        settings: what differs from the recipe, by dotted key.
        origin: what a problem with its settings names as the place.
    """

    id: str
    task: str
    attention: str
    seed: int
    settings: Mapping[str, object] = field(default_factory=dict)
    origin: str = field(default="", compare=False)

    def config(self, out: Path) -> RunConfig:
        """Its settings in full, as its command resolves them.

        Args:
            out: the run folder.

        Raises:
            ConfigError: they are not valid; all problems are reported.
        """
        own = {
            "run.task": self.task,
            "attention.name": self.attention,
            "run.seed": self.seed,
            "run.out": str(out),
        }
        sections: dict[str, dict[str, object]] = {}
        for dotted, value in {**self.settings, **own}.items():
            section, _, key = dotted.partition(".")
            sections.setdefault(section, {})[key] = value
        return resolve_mapping(sections, origin=self.origin or self.id)

    def with_threads(self, threads: int) -> dict[str, object]:
        """Its settings with a number of threads, unless they name one."""
        return {"run.threads": threads, **self.settings} if threads else dict(self.settings)

    def command(self, out: Path, *, threads: int = 0) -> list[str]:
        """The command that trains it, on its own.

        Args:
            out: the run folder.
            threads: run.threads, unless the settings name it; 0: as the run decides.

        Returns:
            Words for a shell, the first one "damcha".
        """
        words = [PROGRAM, "train", "--task", self.task, "--attention", self.attention]
        words += ["--seed", str(self.seed), "--out", str(out)]
        for dotted, value in self.with_threads(threads).items():
            words += ["--set", f"{dotted}={as_toml(value)}"]
        return words


def as_toml(value: object) -> str:
    """A setting's value on one line of TOML.

    JSON's spelling of text, numbers, truth values and lists of them is TOML too.
    """
    return json.dumps(value, ensure_ascii=False)
