"""The file of a store: how it is created, recognised and opened.

A new file is built under another name and renamed, so `callboard.db` is never incomplete. An existing
file is first inspected through a connection that can't change it, so a damaged, foreign or newer file
stays untouched. A large file whose process ended in order is looked through for damage while it is used
already. All functions block: call them in a worker thread.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from ..disk.private_folder import check_folder, close_folder, make_folders, sync_path
from ..errors import CallboardError, NotFoundError, StorageError, StorageFull
from ..redaction import redacting_logger
from ..text import shell_word
from .codec import add_check, event_of, has_checksums
from .health.last_commit import HEADER, LogPlace, has_rest, loss
from .health.last_commit import SUFFIX as NOTE_SUFFIX
from .ledger import NO_ROOM, storage_error
from .migrations import MIGRATIONS, check_version, check_whole, migrate
from .restore import SIDE_SUFFIXES, finish_restore

logger = redacting_logger(__name__)

DATABASE_NAME = "callboard.db"

ADDRESS_NAME = "callboard.store"
"""The file that says which database keeps the record of a data folder, where no file there does."""

_NEW_NAME = DATABASE_NAME + ".new"

BUSY_TIMEOUT_MS = 5000
"""A connection waits only while another process recovers the write-ahead log, which takes less."""

MAX_CHECK_SECONDS = 2.0
"""How long a check for damage may take; a file of gigabytes is checked in part."""

MAX_CHECKED_FIRST_BYTES = 16 * 1024 * 1024
"""A file of this size is checked in some 40 ms, so always before it is opened."""

_CHECK_STEPS = 100_000
"""Steps of SQLite's virtual machine between looks at the clock: a few milliseconds."""

MAX_IDLE_LOG_BYTES = 64 * 1024 * 1024
"""The write-ahead log is cut to this size after a burst was written back."""

CHECKPOINT_PAGES = 1000
"""The write-ahead log is written back when it has so many pages, which is SQLite's own default."""

_LOG_HEADER_BYTES = 32
_FRAME_BYTES = 24 + 4096
"""A header and a page, which has this size in every store that was made here."""

LOG_BLOCK_BYTES = 64 * 1024
"""The log is filled in blocks: several commits of a round fit into one, and each takes microseconds. In
larger ones the file system keeps pages together that then take longer to write one by one."""
_MAX_LOG_GROWTH_BYTES = 1024 * 1024
"""A log doubles up to here: one that a short command leaves behind hardly grows for nothing."""


def make_folder(folder: Path) -> None:
    """Make the data folder for its owner alone.

    If it exists, take from others the right to read it; refuse it if others can write to it.
    """
    try:
        make_folders(folder)
        check_folder(folder)
        close_folder(folder)
    except (FileExistsError, NotADirectoryError) as error:
        raise StorageError(
            f"{folder} can't be the data directory: it, or a part of its path, is a file. Choose "
            "another one."
        ) from error
    except OSError as error:
        raise _system_error(folder, error) from error


def address_in(folder: Path) -> str | None:
    """Return the address of the database that keeps the record of a data folder; `None` is a file there."""
    try:
        return (folder / ADDRESS_NAME).read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _system_error(folder / ADDRESS_NAME, error) from error


def check_address(folder: Path, url: str, name: str) -> None:
    """Raise `StorageError` if another database, or a file there, has the record of a data folder."""
    if (found := address_in(folder)) == url:
        return
    if found is None and os.path.lexists(folder / DATABASE_NAME):
        raise StorageError(
            f"The record of {folder} is in {DATABASE_NAME} there. `callboard store copy {shell_word(str(folder))} {url}` copies "
            f"it to the database, and `callboard store set-aside --store {url}` puts the file away; then {name} is its store."
        )
    if found is not None:
        raise StorageError(
            f"The record of {folder} is in another database, {found}. Use that one, choose another data "
            f"directory, or remove {folder / ADDRESS_NAME} to leave that record where it is."
        )


def keep_address(folder: Path, url: str) -> None:
    """Note the database that keeps the record of a data folder, so that every command finds it."""
    if address_in(folder) == url:
        return
    new = folder / f"{ADDRESS_NAME}.new"
    try:
        new.touch(0o600)
        new.write_text(f"{url}\n", encoding="utf-8")
        os.replace(new, folder / ADDRESS_NAME)
        sync_path(folder)
    except OSError as error:
        raise _system_error(folder / ADDRESS_NAME, error) from error


