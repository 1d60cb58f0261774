"""Upkeep of a store that nobody uses: upgrade its format, and give free space back to the disk.

Both take the lock of the data folder and block: call them in a worker thread of Trio.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import apsw
import msgspec

from ..disk.data_lock import DataLock
from ..disk.private_folder import sync_path
from ..errors import StorageError
from ..store.file import DATABASE_NAME, open_reading, open_writer, stored_version
from ..store.ledger import full_disk_named, storage_error
from ..store.lists import StoreSize
from ..store.migrations import MIGRATIONS
from ..store.queries import Queries
from .versions import add_versions


class Formats(msgspec.Struct, frozen=True, kw_only=True):
    """The format of a store, and the one that this callboard writes."""

    stored: int
    written: int

    @property
    def is_old(self) -> bool:
        """Whether there is something to upgrade."""
        return self.stored < self.written


def formats(folder: Path) -> Formats:
    """Return the formats of a data folder's store without changing it; see `stored_version`."""
    return Formats(stored=stored_version(folder), written=len(MIGRATIONS))


def upgrade(folder: Path) -> Path | None:
    """Upgrade a store to the present format, after making a backup beside it.

    Returns:
        The backup; `None` if there was nothing to do.

    Raises:
        NotFoundError: There is no store.
        DataInUse: A process works with it.
        StorageError: It can't be read or written; it was not changed.
    """
    found = formats(folder)
    if not found.is_old:
        return None
    lock = DataLock(folder)
    try:
        when = time.strftime("%Y%m%d-%H%M%S")
        backup = folder / f"callboard.format-{found.stored}-{when}.db"
        _copy(folder, backup)
        _checked(folder)
        return backup
    except apsw.Error as error:
        raise storage_error(str(folder / DATABASE_NAME), error) from error
    finally:
        lock.release()


def stored_size(folder: Path) -> StoreSize:
    """Return the size of a data folder's store, also while it is in use.

    Raises:
        NotFoundError: There is no store.
        StorageError: It can't be read.
    """
    with closing(open_reading(folder)) as connection:
        return Queries(connection, str(folder / DATABASE_NAME)).size()


def compact(folder: Path) -> tuple[StoreSize, StoreSize]:
    """Rewrite a store without its free pages; return the sizes before and after.

    Meanwhile this needs room on the disk for a second copy.

    Raises:
        NotFoundError: There is no store.
        DataInUse: A process works with it.
        StorageError: It can't be read, or there is no room; it was not changed.
    """
    stored_version(folder)
    lock = DataLock(folder)
    try:
        name = str(folder / DATABASE_NAME)
        with closing(open_writer(folder)) as connection, full_disk_named(name, connection):
            queries = Queries(connection, str(folder / DATABASE_NAME))
            before = queries.size()
            connection.execute("vacuum")
            connection.execute("pragma wal_checkpoint(truncate)")
            return before, queries.size()
    except apsw.Error as error:
        raise storage_error(str(folder / DATABASE_NAME), error) from error
    finally:
        lock.release()


def _copy(folder: Path, target: Path) -> None:
    """Write a backup of a store of any format, for its owner alone; on an error, leave nothing."""
    path = folder / DATABASE_NAME
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StorageError(f"{target} can't be written: {error.strerror or error}.") from error
    try:
        flags = apsw.SQLITE_OPEN_READWRITE
        with (
            closing(apsw.Connection(os.fspath(path), flags=flags)) as connection,
            full_disk_named(str(target), connection),
        ):
            connection.execute("vacuum into ?", (os.fspath(target),))
        with closing(apsw.Connection(os.fspath(target), flags=flags)) as copied:
            copied.pragma("journal_mode", "delete")
            add_versions(copied, folder)
        sync_path(target)
        sync_path(target.parent)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _checked(folder: Path) -> None:
    """Open the store, which migrates it, and check all of it."""
    with closing(open_writer(folder)) as connection:
        finding = connection.pragma("quick_check")
    if finding != "ok":
        raise StorageError(
            f"{folder / DATABASE_NAME} is damaged ({finding}). Put a backup back with "
            "`callboard restore`."
        )
