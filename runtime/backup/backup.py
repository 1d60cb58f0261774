"""A store in one file, apart: written while others write to the store, and put back in its place.

A backup is a store file without a log beside it. It holds sessions, with all that was said in them, and
what files were before their calls changed them; it holds no keys, no tokens and no configuration. A store that was put back has another epoch, by
which clients know that what they have heard of the one before counts no longer.

All of this blocks and belongs into a worker thread of Trio, whose cancellation it heeds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import apsw
import trio

from ..disk.data_lock import DataLock
from ..disk.private_folder import sync_path
from ..errors import ConflictError, NotFoundError, StorageError
from ..identity import new_id
from ..store.file import DATABASE_NAME, make_folder, open_reading, open_writer
from ..store.ledger import storage_error
from ..store.migrations import NEW_EPOCH, check_version, migrate
from ..store.restore import NEW_NAME, Restoring, begin_restore, finish_restore
from .versions import add_versions, forget_restored, take_out_versions

PAGES = 2000
"""Copied between two looks for a cancellation: 8 MiB, some milliseconds."""
CHECK_STEPS = 100_000
"""SQLite's own steps between two looks for a cancellation: a few milliseconds."""

_SIDE_FILES = ("-wal", "-shm")


def write_backup(folder: Path, target: Path) -> int:
    """Copies the store of a data folder into a new file for its owner alone; gives its size.

    It is the store as of one moment, whoever writes meanwhile; nobody waits for it.

    Raises:
        NotFoundError: There is no store, or no folder for the file.
        ConflictError: There is such a file already.
        StorageError: The store can't be read, or the file not be written.
    """
    source = open_reading(folder)
    try:
        with _new_file(target) as partial:
            # One read transaction around all steps: else each commit would begin the copy anew.
            source.execute("begin")
            source.execute("select count(*) from sqlite_schema").fetchall()
            _copy(source, partial, "delete")
            _add_versions(folder, partial)
            _check(partial, "quick_check")
    except apsw.Error as error:
        raise storage_error(str(target), error) from error
    finally:
        source.close()
    return target.stat().st_size


def restore_backup(folder: Path, backup: Path) -> Path | None:
    """Puts the store of a backup in the place of a data folder's own.

    The one that was there is kept, beside it, and so are its file versions. Wholly or not at all: what
    is cut off when it has begun is finished by whoever opens the store next.

    Returns:
        Where the one before is now; `None` when there was none.

    Raises:
        NotFoundError: There is no such backup.
        DataInUse: A process works with the data folder.
        StorageError: The backup is none, is damaged, or is a newer callboard's; or the data folder
            can't be written.
    """
    _check_backup(backup)
    make_folder(folder)
    lock = DataLock(folder)
    try:
        return _restore(folder, backup)
    except apsw.Error as error:
        raise storage_error(str(folder / DATABASE_NAME), error) from error
    except OSError as error:
        raise StorageError(
            f"{backup} can't be put into {folder}: {error.strerror or error}. What was there is there."
        ) from error
    finally:
        lock.release()


def _restore(folder: Path, backup: Path) -> Path | None:
    path, new, kept = folder / DATABASE_NAME, folder / NEW_NAME, None
    finish_restore(folder, path)  # one before, that was cut off
    _forget(new)  # a crash may have left it
    try:
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        source = _open_read_only(backup)
        try:
            _copy(source, new, "delete")
        finally:
            source.close()
        connection = apsw.Connection(os.fspath(new), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            migrate(connection, str(new))
            has_versions = take_out_versions(connection, folder)
            connection.execute(NEW_EPOCH)
            connection.pragma("journal_mode", "wal")
        finally:
            connection.close()
        sync_path(new)
        kept = _set_aside(folder, path)
        stem = kept.stem if kept is not None else new_id("callboard.before")  # a store was missing
        begin_restore(folder, Restoring(stem, has_versions))
    except BaseException:
        _forget(new)
        forget_restored(folder)
        if kept is not None:
            kept.unlink()  # the second name of the one that stays
        raise
    finish_restore(folder, path)
    return kept


def _add_versions(folder: Path, backup: Path) -> None:
    connection = apsw.Connection(os.fspath(backup), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        add_versions(connection, folder)
    finally:
        connection.close()


def _set_aside(folder: Path, path: Path) -> Path | None:
    """Gives the present store a second name; its log, if one is left, follows when it is replaced."""
    if not os.path.lexists(path):
        return None
    with suppress(StorageError):  # damaged, or a newer callboard's: it is kept as it is
        open_writer(folder).close()  # writes the log into the file, and removes it
    kept = folder / f"callboard.before-{time.strftime('%Y%m%d-%H%M%S')}.db"
    if os.path.lexists(kept):  # of a restore in the same second
        kept = folder / f"{new_id(kept.stem)}.db"
    os.link(path, kept)
    return kept


def _check_backup(backup: Path) -> None:
    """Raises unless it is a whole store that this callboard can read."""
    if not backup.is_file():
        raise NotFoundError(f"There is no backup {backup}.")
    try:
        connection = _open_read_only(backup)
        try:
            check_version(connection, str(backup))
        finally:
            connection.close()
        _check(backup, "integrity_check")
    except apsw.Error as error:
        raise storage_error(str(backup), error) from error


def _check(path: Path, how: str) -> None:
    connection = _open_read_only(path)
    connection.set_progress_handler(_check_cancelled, CHECK_STEPS)
    try:
        finding = connection.pragma(how)
    finally:
        connection.close()
    if finding != "ok":
        raise StorageError(f"{path} is damaged ({finding}): it is no good as a backup.")


def _open_read_only(path: Path) -> apsw.Connection:
    """A file by itself; a copy of a live store has a log that counts."""
    log = Path(f"{path}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    return apsw.Connection(
        f"file:{quote(os.fsencode(path.absolute()))}?{how}",
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )


def _copy(source: apsw.Connection, target: Path, journal_mode: str) -> None:
    connection = apsw.Connection(os.fspath(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with connection.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(PAGES)
                trio.from_thread.check_cancelled()
        connection.pragma("journal_mode", journal_mode)
    finally:
        connection.close()


@contextmanager
def _new_file(target: Path) -> Generator[Path]:
    """A file to write to, which has its name when the block is through, and else is not there."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        # Taken at once, so that two don't write to one name.
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise ConflictError(
            f"{target} is there already, and is not overwritten: choose another name, or remove it."
        ) from error
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no folder {target.parent}.") from error
    except OSError as error:
        raise StorageError(f"{target} can't be written: {error.strerror or error}.") from error
    try:
        _forget(partial)
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield partial
        sync_path(partial)
        partial.replace(target)
        sync_path(target.parent)
    except OSError as error:
        _forget(partial)
        target.unlink(missing_ok=True)
        raise StorageError(f"{target} can't be written: {error.strerror or error}.") from error
    except BaseException:
        _forget(partial)
        target.unlink(missing_ok=True)
        raise


def _forget(path: Path) -> None:
    for suffix in ("", "-journal", *_SIDE_FILES):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _check_cancelled() -> bool:
    trio.from_thread.check_cancelled()
    return False