def open_writer(folder: Path, *, checks_later: bool = False) -> apsw.Connection:
    """Check and migrate a file and return a writable connection; the caller holds the lock.

    Args:
        folder: The data folder.
        checks_later: Don't wait for the check of a large file: the caller runs a `DamageCheck`.
    """
    path = folder / DATABASE_NAME
    finish_restore(folder, path)
    try:
        had_log = False
        if os.path.lexists(path):
            had_log = os.path.lexists(f"{path}-wal")
            _inspect(path, thoroughly=True, checks_later=checks_later)
        else:
            check_no_log(path)
            _make(folder, path)
        connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            if connection.pragma("journal_mode", "wal") != "wal":
                raise StorageError(
                    f"{path} is on a file system without shared memory, which its write-ahead log "
                    "needs. Choose a data directory on a local disk."
                )
            connection.pragma("synchronous", "full")
            connection.pragma("foreign_keys", True)
            connection.pragma("journal_size_limit", MAX_IDLE_LOG_BYTES)
            if had_log and has_rest(connection, path):
                with suppress(apsw.BusyError):  # somebody reads
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            migrate(connection, str(path))
            check_whole(connection, str(path))
        except apsw.Error as error:
            failure = storage_error(str(path), error, connection=connection)
            connection.close()
            raise failure from error
        except BaseException:
            connection.close()
            raise
    except apsw.Error as error:
        raise storage_error(str(path), error) from error
    except OSError as error:
        raise _system_error(path, error) from error
    return connection


def open_reading(folder: Path) -> apsw.Connection:
    """Return a connection that can only read; raise `NotFoundError` if there is no store yet."""
    path = stored_path(folder)
    try:
        version = _inspect(path)
        if version < len(MIGRATIONS):
            raise StorageError(
                f"{path} was written by an older callboard (format {version}). `callboard "
                "upgrade`, or a command that writes, brings it into the present one; then it can be "
                "read."
            )
        connection = apsw.Connection(
            _uri(path, "mode=ro"), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("query_only", True)
        add_check(connection)
    except apsw.Error as error:
        raise storage_error(str(path), error) from error
    except OSError as error:
        raise _system_error(path, error) from error
    return connection


def stored_version(folder: Path) -> int:
    """Return the format of a data folder's store without changing it.

    Raises:
        NotFoundError: There is no store.
        StorageError: The file is damaged, not a store, or written by a newer callboard.
    """
    path = stored_path(folder)
    try:
        return _inspect(path)
    except apsw.Error as error:
        raise storage_error(str(path), error) from error
    except OSError as error:
        raise _system_error(path, error) from error


def examine(folder: Path, *, is_in_use: bool) -> None:
    """Check a store as `open_writer` does, without changing it.

    Args:
        folder: The data folder.
        is_in_use: Another process writes there; then what was acknowledged can't be compared.

    Raises:
        NotFoundError: There is no store.
        StorageError: It is damaged, has lost something, is not a store, or is a newer callboard's.
    """
    path = stored_path(folder)
    try:
        _inspect(path, thoroughly=True, is_alone=not is_in_use, has_time=True)
    except apsw.Error as error:
        raise storage_error(str(path), error) from error
    except OSError as error:
        raise _system_error(path, error) from error


def stored_path(folder: Path) -> Path:
    """Return the path of a folder's store.

    Raises:
        NotFoundError: There is none.
        StorageError: There is none, but something that belongs to one.
    """
    path = folder / DATABASE_NAME
    if (address := address_in(folder)) is not None:
        raise StorageError(
            f"The record of {folder} is in {address}, and this works on a file. Backups, restores and "
            "repairs are those of PostgreSQL (pg_dump, pg_restore); `callboard store copy` makes a file of it."
        )
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        check_no_log(path)
        raise NotFoundError(
            f"There is nothing in {folder} yet: no session has been stored there."
        ) from None
    except OSError as error:  # a folder that can't be entered is not empty
        raise _system_error(path, error) from error
    return path


def check_no_log(path: Path) -> None:
    """Raise `StorageError` if a log lies where a store is missing: it may hold the latest commits.

    A new store would take it for its own, and be damaged.
    """
    left = [side for suffix in SIDE_SUFFIXES if os.path.lexists(side := f"{path}{suffix}")]
    if left:
        raise StorageError(
            f"{path} is missing, and what belongs to it is still there: {', '.join(left)}. Put "
            "the file back, or run `callboard store set-aside`, which puts the rest away too; then "
            "a new store is made. `callboard restore` puts a backup in its place."
        )


def _inspect(
    path: Path,
    *,
    thoroughly: bool = False,
    is_alone: bool = True,
    checks_later: bool = False,
    has_time: bool = False,
) -> int:
    """Return the version of a file, without changing a byte of it or leaving side files.

    `thoroughly` checks it for damage too and, if it `is_alone`, for losses; with `checks_later`, a large file only after a crash and before
    a migration; and if it `has_time`, also what the first use of the store would find.

    Raises `StorageError` or `apsw.Error` if it is not ours, newer, or found to be damaged.
    """
    log = Path(f"{path}-wal")
    # A log that a crash left belongs to the content, and reading it needs its index. Without a log,
    # `immutable` reads the file alone; an ordinary connection would create side files.
    has_log = log.exists() and log.stat().st_size > 0
    if not has_log and path.stat().st_size == 0:
        # To SQLite an empty file is a database without tables. Filling it would hide a loss.
        raise StorageError(
            f"{path} is empty: what it held is lost. Put a backup back with `callboard restore`, or "
            "start with a new store: `callboard store set-aside`."
        )
    connection = apsw.Connection(
        _uri(path, "mode=ro" if has_log else "immutable=1"),
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )
    with closing(connection):
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        version = check_version(connection, str(path))
        if thoroughly and is_alone and (lost := loss(connection, path)):
            raise apsw.CorruptError(lost)
        # A log was left by a crash, which may have left damage too; a migration rewrites tables.
        is_first = has_log or version < len(MIGRATIONS) or not checks_later
        if thoroughly and (is_first or not _is_large(path)):
            deadline = time.monotonic() + MAX_CHECK_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_STEPS)
            with suppress(apsw.InterruptError):
                _check(connection)
                if has_time:
                    check_partial_indexes(connection)
    return version


