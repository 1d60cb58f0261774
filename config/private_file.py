"""Small files that are their owner's alone: read with suspicion, replaced whole, under a lock."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..runtime.disk.private_folder import check_folder, hold, is_left, make_folders, sync_path
from ..runtime.errors import ConflictError, StorageError, StorageFull
from ..runtime.redaction import redacting_logger

MODE = 0o600

MAX_WAIT_SECONDS = 10.0
"""Longest wait for a lock: whoever holds one writes some kilobytes, or hangs."""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")

logger = redacting_logger(__name__)

POLL_SECONDS = 0.02
"""Pause between two tries: flock has no timeout of its own."""


def make_private_folder(folder: Path) -> None:
    """Make a folder for its owner alone, if it is missing.

    Raises:
        StorageError: It can't be made, or others can write to it.
    """
    try:
        make_folders(folder)
        check_folder(folder)
    except OSError as error:
        raise _error(folder, error, "made") from error


def read_private(path: Path, max_bytes: int) -> bytes | None:
    """Return the content of a file that only its owner can read; `None` when there is none.

    Raises:
        StorageError: It can't be read, is larger than `max_bytes`, is a link or another special
            file, belongs to somebody else, or can be read or written by others.
    """
    # O_NONBLOCK: the name may be a pipe's.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK}:
            raise _unsafe(path, "is a symbolic link. Put the file itself there.") from error
        raise _error(path, error, "read") from error
    try:
        _check(path, os.fstat(descriptor), max_bytes)
        return os.read(descriptor, max_bytes)
    except OSError as error:
        raise _error(path, error, "read") from error
    finally:
        os.close(descriptor)


def write_private(path: Path, data: bytes, *, replace: bool) -> None:
    """Write a file whole and durably, with mode 0600.

    Raises:
        FileExistsError: It exists, and `replace` is false.
        StorageError: It can't be written.
    """
    try:
        while not _written(temporary_for(path), path, data, replace=replace):
            logger.info("%s is written once more: its temporary file was swept", path)
        sync_path(path.parent)
    except FileExistsError:
        raise
    except OSError as error:
        raise _error(path, error, "written") from error


def _written(temporary: Path, path: Path, data: bytes, *, replace: bool) -> bool:
    """Write a file; return `False` if another writer swept the temporary one, as may be before it is held."""
    try:
        descriptor = write_new(temporary, data)
        try:
            os.fsync(descriptor)
            if replace:
                temporary.replace(path)
            else:
                os.link(temporary, path)
        except FileNotFoundError:
            if os.fstat(descriptor).st_nlink:
                raise
            return False
        finally:
            os.close(descriptor)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def temporary_for(path: Path) -> Path:
    """Return a free name to write a private file under, after removing what dead processes left in the folder."""
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if not _TEMPORARY.fullmatch(entry.name):
                continue
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if is_left(entry.name, folder):
                    os.unlink(entry.name, dir_fd=folder)
                    logger.warning("removed %s, an unfinished write", entry.path)
            finally:
                os.close(folder)
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold a lock file for the block, and make it if it is missing; blocks.

    The kernel releases the lock when the process ends, however it does. The file is never removed:
    otherwise two programs could lock two files of one name.

    Raises:
        ConflictError: Another program holds the lock for too long.
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


def write_new(path: Path, data: bytes) -> int:
    """Write a new file of mode 0600 and return its descriptor, which holds it locked; raise `OSError`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, MODE)
    hold(descriptor)
    try:
        os.fchmod(descriptor, MODE)  # whatever the umask is
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(path: Path, found: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unsafe(path, "is not a plain file.")
    if found.st_uid != os.geteuid():
        raise _unsafe(path, f"belongs to user {found.st_uid}, not to you ({os.geteuid()}).")
    if found.st_mode & 0o077:
        raise _unsafe(path, f"is open to others: chmod 600 {path}")
    if found.st_size > max_bytes:
        raise _unsafe(path, f"has {found.st_size} bytes, more than {max_bytes}: is it another one?")


def _unsafe(path: Path, why: str) -> StorageError:
    return StorageError(f"{path} is not used: it {why}")


def _error(path: Path, error: OSError, verb: str) -> StorageError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFull(f"There is no room for {path}: the disk is full. Free some space.")
    return StorageError(f"{path} can't be {verb}: {error.strerror or error}.")
