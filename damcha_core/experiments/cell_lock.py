"""The lock of a cell, which the process that trains it holds even when its runner is killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from filelock import FileLock, Timeout

from damcha_core.files import disk_errors


class CellLock:
    """A lock on a file that child processes can hold on to.

    A killed runner leaves its children at work. A child that was handed `inherited` keeps the lock
    from its first instant to its last, so no other runner starts the cell meanwhile. On Windows,
    where a lock cannot be inherited, the lock of the run folder alone tells of such a child.

    Args:
        path: the file; it is made if need be and stays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1
        self._windows: FileLock | None = None

    def acquire(self) -> bool:
        """Take the lock, if nobody has it.

        Returns:
            Whether it is held now.

        Raises:
            DiskError: the file cannot be made.
        """
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if sys.platform == "win32":
                return self._acquire_on_windows()
            import fcntl

            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return False
            except BaseException:
                os.close(handle)
                raise
        self._handle = handle
        return True

    def _acquire_on_windows(self) -> bool:
        lock = FileLock(self.path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return False
        self._windows = lock
        return True

    @property
    def inherited(self) -> tuple[int, ...]:
        """What a child process has to be handed (pass_fds) to hold the lock too."""
        return () if self._handle < 0 else (self._handle,)

    def release(self) -> None:
        """Let go; the lock is free once its children let go as well."""
        if self._windows is not None:
            self._windows.release()
        if self._handle >= 0:
            # Unlocking would take the lock from the children too; closing does not.
            os.close(self._handle)
        self._handle, self._windows = -1, None
