"""Backups: a store as one file, written while the store is in use, and put back in its place.

A backup is a store file without a log beside it. It holds sessions with all messages, and file contents
from before calls changed them; it holds no keys, no tokens and no configuration. A restored store has a
new epoch, by which clients know that what they have from the old one no longer holds.

All functions block and check for cancellation: call them in a worker thread of Trio.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import apsw
import trio

from ..disk.data_lock import DataLock
from ..disk.private_folder import sync_path
from ..errors import ConflictError, NotFoundError, StorageError
from ..identity import new_id
from ..store.file import DATABASE_NAME, make_folder, open_reading, open_writer
from ..store.ledger import full_disk_named, storage_error
from ..store.migrations import NEW_EPOCH, check_version, migrate
from ..store.restore import NEW_NAME, Restoring, begin_restore, finish_restore
from .versions import add_versions, forget_restored, take_out_versions

PAGES = 2000
"""Pages to copy between checks for a cancellation: 8 MiB, some milliseconds."""
CHECK_STEPS = 100_000
"""Steps of SQLite's virtual machine between checks for a cancellation: a few milliseconds."""


def write_backup(folder: Path, target: Path) -> int:
    """Copy the store of a data folder into a new file for its owner alone; return its size.

    The copy is the store as of one moment, whoever writes meanwhile; it holds up nobody.

    Raises:
        NotFoundError: There is no store, or no folder for the file.
        ConflictError: The file exists already.
        StorageError: The store can't be read, or the file can't be written.
    """
    source = open_reading(folder)
    try:
        with _new_file(target) as partial:
            # One read transaction around all steps; otherwise each commit would restart the copy.
            source.execute("begin")
            source.execute("select count(*) from sqlite_schema").fetchall()
            _copy(source, partial)
            with closing(_open_writable(partial)) as copied:
                add_versions(copied, folder)
            _check(partial, "quick_check")
    except apsw.CorruptError as error:
        raise storage_error(str(folder / DATABASE_NAME), error) from error
    except apsw.Error as error:
        raise storage_error(str(target), error) from error
    finally:
        source.close()
    return target.stat().st_size


def restore_backup(folder: Path, backup: Path) -> Path | None:
    """Replace the store of a data folder by that of a backup.

    The old store and its file versions are kept beside the new ones. The restore happens wholly or not at
    all: if it is cut off, the next opening of the store finishes it.

    Returns:
        The path of the old store; `None` if there was none.

    Raises:
        NotFoundError: The backup does not exist.
        DataInUse: A process works with the data folder.
        StorageError: The file is not a backup, is damaged, or is a newer callboard's; or the data folder
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
            f"{backup} can't be put into {folder}: {error.strerror or error}. Nothing was changed."
        ) from error
    finally:
        lock.release()


def _restore(folder: Path, backup: Path) -> Path | None:
    def fill(new: Path) -> bool:
        with closing(_open_read_only(backup)) as source:
            _copy(source, new)
        with closing(_open_writable(new)) as connection:
            migrate(connection, str(new))
            has_versions = take_out_versions(connection, folder)
            connection.execute(NEW_EPOCH)
        return has_versions

    finish_restore(folder, folder / DATABASE_NAME)  # an earlier one that was cut off
    return put_in_place(folder, fill)


def put_in_place(folder: Path, fill: Callable[[Path], bool]) -> Path | None:
    """Replace the store of a folder by one that `fill` makes of an empty file; return the old one's path.

    `fill` returns whether the file versions beside the store belong to the new one, or were replaced. The
    caller holds the lock. This happens wholly or not at all, as `restore_backup` says.
    """
    path, new, kept = folder / DATABASE_NAME, folder / NEW_NAME, None
    _forget(new)  # left by a crash
    try:
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        has_versions = fill(new)
        with closing(_open_writable(new)) as connection:
            connection.pragma("journal_mode", "wal")
        sync_path(new)
        kept = _set_aside(folder, path)
        stem = kept.stem if kept is not None else new_id("callboard.before")  # a store was missing
        begin_restore(folder, Restoring(stem, has_versions))
    except BaseException:
        _forget(new)
        forget_restored(folder)
        if kept is not None:
            kept.unlink()  # only the second name of the old store
        raise
    finish_restore(folder, path)
    return kept


def _set_aside(folder: Path, path: Path) -> Path | None:
    """Give the present store a second name; a log follows when the store is replaced."""
    if not os.path.lexists(path):
        return None
    with suppress(StorageError):  # damaged, or a newer callboard's: kept as it is
        open_writer(folder).close()  # writes the log into the file and removes it
    kept = folder / f"callboard.before-{time.strftime('%Y%m%d-%H%M%S')}.db"
    if os.path.lexists(kept):  # of a restore in the same second
        kept = folder / f"{new_id(kept.stem)}.db"
    os.link(path, kept)
    return kept


def _check_backup(backup: Path) -> None:
    """Raise unless the backup is a sound store that this callboard can read."""
    if not backup.is_file():
        raise NotFoundError(f"There is no backup {backup}.")
    try:
        with closing(_open_read_only(backup)) as connection:
            check_version(connection, str(backup))
        _check(backup, "integrity_check")
    except apsw.Error as error:
        raise storage_error(str(backup), error, "Choose another backup.") from error


def _check(path: Path, how: str) -> None:
    with closing(_open_read_only(path)) as connection:
        connection.set_progress_handler(_check_cancelled, CHECK_STEPS)
        finding = connection.pragma(how)
    if finding != "ok":
        raise StorageError(f"{path} is damaged ({finding}) and can't be used as a backup.")


def _open_read_only(path: Path) -> apsw.Connection:
    """Open a file for reading; its log is read if it has one, as a copy of a live store does."""
    log = Path(f"{path}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    return apsw.Connection(
        f"file:{quote(os.fsencode(path.absolute()))}?{how}",
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )


def _open_writable(path: Path) -> apsw.Connection:
    return apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)


def _copy(source: apsw.Connection, target: Path) -> None:
    with (
        closing(_open_writable(target)) as connection,
        full_disk_named(str(target), connection),
    ):
        with connection.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(PAGES)
                trio.from_thread.check_cancelled()
        connection.pragma("journal_mode", "delete")


@contextmanager
def _new_file(target: Path) -> Generator[Path]:
    """Yield a file to write to. It gets its name at the end of the block, or is removed on an error."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        # The name is reserved first, so that two backups can't use one name.
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise ConflictError(
            f"{target} exists already and was not overwritten: choose another name, or remove it."
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
    for suffix in ("", "-journal", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _check_cancelled() -> bool:
    trio.from_thread.check_cancelled()
    return False
