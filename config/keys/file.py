"""The SQLite file of stored keys: made whole, opened for one transaction, closed again.

It is a file of its own, so that keys can be changed while a runtime holds the store (see
docs/decisions/0004-keys-in-a-file-of-their-own.md). It has no write-ahead log: nothing stands
beside it between two commands. All of this blocks, for milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from ...runtime.disk.private_folder import sync_path
from ...runtime.errors import StorageError
from ...runtime.store.ledger import storage_error
from ..private_file import MODE

KEYS_NAME = "keys.db"

APPLICATION_ID = 0x636B6579
"""`ckey` in ASCII."""

VERSION = 1

BUSY_TIMEOUT_MS = 2000
"""What a reader waits for at most; a transaction takes milliseconds."""

_SCHEMA = f"""
create table store (store_id text not null, key_id text) strict;

create table keys (
  provider text not null,
  origin text not null,
  name text not null,
  version integer not null,
  nonce blob not null,
  ciphertext blob not null,
  key_id text not null,
  created_at_ms integer not null,
  primary key (provider, origin, name)
) strict;

pragma application_id = {APPLICATION_ID};
pragma user_version = {VERSION};
"""


def make_key_file(path: Path, store_id: str) -> None:
    """Makes the file, under another name first; the caller holds the lock and has looked.

    Raises:
        StorageError: It can't be made.
    """
    new = path.with_name(KEYS_NAME + ".new")
    journal = Path(f"{new}-journal")
    try:
        for leftover in (new, journal):
            leftover.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(new, flags, MODE)
        try:
            os.fchmod(descriptor, MODE)
        finally:
            os.close(descriptor)
        with _connection(new) as connection:
            connection.execute("begin immediate")
            connection.execute(_SCHEMA)
            connection.execute("insert into store values (?, null)", (store_id,))
            connection.execute("commit")
        new.rename(path)
        sync_path(path.parent)
    except apsw.Error as error:
        raise storage_error(str(path), error) from error
    except OSError as error:
        raise StorageError(
            f"{path} can't be made: {error.strerror}. callboard must be able to write to its data "
            "folder."
        ) from error


@contextmanager
def key_transaction(path: Path, *, write: bool) -> Generator[apsw.Connection]:
    """A connection inside a transaction: committed at the block's end, rolled back if it raises.

    Raises:
        StorageError: The file is no store of keys, is damaged, or can't be read or written.
    """
    try:
        with _connection(path) as connection:
            _check(connection, path)
            connection.execute("begin immediate" if write else "begin")
            try:
                yield connection
                connection.execute("commit")
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")
    except apsw.Error as error:
        raise storage_error(str(path), error) from error


@contextmanager
def _connection(path: Path) -> Generator[apsw.Connection]:
    # The folder may be behind a link, which is its owner's choice; the file itself may not.
    real = Path(os.path.realpath(path.parent), path.name)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(os.fspath(real), flags=flags)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        # FULL, and the folder synced too when the journal goes: a rotation puts the old master
        # key away after the commit, which must not come undone then.
        connection.pragma("synchronous", "extra")
        # What is deleted or replaced is overwritten with zeros.
        connection.pragma("secure_delete", True)
        yield connection
    finally:
        connection.close()


def _check(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StorageError(
            f"{path} is no store of keys; it was left as it is. Move it away, and set the keys again."
        )
    if (version := connection.pragma("user_version")) > VERSION:
        raise StorageError(
            f"{path} was written by a newer callboard (format {version}, this one knows "
            f"{VERSION}); it was left as it is. Upgrade callboard to use it."
        )
