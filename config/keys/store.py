"""Provider keys at rest: sealed rows in a file of their own, each bound to its provider's origin.

Without the master key, the file only says which provider has a key since when. When the master key is
missing or another one (see `master`), the store is locked: names can be listed and rows removed, no key
can be used, and nothing falls back to plain text.

The SQLite file is separate from the session store, so that keys can be changed while a runtime holds that
one (docs/decisions/0004-keys-in-a-file-of-their-own.md). It is opened for one transaction at a time and has
no write-ahead log, so nothing is left beside it. Everything here blocks, for some milliseconds, and can
be called from any thread and any process.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path
from typing import Any

import apsw
import msgspec

from ...runtime.disk.private_folder import sync_path
from ...runtime.errors import AuthError, NotFoundError, StorageError
from ...runtime.identity import now_ms
from ...runtime.redaction import Secret, redactor
from ...runtime.store.file import make_folder
from ...runtime.store.ledger import full_disk_named, storage_error
from ..files import config_folder
from ..private_file import locked, write_new
from ..settings import KeySettings
from .master import MasterKeyPlace, key_place
from .sealing import KeyBinding, MasterKey, Sealed, SealError

KEYS_NAME = "keys.db"
LOCK_NAME = "keys.lock"

APPLICATION_ID = 0x636B6579
"""`ckey` in ASCII."""

VERSION = 1

BUSY_TIMEOUT_MS = 2000
"""Longest wait of a reader; a transaction takes milliseconds."""

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

API_KEY = "api_key"
"""Name of the key that authorises requests, so far the only one of a provider."""

_COLUMNS = "provider, origin, name, version, nonce, ciphertext, key_id, created_at_ms"


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the file."""

    binding: KeyBinding
    sealed: Sealed
    created_at_ms: int


class KeyStore:
    """The keys of one data folder.

    Args:
        data: The data folder; nothing is made in it before the first `put`.
        place: Returns where the master key of a store with this id is.
    """

    def __init__(self, data: Path, place: Callable[[str], MasterKeyPlace]) -> None:
        self.path = data / KEYS_NAME
        self._place = place

    def rows(self) -> list[StoredKey]:
        """Return all rows, by provider; the master key is not needed.

        Raises:
            StorageError: The file can't be read.
        """
        if not os.path.lexists(self.path):
            return []
        with _transaction(self.path, write=False) as connection:
            return _rows(connection)

    def get(
        self, provider: str, origin: str, name: str = API_KEY, *, masks: bool = True
    ) -> Secret | None:
        """Return the key that was stored for this provider at this origin, and for no other.

        Args:
            provider, origin, name: What it is stored for.
            masks: Whether the whole value is masked in all logs and records from then on. A document is not: its
                reader masks the secrets in it.

        Raises:
            AuthError: There is one that is locked, or was tampered with.
            StorageError: The file can't be read.
        """
        if not os.path.lexists(self.path):
            return None
        for is_last in (False, True):
            with _transaction(self.path, write=False) as connection:
                row = _find(connection, provider, origin, name)
                place = self._place(_store_id(connection))
            if row is None:
                return None
            keys = place.keys()
            master = _by_id(keys, row.sealed.key_id)
            if master is not None:
                key = Secret(_unsealed(master, row))
                if masks:
                    redactor.add(key)
                return key
            if is_last:  # the first time, a rotation may have ended since the row was read
                raise _locked(place, keys)
        raise AssertionError

    def places(self, provider: str) -> list[str]:
        """Return the origins that a provider has keys for; opens none."""
        return [row.binding.origin for row in self.rows() if row.binding.provider == provider]

    def put(
        self, provider: str, origin: str, key: Secret, name: str = API_KEY, *, masks: bool = True
    ) -> tuple[StoredKey, str | None]:
        """Store a key instead of an older one; make the file and the master key if need be.

        Args:
            provider, origin, name: What it is for.
            key: The value.
            masks: As in `get`.

        Returns:
            The row, and where a master key was made for it, if one was.

        Raises:
            AuthError: The store is locked.
            StorageError: It can't be written.
        """
        if masks:
            redactor.add(key)
        make_folder(self.path.parent)
        with self._changing(make=True) as connection:
            place = self._place(_store_id(connection))
            master, is_new = _sealing_key(connection, place)
            old = _find(connection, provider, origin, name)
            version = 1 if old is None else old.binding.version + 1
            binding = KeyBinding(provider=provider, origin=origin, name=name, version=version)
            row = StoredKey(
                binding=binding, sealed=master.seal(key.reveal(), binding), created_at_ms=now_ms()
            )
            _write(connection, row)
        return row, place.name if is_new else None

    def remove(self, provider: str, origin: str | None = None) -> list[StoredKey]:
        """Remove a provider's keys, of all origins or one; return the removed rows.

        The master key is not needed.
        """
        if not os.path.lexists(self.path):
            return []
        with self._changing() as connection:
            removed = [
                row
                for row in _rows(connection)
                if row.binding.provider == provider and origin in {None, row.binding.origin}
            ]
            for row in removed:
                connection.execute(
                    "delete from keys where provider = ? and origin = ? and name = ?",
                    (provider, row.binding.origin, row.binding.name),
                )
        return removed

    def rotate_master(self) -> tuple[int, str]:
        """Make a new master key and seal all keys with it, or none.

        Cut off anywhere, it leaves a store that opens, and can be run again.

        Returns:
            How many keys there are, and where the master key is.

        Raises:
            NotFoundError: Nothing was stored yet.
            AuthError: The store is locked, or a row was tampered with.
        """
        if not os.path.lexists(self.path):
            raise NotFoundError("There are no stored keys yet: `callboard keys set` stores one.")
        with locked(self.path.with_name(LOCK_NAME)):
            with _transaction(self.path, write=True) as connection:
                place = self._place(_store_id(connection))
                keys = place.keys()
                old = _by_id(keys, _active_id(connection))
                if old is None:
                    raise _locked(place, keys)
                following = _next_key(place, old)
                rows = _rows(connection)
                for row in rows:
                    sealed = following.seal(_unsealed(old, row), row.binding)
                    _write(connection, msgspec.structs.replace(row, sealed=sealed))
                _set_active(connection, following)
            place.finish()
        return len(rows), place.name

    def why_locked(self) -> str | None:
        """Return why stored keys can't be used; `None` when they can be, or there are none.

        Raises:
            StorageError: The file can't be read.
        """
        if not os.path.lexists(self.path):
            return None
        with _transaction(self.path, write=False) as connection:
            rows = _rows(connection)
            place = self._place(_store_id(connection))
        try:
            keys = place.keys() if rows else []
        except AuthError as error:
            return str(error)
        is_open = all(_by_id(keys, row.sealed.key_id) is not None for row in rows)
        return None if is_open else str(_locked(place, keys))

    @contextmanager
    def _changing(self, *, make: bool = False) -> Generator[apsw.Connection]:
        with locked(self.path.with_name(LOCK_NAME)):
            if make and not os.path.lexists(self.path):
                _make_file(self.path, secrets.token_hex(4))
            with _transaction(self.path, write=True) as connection:
                yield connection