def _is_large(path: Path) -> bool:
    return path.stat().st_size > MAX_CHECKED_FIRST_BYTES


_TABLES = "select name from sqlite_schema where type = 'table' and rootpage > 0"
"""Virtual tables have no root page. SQLite would read the whole index of their words in one go, which no
deadline ends: 5 s for one of 50 MB. The tables that hold it are checked like all others."""

_PARTIAL = (
    "select name, tbl_name, sql from sqlite_schema where type = 'index' and sql like '% where %'"
)

_EVENTS = f"select count({event_of('e')}) from events e"
"""SQLite has no checksum of what is in its pages: a flipped bit in a text is sound to it."""


def _check(connection: apsw.Connection) -> None:
    """Look at one table after the other; raise `apsw.CorruptError` for damage.

    Each table is a read transaction of its own, so that the log can be written back in between.
    """
    # The check of the schema is also that of the free pages.
    for table in [
        "sqlite_schema",
        *(str(row[0]) for row in connection.execute(_TABLES).fetchall()),
    ]:
        _check_table(connection, table)
    if has_checksums(connection):
        add_check(connection)
        connection.execute(_EVENTS).fetchall()


def check_partial_indexes(connection: apsw.Connection) -> None:
    """Raise `apsw.CorruptError` for a damaged index of some rows: SQLite checks those of all rows."""
    for name, table, sql in connection.execute(_PARTIAL).fetchall():
        condition = str(sql).partition(" where ")[2]
        connection.execute(
            f"select count(*) as entries from {table} indexed by {name} where {condition}"
        ).fetchall()


def _check_table(connection: apsw.Connection, table: str) -> None:
    finding = connection.execute(f"pragma quick_check({table})").get
    if finding != "ok":
        raise apsw.CorruptError(finding)


class DamageCheck:
    """Looks through a large file for damage while it is in use.

    Attributes:
        finding: What an error says of the damage, once some was found; until then empty.
    """

    def __init__(self, folder: Path) -> None:
        self.finding = ""
        self._folder = folder
        self._path = folder / DATABASE_NAME
        self._stops = threading.Event()
        self._has_ended = threading.Event()

    @property
    def is_due(self) -> bool:
        """Whether the file was too large to be checked before it was opened."""
        return _is_large(self._path)

    def run(self) -> None:
        """Check until the end, `MAX_CHECK_SECONDS` or `stop`; log and keep what is found."""
        deadline = time.monotonic() + MAX_CHECK_SECONDS
        try:
            with closing(open_reading(self._folder)) as connection:
                connection.set_progress_handler(
                    lambda: self._stops.is_set() or time.monotonic() > deadline, _CHECK_STEPS
                )
                _check(connection)
        except apsw.InterruptError:
            pass
        except (apsw.CorruptError, apsw.NotADBError) as error:
            self.finding = str(storage_error(str(self._path), error))
            logger.error("%s", self.finding)
        except (CallboardError, apsw.Error) as error:  # no descriptor is free, no memory, a lock
            logger.warning("%s was not looked through for damage: %s", self._path, error)
        finally:
            self._has_ended.set()

    def stop(self) -> None:
        """End the check, and wait for that."""
        self._stops.set()
        self.wait()

    def wait(self) -> None:
        """Wait until the check has ended."""
        self._has_ended.wait()


