"""The file versions of a data folder inside a backup: a table of pieces, so a backup stays one file.

The logs are read while calls append to them. That is sound because logs only grow, and the head, which is
read first, says how much must be there: what is appended meanwhile comes after that, and is ignored like
the rest of a write that a crash cut off.

All functions block and check for cancellation: call them in a worker thread of Trio.
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
"""Attempts to read a head that may be written at the same time."""


def add_versions(connection: apsw.Connection, folder: Path) -> None:
    """Add the file versions of a data folder to a backup of its store.

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
    return piece  # a damaged head is copied as it is


def take_out_versions(connection: apsw.Connection, folder: Path) -> bool:
    """Move the file versions out of the copy of a backup into the folder `RESTORED`.

    Leftovers of an earlier attempt are removed. Returns `False` for a backup of an older callboard, which
    has no file versions.

    Raises:
        StorageError: The backup has an impossible file name.
        OSError, apsw.Error: They can't be written or read.
    """
    new = folder / RESTORED
    forget_restored(folder)
    if not connection.table_exists("main", _TABLE):
        return False
    new.mkdir(mode=0o700)
    for name, data in connection.execute(f"select file, data from {_TABLE} order by rowid"):
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(data, bytes):
            raise StorageError("The backup is damaged: a file version has an impossible name.")
        _append(new / name, data)
        trio.from_thread.check_cancelled()
    for path in (*new.iterdir(), new):
        sync_path(path)
    connection.execute(f"drop table {_TABLE}")
    connection.execute("vacuum")  # otherwise the store would keep the room of both
    return True


def forget_restored(folder: Path) -> None:
    """Remove the folder that `take_out_versions` made, if there is one."""
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