def open_key_store(data: Path, settings: KeySettings, environ: Mapping[str, str]) -> KeyStore:
    """Return the key store of a data folder, with the master key where the settings say."""

    def place(store_id: str) -> MasterKeyPlace:
        return key_place(
            settings.master,
            store_id=store_id,
            config=config_folder(environ),
            data=data,
            environ=environ,
        )

    return KeyStore(data, place)


def _unsealed(master: MasterKey, row: StoredKey) -> str:
    try:
        return master.unseal(row.sealed, row.binding)
    except SealError as error:
        provider = row.binding.provider
        raise AuthError(
            f"The stored key of {provider} for {row.binding.origin} does not open: its row was changed "
            f"or comes from another place. Set it again: callboard keys set {provider}."
        ) from error


def _sealing_key(connection: apsw.Connection, place: MasterKeyPlace) -> tuple[MasterKey, bool]:
    """Return the key that new rows are sealed with, and whether it was made just now."""
    keys = place.keys()
    active = _by_id(keys, _active_id(connection))
    if active is not None:
        return active, False
    if connection.execute("select count(*) from keys").get:
        raise _locked(place, keys)
    # Nothing is stored, so nothing can be lost: any key that is there will do.
    key = keys[0] if keys else place.make()
    _set_active(connection, key)
    return key, not keys


def _next_key(place: MasterKeyPlace, active: MasterKey) -> MasterKey:
    keys = place.keys()
    if active.key_id != keys[0].key_id:
        place.finish()  # an earlier rotation was cut off between its commit and this
    following = place.begin()
    if following.key_id == active.key_id:
        raise AuthError(
            f"The next master key is in use already. Make it the current one ({place.name}), and "
            "add another next one."
        )
    return following


def _locked(place: MasterKeyPlace, keys: list[MasterKey]) -> AuthError:
    what = "holds another master key than they were sealed with" if keys else "is not there"
    return AuthError(
        f"The stored keys are locked: {place.name} {what}. Put the right one back, or remove the "
        "keys (callboard keys remove PROVIDER) and set them again."
    )


