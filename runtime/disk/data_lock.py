"""The lock that lets one process at a time write to a data folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ..errors import ConflictError, StorageError

LOCK_NAME = "callboard.lock"

MAX_PID_BYTES = 32
"""More than the digits of a pid: a lock file may hold anything."""


class DataInUse(ConflictError):
    """Another process writes to the data folder; `holder` names it if it is known."""

    def __init__(self, message: str, *, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


def check_free(folder: Path) -> None:
    """Raise `DataInUse` if a writer holds the lock on a data folder."""
    if (folder / LOCK_NAME).exists():
        DataLock(folder).release()


def is_held_by(folder: Path, pid: int) -> bool:
    """Return whether a process that lives has the lock of a data folder, without taking it meanwhile."""
    try:
        holder = (folder / LOCK_NAME).read_bytes()[:MAX_PID_BYTES].strip()
        os.kill(pid, 0)
    except OSError:
        return False
    return holder == b"%d" % pid


class DataLock:
    """An flock on a data folder, held until `release()` or the end of the process.

    The kernel releases it when the process dies, however it dies, so there are no stale locks. The file
    is never removed: then two processes could lock two files of one name.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            DataInUse: Another writer holds it.
            StorageError: The lock file can't be made or locked.
        """
        self.path = folder / LOCK_NAME
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise StorageError(
                f"The lock file {self.path} can't be opened: {error.strerror}. callboard must be "
                "able to write to its data directory: change its permissions, or choose another one."
            ) from error
        try:
            self._take(folder)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _take(self, folder: Path) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = self._holder()
            raise DataInUse(
                f"{folder} is in use by {holder}. Only one callboard can write to a data "
                "directory: stop that one first, or choose another data directory.",
                holder=holder,
            ) from error
        except OSError as error:
            raise StorageError(
                f"{self.path} can't be locked: {error.strerror}. The data directory must be on a "
                "file system with flock; choose another one."
            ) from error
        # The pid is only for messages: on a full disk the lock works without it.
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except OSError:
            pass

    def _holder(self) -> str:
        text = os.pread(self._descriptor, MAX_PID_BYTES, 0).strip()
        # The file is empty between another process's flock and its write.
        return f"process {int(text)}" if text.isdigit() else "another process"

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            # Closing is not enough: a child between fork and exec still has a copy.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1
