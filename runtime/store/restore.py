"""The last steps of a restore: begun on record, so that whoever opens the store next finishes them.

A store and the file versions beside it can't change places in one step. So what is to be put in place is
made ready first, then a note is left that it is, and from then on the steps are only ever gone on with:
each looks at what is there, and may be done again. The store is the last of them: whoever reads
meanwhile reads the one before.
All of this blocks, and belongs into a worker thread of Trio; the caller holds the lock of the folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from ..changes.version_log import FOLDER
from ..disk.private_folder import sync_path
from ..errors import StorageError

NOTE = "callboard.restoring"
"""Stands in the data folder from the moment at which a restore can't be taken back until it is done."""

NEW_NAME = "callboard.restored.db"
"""A store that is about to be put in place."""
RESTORED = "callboard.restored.versions"
"""The file versions that are about to be put in place."""

_STEM = re.compile(r"callboard\.before[A-Za-z0-9_.-]{1,100}")
_SIDE_FILES = ("-wal", "-shm")


class Restoring(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a restore has yet to do.

    Attributes:
        stem: Of the names that what was there before gets.
        has_versions: Whether the backup tells of file versions; an older callboard's does not.
    """

    stem: str
    has_versions: bool


def begin_restore(folder: Path, restoring: Restoring) -> None:
    """Notes that all is ready: until this returns, or raises, nothing is changed."""
    new = folder / f"{NOTE}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, msgspec.json.encode(restoring))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(new, folder / NOTE)


def finish_restore(folder: Path, store: Path) -> None:
    """Goes on with a restore that was begun, if one was, and ends it.

    Raises:
        StorageError: It can't be finished now; the next attempt goes on with it.
    """
    try:
        noted = (folder / NOTE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StorageError(f"{folder / NOTE} can't be read: {error.strerror}.") from error
    try:
        restoring = msgspec.json.decode(noted, type=Restoring)
    except msgspec.DecodeError:
        restoring = Restoring("", has_versions=False)
    if not _STEM.fullmatch(restoring.stem):
        raise StorageError(
            f"{folder / NOTE} is damaged, so the restore that was begun there can't be finished. "
            "Remove it, and restore the backup again."
        )
    try:
        _finish(folder, store, restoring)
    except OSError as error:
        raise _unfinished(folder, error) from error


def _finish(folder: Path, store: Path, restoring: Restoring) -> None:
    sync_path(folder)
    new, stem = folder / NEW_NAME, folder / restoring.stem
    if os.path.lexists(new):
        _put_versions(folder, Path(f"{stem}.versions-before"), restoring.has_versions)
        for suffix in _SIDE_FILES:  # of the store before: to the new one they would be its own
            side = Path(f"{store}{suffix}")
            if os.path.lexists(side):
                os.rename(side, f"{stem}.db{suffix}")
        sync_path(folder)
        os.replace(new, store)
        sync_path(folder)
    os.unlink(folder / NOTE)
    sync_path(folder)


def _put_versions(folder: Path, before: Path, has_versions: bool) -> None:
    """Has the versions of the backup be those of the folder, which are none when it tells of none.

    As long as those of the backup wait, what is in their place is of before.
    """
    present, restored = folder / FOLDER, folder / RESTORED
    waits = os.path.lexists(restored)
    if (waits or not has_versions) and os.path.lexists(present):
        os.rename(present, before)
    if waits:
        os.rename(restored, present)


def _unfinished(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"A backup is being restored into {folder}, and that can't be finished: "
        f"{error.strerror or error}. Nothing is lost: mend that, and start callboard or restore the "
        "backup again, which goes on with it."
    )
