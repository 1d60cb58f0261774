"""A store set aside: it goes into a folder of its own, with all that belongs to it.

All functions block: call them in a worker thread.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..changes.version_log import FOLDER
from ..disk.data_lock import DataLock
from ..disk.private_folder import MODE, sync_path
from ..errors import NotFoundError, StorageError
from ..store.file import DATABASE_NAME, address_in, keep_address
from ..store.health.last_commit import SUFFIX
from ..store.restore import SIDE_SUFFIXES, finish_restore

_PREFIX = "callboard.aside-"

PARTS = (
    DATABASE_NAME,
    FOLDER,
    *(f"{DATABASE_NAME}{suffix}" for suffix in (*SIDE_SUFFIXES, SUFFIX)),
)
"""What belongs to a store, itself first: nothing is made where a log is left alone."""


def set_aside(folder: Path, *, moved_to: str | None = None) -> Path:
    """Move a store with its log and its file versions into a new folder; return that.

    It is a data folder itself, inside of the other. If this is cut off, the next call finishes it.

    Args:
        folder: The data folder.
        moved_to: The URL of the database that has a copy of the record, which is the folder's from now on. File versions
            stay, since what calls changed is still undone here.

    Raises:
        NotFoundError: There is nothing to set aside.
        ConflictError: The database does not hold all that the store has.
        DataInUse: A process works with the data folder.
        StorageError: The files can't be moved.
    """
    if not folder.is_dir():
        raise _nothing(folder)
    lock = DataLock(folder)
    try:
        finish_restore(folder, folder / DATABASE_NAME)
        if moved_to is not None and os.path.lexists(folder / DATABASE_NAME):
            _note_copy(folder, moved_to)
        is_moved = address_in(folder) is not None
        parts = [
            name
            for name in PARTS
            if os.path.lexists(folder / name) and not (is_moved and name == FOLDER)
        ]
        if not parts:
            raise _nothing(folder)
        target = _target(folder, parts)
        for name in parts:
            os.rename(folder / name, target / name)
        for changed in (target, folder):
            sync_path(changed)
    except OSError as error:
        raise StorageError(
            f"The store in {folder} can't be set aside: {error.strerror or error}. Nothing is lost: "
            "remove the cause, and do it again."
        ) from error
    finally:
        lock.release()
    return target


def _note_copy(folder: Path, url: str) -> None:
    """Note that a database has the record of a folder, before its file goes: so no moment has neither."""
    if address_in(folder) is not None:
        return  # looked at, and cut off behind that
    from .store_copy import check_copied  # here: few stores are moved to a database

    keep_address(folder, check_copied(folder, url))


def _target(folder: Path, parts: list[str]) -> Path:
    """Make a folder for a store; if that went before the rest, return where it is."""
    if DATABASE_NAME not in parts:
        for earlier in sorted(folder.glob(f"{_PREFIX}*"), reverse=True):
            names = os.listdir(earlier)
            if DATABASE_NAME in names and not set(names) & set(parts):
                return earlier
    stem, number = f"{_PREFIX}{time.strftime('%Y%m%d-%H%M%S')}", 1
    target = folder / stem
    while os.path.lexists(target):  # of the same second
        number += 1
        target = folder / f"{stem}-{number}"
    target.mkdir(mode=MODE)
    return target


def _nothing(folder: Path) -> NotFoundError:
    return NotFoundError(f"There is no store in {folder}: there is nothing to set aside.")
