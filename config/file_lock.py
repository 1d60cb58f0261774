"""A lock on a file's name, so that two programs that change what it stands for take turns."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..runtime.errors import ConflictError, StorageError

MAX_WAIT_SECONDS = 10.0
"""Whoever holds it writes a few kilobytes; one that takes longer hangs, and says nothing."""

POLL_SECONDS = 0.02
"""flock has no deadline of its own; this short a pause is not felt."""


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Holds the lock for the block, and makes its file if it is missing; blocks.

    The kernel gives it up with the process, however that ends. The file stays: removing it would
    let two programs lock two files of one name.

    Raises:
        ConflictError: Another program holds it and does not let go.
        StorageError: The file can't be made or locked.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise StorageError(
            f"The lock file {path} can't be opened: {error.strerror}. callboard must be able to "
            "write to that folder."
        ) from error
    try:
        _take(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConflictError(
                    f"Another callboard holds {path} locked. End it, and try again."
                ) from None
        except OSError as error:
            raise StorageError(
                f"{path} can't be locked: {error.strerror}. It must be on a file system with flock."
            ) from error
        time.sleep(POLL_SECONDS)