def _by_id(keys: list[MasterKey], key_id: str | None) -> MasterKey | None:
    return next((key for key in keys if key.key_id == key_id), None)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _store_id(connection: apsw.Connection) -> str:
    store_id = str(connection.execute("select store_id from store").get)
    if not re.fullmatch(r"[0-9a-f]{8}", store_id):  # it becomes part of a file's name
        raise StorageError("The store of keys is damaged: restore keys.db from a backup.")
    return store_id


def _active_id(connection: apsw.Connection) -> str | None:
    found: str | None = connection.execute("select key_id from store").get
    return found


def _set_active(connection: apsw.Connection, key: MasterKey) -> None:
    connection.execute("update store set key_id = ?", (key.key_id,))


def _rows(connection: apsw.Connection) -> list[StoredKey]:
    found = connection.execute(f"select {_COLUMNS} from keys order by provider, origin, name")
    return list(starmap(_row, found))


def _find(connection: apsw.Connection, provider: str, origin: str, name: str) -> StoredKey | None:
    found = connection.execute(
        f"select {_COLUMNS} from keys where provider = ? and origin = ? and name = ?",
        (provider, origin, name),
    )
    return next(starmap(_row, found), None)


def _row(*columns: Any) -> StoredKey:
    provider, origin, name, version, nonce, ciphertext, key_id, created_at_ms = columns
    return StoredKey(
        binding=KeyBinding(provider=provider, origin=origin, name=name, version=version),
        sealed=Sealed(nonce=nonce, ciphertext=ciphertext, key_id=key_id),
        created_at_ms=created_at_ms,
    )


def _write(connection: apsw.Connection, row: StoredKey) -> None:
    its, sealed = row.binding, row.sealed
    connection.execute(
        f"insert or replace into keys ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(its.provider, its.origin, its.name, its.version),
            *(sealed.nonce, sealed.ciphertext, sealed.key_id, row.created_at_ms),
        ),
    )


# ── the file ─────────────────────────────────────────────────────────────────────────────────────


_DAMAGED = "Put a copy of it back, or move it away and set the keys again."
"""What to do about a damaged file."""


def _make_file(path: Path, store_id: str) -> None:
    """Make the file, under another name first; the caller holds the lock and knows it is missing.

    Raises:
        StorageError: It can't be made.
    """
    new = path.with_name(KEYS_NAME + ".new")
    journal = Path(f"{new}-journal")
    try:
        for leftover in (new, journal):
            leftover.unlink(missing_ok=True)
        os.close(write_new(new, b""))
        with _connection(new) as connection:
            connection.execute("begin immediate")
            connection.execute(_SCHEMA)
            connection.execute("insert into store values (?, null)", (store_id,))
            connection.execute("commit")
        new.rename(path)
        sync_path(path.parent)
    except apsw.Error as error:
        raise storage_error(str(path), error, _DAMAGED) from error
    except OSError as error:
        raise StorageError(
            f"{path} can't be made: {error.strerror}. callboard must be able to write to its data "
            "folder."
        ) from error


@contextmanager
def _transaction(path: Path, *, write: bool) -> Generator[apsw.Connection]:
    """Open a connection in a transaction: committed at the block's end, rolled back if it raises.

    Raises:
        StorageError: The file is not a store of keys, is damaged, or can't be read or written.
    """
    try:
        with _connection(path) as connection, full_disk_named(str(path), connection):
            _check(connection, path)
            connection.execute("begin immediate" if write else "begin")
            try:
                yield connection
                connection.execute("commit")
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")
    except apsw.Error as error:
        raise storage_error(str(path), error, _DAMAGED) from error


@contextmanager
def _connection(path: Path) -> Generator[apsw.Connection]:
    # The folder may be reached through a link, which is its owner's choice; the file must not be one.
    real = Path(os.path.realpath(path.parent), path.name)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(os.fspath(real), flags=flags)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        # EXTRA syncs the folder too when the journal is removed: a rotation discards the old master
        # key after the commit, which must not be lost then.
        connection.pragma("synchronous", "extra")
        # Deleted and replaced content is overwritten with zeros.
        connection.pragma("secure_delete", True)
        yield connection
    finally:
        connection.close()


def _check(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StorageError(
            f"{path} is not a store of keys; it was left as it is. Move it away, and set the keys again."
        )
    if (version := connection.pragma("user_version")) > VERSION:
        raise StorageError(
            f"{path} was written by a newer callboard (format {version}, this one knows "
            f"{VERSION}); it was left as it is. Upgrade callboard to use it."
        )
