"""Stubs: empty entries on the host for protected names that are missing.

A mount needs something to be mounted on. A *stub* is that: an empty folder or a small file without any
right to write. Nobody else sees it (`workspace.protected_places`). Sandboxes that run at once share it. Each holds a shared lock on it, and the last one, which
gets the lock alone, removes it. One that a crash left is recognized by its mode and content and taken over.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import NamedTuple

from ...workspace.protected_places import is_stub

MODE = 0o555
"""Without rights to write, which no umask adds."""
CLOSED_MODE = 0o444
"""The mode of a folder that can't be entered, so that git does not take it for a part of a repository."""
MAX_TRIES = 100
"""A stub that is just being removed is gone after some microseconds."""


class Stub(NamedTuple):
    """A stub in use: where it is, and the descriptor that holds its lock."""

    path: str
    descriptor: int


def take(path: str, content: bytes | None, mode: int = MODE) -> Stub | None:
    """Make or share the stub of a path, which must not be a link: a file with this content, or an empty folder.

    Returns `None` when something else is there, or it can't be made.
    """
    for _ in range(MAX_TRIES):
        if not os.path.lexists(path):
            try:
                _make(path, content, mode)
            except FileExistsError:
                continue
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                    return None  # What we can't make, the program can't either.
                raise
        elif not is_stub(path, content):
            return None
        if (fd := _lock(path)) is not None:
            return Stub(path, fd)
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)


def give_up(stub: Stub) -> None:
    """Remove a stub if nobody else uses it."""
    path, fd = stub
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(path, fd):
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                os.rmdir(path)  # fails when it is not empty
            elif not os.fstat(fd).st_mode & 0o222:
                os.unlink(path)
    except OSError:
        pass  # Another sandbox uses it, or somebody put something in its place.
    finally:
        os.close(fd)


def _make(path: str, content: bytes | None, mode: int) -> None:
    if content is None:
        os.mkdir(path, mode)
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def _lock(path: str) -> int | None:
    """Return a descriptor with a shared lock on a stub; `None` when it is just being removed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if _is_at(path, fd):
            return fd
    except OSError:
        pass  # Whoever removes it holds the lock.
    os.close(fd)
    return None


def _is_at(path: str, fd: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    own = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)