class LogRoom:
    """Writes the log back, and keeps zeros behind its end so that a commit doesn't make the file longer.

    A sync of a file that has grown also writes its new size (ext4: one wait in three, and with a journal more),
    which is why PostgreSQL fills its logs too (`wal_init_zero`). SQLite reads its log up to the first page
    without the log's mark, as zeros are. Used in the writer's thread alone, between commits.
    """

    def __init__(self, folder: Path, connection: apsw.Connection) -> None:
        self._path = folder / f"{DATABASE_NAME}-wal"
        self._max_bytes = CHECKPOINT_PAGES * _FRAME_BYTES
        self._filled_bytes = 0
        self._descriptor = -1
        self._pages = 0
        self._mark = b""
        connection.set_wal_hook(self._committed)

    def place(self) -> LogPlace:
        """Return the log's mark, and its pages up to the end of the last commit; raises `OSError`."""
        if not self._mark:
            with self._path.open("rb") as file:
                _, self._mark = HEADER.unpack(file.read(HEADER.size).ljust(HEADER.size, b"\0"))
        return self._mark, self._pages

    def _committed(self, connection: apsw.Connection, database: str, pages: int) -> int:
        """Runs behind each commit; `pages` are those of the log. What fails here fails no commit."""
        if pages <= self._pages or self._pages >= CHECKPOINT_PAGES:
            self._mark = b""  # SQLite has begun to write it from its start again
        self._pages = pages
        if pages >= CHECKPOINT_PAGES:
            with suppress(apsw.Error):  # the next one tries again, as SQLite does by itself
                connection.wal_checkpoint(database, apsw.SQLITE_CHECKPOINT_PASSIVE)
        wanted = _LOG_HEADER_BYTES + pages * _FRAME_BYTES + LOG_BLOCK_BYTES // 2
        if self._filled_bytes < wanted < self._max_bytes:
            try:
                self._fill(wanted)
            except OSError:  # no room, or another owner: it works without
                self._max_bytes = 0
        return apsw.SQLITE_OK

    def _fill(self, wanted: int) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        # It may be longer than what was filled: an earlier round of it, or one large commit.
        at = os.fstat(self._descriptor).st_size
        end = at if at >= wanted else at + min(max(at, LOG_BLOCK_BYTES), _MAX_LOG_GROWTH_BYTES)
        while at < end:
            room = LOG_BLOCK_BYTES - at % LOG_BLOCK_BYTES
            at += os.pwrite(self._descriptor, bytes(room), at)
        self._filled_bytes = at

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _make(folder: Path, path: Path) -> None:
    new = folder / _NEW_NAME
    _remove(new)  # a crash may have left it
    try:
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        opened = apsw.Connection(os.fspath(new), flags=apsw.SQLITE_OPEN_READWRITE)
        with closing(opened) as connection:
            migrate(connection, str(path))
            connection.pragma("journal_mode", "wal")
        Path(f"{path}{NOTE_SUFFIX}").unlink(missing_ok=True)
        new.rename(path)
    except BaseException:
        _remove(new)
        raise
    sync_path(folder)


def _remove(path: Path) -> None:
    for suffix in ("", *SIDE_SUFFIXES):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _uri(path: Path, parameters: str) -> str:
    return f"file:{quote(os.fsencode(path))}?{parameters}"


def _system_error(path: Path, error: OSError) -> StorageError:
    if error.errno in NO_ROOM:
        return StorageFull(f"There is no room for {path}: the disk is full. Free some space.")
    return StorageError(
        f"{path} can't be made or opened: {error.strerror}. callboard must be able to write to "
        "its data directory: change its permissions, or choose another one."
    )


MOUNTS = Path("/proc/self/mountinfo")
"""The mounts that this process sees. Other systems than Linux have no such file; nothing is refused."""

NETWORK_TYPES = ("nfs", "cifs", "smb", "9p", "fuse.sshfs")
"""The types of network file systems begin with one of these (nfs4, smb3, smbfs)."""


def check_local(folder: Path, mounts: Path = MOUNTS) -> None:
    """Raise `StorageError` if a folder lies on a network file system.

    Two machines could write there at once, each with a lock that the other does not see.
    """
    kind = _type_of(folder, mounts)
    if kind is not None and kind.startswith(NETWORK_TYPES):
        raise StorageError(
            f"{folder} is on a network file system ({kind}), where locks between machines and the "
            "store's write-ahead log can't be relied on. Choose a data directory on a local disk: "
            "--data, or CALLBOARD_HOME."
        )


def _type_of(folder: Path, mounts: Path) -> str | None:
    """Return the type of a folder's file system, found by its device; `None` if unknown."""
    try:
        device = folder.stat().st_dev
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        mount, _, rest = line.partition(" - ")
        if mount.split(" ")[2:3] == [wanted]:
            return rest.split(" ")[0]
    return None
