"""The checkpoints of a run: saved, pointed at, pruned, and found again after a crash."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from damcha_core.errors import CheckpointError
from damcha_core.files import disk_errors, replace_text, sync_folder
from damcha_core.train.checkpoint import (
    MANIFEST,
    Checkpoint,
    read_checkpoint,
    verify_checkpoint,
    write_checkpoint,
)

NAME = re.compile(r"step-\d{8,}")
LAST, BEST = "last", "best"
LONGEST_STEP = 20
"""Digits of a step number; a longer one names no checkpoint."""
POINTER_BYTES = 64
READ_ATTEMPTS, READ_PAUSE_SECONDS = 5, 0.02
TEMPORARY, REPLACED, PRUNED = ".tmp-", ".tmp-replaced-", ".tmp-pruned-"


class CheckpointStore:
    """The folder `checkpoints/` of a run.

    `last` and `best` are one-line files that name a checkpoint; they are replaced atomically and
    only after what they name is complete, so a reader never meets half a checkpoint.

    Args:
        folder: the folder; created when the first checkpoint is saved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """Checkpoints present, oldest first."""
        if not self.folder.is_dir():
            return []
        found = [p.name for p in self.folder.iterdir() if NAME.fullmatch(p.name) and p.is_dir()]
        return sorted(found, key=_step_of)

    def sweep(self) -> None:
        """Remove what a broken save left behind; only the process that trains may call this.

        Raises:
            DiskError: the folder cannot be written.
        """
        with disk_errors(self.folder):
            for replaced in sorted(self.folder.glob(f"{REPLACED}*")):
                final = self.folder / replaced.name.removeprefix(REPLACED)
                if not final.exists():  # stopped between the two renames of _publish
                    replaced.rename(final)
            sweep_temporaries(self.folder)

    def save(self, checkpoint: Checkpoint, *, best: bool, keep_last: int) -> str:
        """Save a checkpoint, move the pointers, and remove what is no longer kept.

        Args:
            checkpoint: what to save.
            best: True makes it the new `best`.
            keep_last: how many of the newest checkpoints stay, besides `best`.

        Returns:
            The name of the checkpoint.

        Raises:
            DiskError: the disk is full or cannot be written; older checkpoints are untouched.
        """
        name = f"step-{checkpoint.step:08d}"
        temporary = self.folder / f"{TEMPORARY}{name}"
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
        try:
            write_checkpoint(temporary, checkpoint)
            with disk_errors(self.folder):
                self._publish(temporary, self.folder / name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        replace_text(self.folder / LAST, name + "\n")
        if best:
            replace_text(self.folder / BEST, name + "\n")
        with disk_errors(self.folder):
            self._prune(keep_last)
        return name

    def _publish(self, temporary: Path, final: Path) -> None:
        if _same_manifest(temporary, final) and _is_intact(final):
            return  # resumed before this step and came out with the same bits
        if final.exists():
            replaced = self.folder / f"{REPLACED}{final.name}"
            shutil.rmtree(replaced, ignore_errors=True)
            final.rename(replaced)
            temporary.rename(final)
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            temporary.rename(final)
        sync_folder(self.folder)

    def _prune(self, keep_last: int) -> None:
        last = self.pointed(LAST)
        assert last is not None, "pruned right after `last` was written"
        # A higher number is of a future that was cut off, or of another run: neither counts as
        # new, and neither is ours to remove before this run has come past it.
        ours = [name for name in self.names() if _step_of(name) <= _step_of(last)]
        kept = {*ours[-keep_last:], self.pointed(BEST), last}
        for name in ours:
            if name not in kept:
                # Renamed first, so that a reader sees the whole of it or nothing.
                doomed = self.folder / f"{PRUNED}{name}"
                (self.folder / name).rename(doomed)
                shutil.rmtree(doomed, ignore_errors=True)

    def pointed(self, pointer: str) -> str | None:
        """The checkpoint that `last` or `best` names; None if the pointer is absent or damaged."""
        path = self.folder / pointer
        try:
            if not path.is_file() or path.stat().st_size > POINTER_BYTES:
                return None
            name = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return name if NAME.fullmatch(name) else None

    def load(self, which: str) -> tuple[str, Checkpoint]:
        """Read one checkpoint.

        Args:
            which: "last", "best", a step number, or a checkpoint's name.

        Returns:
            Its name and its content.

        Raises:
            CheckpointError: there is none of that name, or it is damaged.
        """
        # A run that is still training may replace what the pointer named, or rename a folder of
        # the same name into its place: look again then.
        for _ in range(READ_ATTEMPTS):
            name = self._name(which)
            before = _inode(self.folder / name)
            try:
                return name, self._read(name)
            except CheckpointError:
                if before is not None and before == _inode(self.folder / name):
                    raise
                time.sleep(READ_PAUSE_SECONDS)
        raise CheckpointError(f"{self.folder / self._name(which)}: no such checkpoint folder")

    def _name(self, which: str) -> str:
        if which in (LAST, BEST):
            name = self.pointed(which)
            if name is None:
                path = self.folder / which
                problem = "damaged: names no checkpoint" if path.exists() else "nothing saved yet"
                raise CheckpointError(f"{path}: {problem}")
            return name
        is_step = which.isdecimal() and len(which) <= LONGEST_STEP
        name = f"step-{int(which):08d}" if is_step else which
        if name not in self.names():
            present = ", ".join(self.names()) or "none"
            raise CheckpointError(f"{self.folder}: no checkpoint {which!r}; present: {present}")
        return name

    def _read(self, name: str) -> Checkpoint:
        checkpoint = read_checkpoint(self.folder / name)
        if checkpoint.step != _step_of(name):
            raise CheckpointError(
                f"{self.folder / name}: renamed: its manifest says step {checkpoint.step}"
            )
        return checkpoint

    def load_newest_good(
        self, notify: Callable[[str], None], require: Callable[[Path, Checkpoint], None]
    ) -> tuple[str, Checkpoint] | None:
        """Read `last`, or the newest older checkpoint that is whole and of this run.

        Args:
            notify: told about each checkpoint that is passed over.
            require: raises CheckpointError for a whole checkpoint that is of another run.

        Returns:
            Name and content; None if nothing was ever saved.

        Raises:
            CheckpointError: checkpoints were saved, and no good one is left.
        """
        problems: list[str] = []
        names = self.names()
        last = self.pointed(LAST)
        if last is not None and last not in names:
            problems.append(f"{self.folder / last}: missing although `last` names it")
            notify(problems[0])
        elif last is not None:
            names = [n for n in names if _step_of(n) <= _step_of(last)]
        for name in reversed(names):
            try:
                checkpoint = self._read(name)
                require(self.folder / name, checkpoint)
            except CheckpointError as error:
                problems.append(str(error))
                notify(f"{error}; falling back to the checkpoint before it")
                continue
            return name, checkpoint
        if problems:
            raise CheckpointError(
                f"{problems[0]}\nNo good checkpoint is left in {self.folder}; start a new run."
            )
        return None


def sweep_temporaries(folder: Path) -> None:
    """Remove the temporary files and folders that a killed process left in a folder."""
    for leftover in folder.glob(".tmp*"):  # with those that safetensors makes
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _inode(folder: Path) -> int | None:
    try:
        return folder.stat().st_ino
    except OSError:
        return None


def _is_intact(folder: Path) -> bool:
    try:
        verify_checkpoint(folder)
    except CheckpointError:
        return False
    return True


def _same_manifest(one: Path, other: Path) -> bool:
    try:
        return (one / MANIFEST).read_bytes() == (other / MANIFEST).read_bytes()
    except OSError:
        return False


def _step_of(name: str) -> int:
    return int(name.removeprefix("step-"))
