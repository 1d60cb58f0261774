"""The last steps of a restore, which the next opening of the store finishes after a crash.

A store and the file versions beside it can't be replaced in one step. So the replacements are made ready
first, then a note is written, and from then on the steps only go forward: each looks at what is there
and can be repeated. The store is replaced last, so readers see the old one until then.

All functions block: call them in a worker thread, holding the lock of the folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from ..changes.version_log import FOLDER
from ..disk.private_folder import sync_path
from ..errors import StorageError
from ..text import UNDECODABLE
from .health.last_commit import SUFFIX

NOTE = "callboard.restoring"
"""The note. It is in the data folder from the moment at which a restore can't be undone to its end."""

NEW_NAME = "callboard.restored.db"
"""The store that will be put in place."""
RESTORED = "callboard.restored.versions"
"""The file versions that will be put in place."""

SIDE_SUFFIXES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file. A file that gets the name of another takes that one's for its own."""

_STEM = re.compile(r"callboard\.before[A-Za-z0-9_.-]{1,100}")


class Restoring(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the note.

    Attributes:
        stem: The names of the replaced files begin with this.
        has_versions: Whether the backup has file versions; one of an older callboard has none.
    """

    stem: str
    has_versions: bool


# Made here, by one thread: two that meet a type for the first time at once would crash.
_RESTORING = msgspec.json.Decoder(Restoring)


def begin_restore(folder: Path, restoring: Restoring) -> None:
    """Write the note. Nothing is replaced before this returns."""
    new = folder / f"{NOTE}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, msgspec.json.encode(restoring))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(new, folder / NOTE)


def finish_restore(folder: Path, store: Path) -> None:
    """Finish a restore that was begun, if there is one.

    Raises:
        StorageError: It can't be finished now; the next attempt continues it.
    """
    try:
        noted = (folder / NOTE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StorageError(f"{folder / NOTE} can't be read: {error.strerror}.") from error
    try:
        restoring = _RESTORING.decode(noted)
    except UNDECODABLE:
        restoring = Restoring("", has_versions=False)
    if not _STEM.fullmatch(restoring.stem):
        raise StorageError(
            f"{folder / NOTE} is damaged, so the restore that was begun there can't be finished. "
            "Remove that file, and restore the backup again."
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
        for suffix in (
            *SIDE_SUFFIXES,
            SUFFIX,
        ):  # of the old store: the new one would take them for its own
            side = Path(f"{store}{suffix}")
            if os.path.lexists(side):
                os.rename(side, f"{stem}.db{suffix}")
        sync_path(folder)
        os.replace(new, store)
        sync_path(folder)
    os.unlink(folder / NOTE)
    sync_path(folder)


def _put_versions(folder: Path, before: Path, has_versions: bool) -> None:
    """Replace the folder's file versions by those of the backup, if it has any.

    As long as those of the backup wait, the versions in place are the old ones.
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
        f"{error.strerror or error}. Nothing is lost: remove the cause, then start callboard or "
        "restore the backup again, which continues it."
    )
