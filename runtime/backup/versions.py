"""The file versions of a data folder inside a backup: a table of pieces, so that it stays one file.

They are read while calls add to them. A log is only added to, and its head, which is read first, says
what must be there: what is being written stands behind that, and counts as what a crash left.
All of this blocks, and belongs into a worker thread of Trio, whose cancellation it heeds.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import apsw
import trio

from ..changes.version_log import CHUNK_BYTES, FOLDER, has_whole_head
from ..disk.private_folder import sync_path
from ..errors import StorageError
from ..store.restore import RESTORED

_TABLE = "kept_versions"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\.log")
_HEAD_READS = 10
"""Somebody may be writing it while it is read."""


def add_versions(connection: apsw.Connection, folder: Path) -> None:
    """Puts the versions of a data folder into a backup of its store.

    Raises:
        StorageError: They can't be read.
        apsw.Error: The backup can't be written.
    """
    connection.execute(f"create table {_TABLE} (file text, data blob)")
    try:
        names = sorted(os.listdir(folder / FOLDER))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{folder / FOLDER} can't be read: {error.strerror}.") from error
    for name in filter(_NAME.fullmatch, names):
        with connection:
            _add(connection, folder / FOLDER / name)


def _add(connection: apsw.Connection, path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return  # its session was purged meanwhile
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}.") from error
    try:
        piece, at = _first_piece(descriptor), 0
        while piece:
            connection.execute(f"insert into {_TABLE} values (?, ?)", (path.name, piece))
            trio.from_thread.check_cancelled()
            at += len(piece)
            piece = os.pread(descriptor, CHUNK_BYTES, at)
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}.") from error
    finally:
        os.close(descriptor)


def _first_piece(descriptor: int) -> bytes:
    piece = os.pread(descriptor, CHUNK_BYTES, 0)
    for _ in range(_HEAD_READS):
        if has_whole_head(piece):
            break
        piece = os.pread(descriptor, CHUNK_BYTES, 0)
    return piece  # one that is damaged is kept as it is


def take_out_versions(connection: apsw.Connection, folder: Path) -> bool:
    """Moves the versions out of a store that is a copy of a backup, to where they wait for their place.

    Those that an earlier attempt left there are removed. `False` for a backup that has none to tell of,
    since it is of an older callboard.

    Raises:
        StorageError: A name in it can't be.
        OSError, apsw.Error: They can't be written, or read.
    """
    new = folder / RESTORED
    forget_restored(folder)
    if not connection.table_exists("main", _TABLE):
        return False
    new.mkdir(mode=0o700)
    for name, data in connection.execute(f"select file, data from {_TABLE} order by rowid"):
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(data, bytes):
            raise StorageError("The backup is damaged: a file version has a name that can't be.")
        _append(new / name, data)
        trio.from_thread.check_cancelled()
    for path in (*new.iterdir(), new):
        sync_path(path)
    connection.execute(f"drop table {_TABLE}")
    connection.execute("vacuum")  # else the store was as large as both for good
    return True


def forget_restored(folder: Path) -> None:
    """Removes what `take_out_versions` left, if it did."""
    shutil.rmtree(folder / RESTORED, ignore_errors=True)


def _append(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
