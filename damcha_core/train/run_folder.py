"""The run folder: everything a run leaves behind, readable anywhere it is moved to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from torch import Tensor

from damcha_core.config.document import to_toml
from damcha_core.config.resolve import config_from_run
from damcha_core.config.schema import RunConfig
from damcha_core.errors import CheckpointError, UsageError
from damcha_core.files import (
    disk_errors,
    read_json_object,
    replace_bytes,
    replace_file,
    replace_json,
    replace_text,
)
from damcha_core.tasks.task import TaskFacts
from damcha_core.train.checkpoint_store import CheckpointStore, sweep_temporaries
from damcha_core.train.tensor_file import write_tensors

DEFAULT_PARENT = Path("runs")


class RunFolder:
    """Paths and small files of one run.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "run.toml"
        self.environment_file = path / "environment.json"
        self.facts_file = path / "facts.json"
        self.metrics_file = path / "metrics.jsonl"
        self.result_file = path / "result.json"
        self.samples = path / "samples"
        self.mean_picture_file = path / "mean_picture.safetensors"
        self.checkpoints = CheckpointStore(path / "checkpoints")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder.

        Raises:
            CheckpointError: there is no run in that folder.
        """
        folder = cls(path)
        try:
            found, exists = folder.config_file.is_file(), path.exists()
        except OSError as error:  # a folder above that may not be entered, or an overlong name
            raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
        if not found:
            what = "no run.toml in it" if exists else "no such folder"
            raise CheckpointError(f"{path}: not a run folder: {what}")
        return folder

    @classmethod
    def for_new_run(cls, config: RunConfig) -> RunFolder:
        """The folder a new run goes to: run.out, runs/<run.name>, or the next free default name.

        Nothing is created yet, except that a default name is not held for the caller.

        Raises:
            UsageError: the named folder holds a run already or cannot be a folder.
        """
        if config.run.out or config.run.name:
            path = Path(config.run.out) if config.run.out else DEFAULT_PARENT / config.run.name
            _require_usable(path)
            return cls(path)
        stem = f"{config.run.task}-{config.attention.name}-s{config.run.seed}"
        path, number = DEFAULT_PARENT / stem, 1
        while path.exists():
            number += 1
            path = DEFAULT_PARENT / f"{stem}-{number}"
        _require_usable(path)
        return cls(path)

    @contextmanager
    def claim(self, config: RunConfig) -> Iterator[None]:
        """Make the folder with run.toml in it, before anything else, and hold its lock.

        Args:
            config: resolved settings with the horizon fixed.

        Raises:
            UsageError: another process was quicker to put a run there.
            DiskError: the folder cannot be made or written.
        """
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with self.lock():
            _require_no_run(self.path)
            self.store_config(config)
            yield

    def store_config(self, config: RunConfig) -> None:
        """Write run.toml.

        Raises:
            DiskError: it cannot be written.
        """
        replace_text(self.config_file, to_toml(config))

    def store_facts(self, facts: TaskFacts) -> None:
        """Write facts.json.

        Raises:
            DiskError: it cannot be written.
        """
        replace_json(self.facts_file, facts.to_mapping())

    def store_assets(self, assets: Mapping[str, bytes]) -> None:
        """Keep files of the data without which the model is of no use.

        Raises:
            DiskError: they cannot be written.
        """
        for name, content in assets.items():
            replace_bytes(self.path / name, content)

    def store_mean_picture(self, picture_CSS: Tensor) -> None:
        """Keep what `damcha reconstruct` needs of the training pictures once they are gone.

        Raises:
            DiskError: it cannot be written.
        """
        replace_file(
            self.mean_picture_file,
            lambda file: write_tensors(file, {"mean_picture": picture_CSS}),
            needed_bytes=picture_CSS.nbytes,
        )

    def sweep(self) -> None:
        """Remove what a killed process left behind; only the process that trains may call this.

        Raises:
            DiskError: the folder cannot be written.
        """
        with disk_errors(self.path):
            sweep_temporaries(self.path)
        self.checkpoints.sweep()

    def prepare_samples(self) -> Path:
        """The folder samples/, made if it is not there.

        Raises:
            DiskError: it cannot be made.
        """
        with disk_errors(self.samples):
            self.samples.mkdir(exist_ok=True)
        return self.samples

    def keep_samples(self, stem: str, files: Mapping[str, str]) -> None:
        """Write what a model made of a split into samples/.

        Args:
            stem: names of the files without their endings.
            files: content by ending.

        Raises:
            DiskError: they cannot be written.
        """
        if files:
            self.prepare_samples()
        for ending, text in files.items():
            replace_text(self.samples / f"{stem}.{ending}", text)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep a second process from training into the same folder.

        Raises:
            UsageError: another process is training here.
            DiskError: the folder cannot be written.
        """
        lock = FileLock(self.path / ".lock")
        try:
            with disk_errors(self.path):
                lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(f"{self.path}: another process is training in this folder") from None
        try:
            yield
        finally:
            lock.release()

    def read_config(self) -> RunConfig:
        """The resolved settings the run was started with."""
        return config_from_run(self.config_file)

    def read_facts(self, kind: type[TaskFacts]) -> TaskFacts:
        """The facts of the data the run was started with.

        Args:
            kind: those of its task.

        Raises:
            CheckpointError: facts.json is missing or damaged.
        """
        try:
            return kind.from_mapping(self._read_json(self.facts_file))
        except KeyError as error:
            raise CheckpointError(f"{self.facts_file}: damaged: it has no {error}") from error
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{self.facts_file}: damaged: {error}") from error

    def read_assets(self, names: Iterable[str]) -> dict[str, bytes]:
        """The files that the run kept of its data.

        Raises:
            CheckpointError: one is missing or cannot be read.
        """
        assets = {}
        for name in names:
            try:
                assets[name] = (self.path / name).read_bytes()
            except OSError as error:
                raise CheckpointError(
                    f"{self.path / name}: cannot be read: {error.strerror}; the run is of no use "
                    "without it"
                ) from error
        return assets

    def read_result(self) -> dict[str, Any]:
        """The content of result.json.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        return self._read_json(self.result_file)

    def resumed_from(self) -> str:
        """Name of the checkpoint that the newest start went on from; empty for a fresh one."""
        starts = self._starts()
        return str(starts[-1].get("resumed_from", "")) if starts else ""

    def add_environment(self, entry: dict[str, Any]) -> None:
        """Append one start of the run to environment.json.

        Raises:
            CheckpointError: the file is damaged.
            DiskError: it cannot be written.
        """
        replace_json(self.environment_file, {"starts": [*self._starts(), entry]})

    def _starts(self) -> list[dict[str, Any]]:
        if not self.environment_file.exists():
            return []
        starts = self._read_json(self.environment_file).get("starts")
        if not isinstance(starts, list) or not all(isinstance(start, dict) for start in starts):
            raise CheckpointError(f"{self.environment_file}: damaged: it has no list of starts")
        return starts

    @staticmethod
    def _read_json(path: Path) -> dict[str, Any]:
        try:
            return read_json_object(path)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: missing or damaged") from error


def _require_no_run(path: Path) -> None:
    if (path / "run.toml").exists() or (path / "checkpoints").exists():
        raise UsageError(
            f"{path} already holds a run; continue it with `damcha train --resume {path}` "
            "or choose another --out or --name"
        )


def _require_usable(path: Path) -> None:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # too long, not to be searched, a NUL in it
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"--out {path}: cannot be used: {reason}") from None
    _require_no_run(path)
    place = next(p for p in [path, *path.absolute().parents] if p.exists())
    if not place.is_dir():
        raise UsageError(f"--out {path}: {place} is a file, not a folder")
    probe = place / f".tmp-writable-{id(path)}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise UsageError(f"--out {path}: cannot write there: {error.strerror}") from None
