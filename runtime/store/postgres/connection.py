"""A connection to PostgreSQL that takes the statements of the store.

It has what the tables need of a connection (`tables.connection`). Statements are sent without waiting for
their results (libpq's pipeline mode): a transaction waits where one of them is looked at, and at its end.

**A commit is one round trip.** A commit looks at some results to decide how it goes on: the row of its session,
whether a call has a result already. In a transaction that `begin(expects=True)` begins, the row of a session is
the one that the last commit left, and of the rest the usual result is taken for granted (`dialect.EXPECTED`).
Each such statement fails in the database if it is not so, and with it the whole transaction (`Unexpected`);
then the ledger makes the same commit again, looking at each result. So an answer is never decided by what
this process remembers.

A connection is used by one thread at a time, and blocks.
"""

from __future__ import annotations

import os
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import cache
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format, TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrDumper

from ...errors import StorageError
from ...redaction import redactor
from ..codec import is_sound
from ..projection import LOAD, SAVE
from ..tables.connection import SqlRows
from .address import DatabaseAddress, given_password
from .dialect import Statement, statement
from .schema import Version, migrate, version_of
from .trouble import DatabaseLost, no_connection, trouble

CONNECT_SECONDS = 5
"""For one attempt, name and password included."""

SILENT_MS = 10_000
"""A peer that acknowledges nothing for so long is gone: else a cut cable would hold a commit for a quarter of an hour."""

READ_MS = 60_000
"""A query takes milliseconds; one that takes this long is ended by the database."""

MAX_STATEMENTS = 400
"""Prepared ones of a connection: all that the store has, with the filters of lists that people use."""

MAX_KNOWN_SESSIONS = 4096
"""Rows of sessions that are kept for the next commit, some 500 bytes each."""

_OPTIONS = (
    f"-c statement_timeout={READ_MS} -c idle_in_transaction_session_timeout={READ_MS}"
    " -c lock_timeout=30s -c client_min_messages=warning"
)

Row = tuple[Any, ...]


class _Truth(Dumper):
    """Truth values are stored as 0 and 1."""

    format = Format.BINARY
    oid = 20  # int8

    def dump(self, obj: bool) -> Buffer:
        return struct.pack(">q", obj)


class _Integer(Int8BinaryDumper):
    """All integers have one type, so that a statement is prepared once."""

    def dump(self, obj: int) -> Buffer | None:
        try:
            return super().dump(obj)
        except (struct.error, psycopg.DataError) as error:
            raise OverflowError(f"{obj} is beyond 64 bits") from error


_FIELD = struct.Struct(">II")
_WHOLE = struct.Struct(">q")


class Sound(Loader):
    """Reads `row(event, session, seq, at_ms, checksum)`, and returns the event if they belong together."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes | None:
        """Return the event, or `None` without one."""
        record, place = bytes(data), 4
        fields: list[bytes | None] = []
        while place < len(record):
            _, length = _FIELD.unpack_from(record, place)
            place += _FIELD.size
            if length == 0xFFFF_FFFF:
                fields.append(None)
                continue
            fields.append(record[place : place + length])
            place += length
        event, *numbers = fields
        if event is None:
            return None
        row: tuple[Any, ...] = (
            event,
            *(None if each is None else _WHOLE.unpack(each)[0] for each in numbers),
        )
        if not is_sound(row):
            raise StorageError(
                f"Event {row[2]} of session {row[1]} is not what was stored: the disk of the database "
                "has damaged it. Restore a backup of the database."
            )
        return event


def connect(address: DatabaseAddress, *, writes: bool) -> psycopg.Connection[Row]:
    """Open a connection; raise `StorageError` in words if that is not possible."""
    options = _OPTIONS if writes else f"{_OPTIONS} -c default_transaction_read_only=on"
    try:
        found = conninfo_to_dict(address.url)
        if not writes and found.get("target_session_attrs") == "read-write":
            found["target_session_attrs"] = "primary"  # ours can't write, wherever it is
        if "password" not in found and (given := given_password(os.environ)) is not None:
            redactor.add(given)
            found["password"] = given.reveal()
        made: psycopg.Connection[Row] = psycopg.connect(
            **{
                "connect_timeout": CONNECT_SECONDS,
                "application_name": "callboard",
                "keepalives_idle": 5,
                "keepalives_interval": 2,
                "keepalives_count": 3,
                "tcp_user_timeout": SILENT_MS,
                **found,
                "options": f"{found.get('options', '')} {options}".strip(),
            },  # type: ignore[arg-type]
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
        )
    except psycopg.Error as error:
        raise no_connection(address.name, error) from error
    made.prepared_max = MAX_STATEMENTS
    made.prepare_threshold = 2
    adapters = made.adapters
    adapters.register_dumper(int, _Integer)
    adapters.register_dumper(bool, _Truth)
    adapters.register_dumper(str, StrDumper)
    adapters.register_loader("record", Sound)
    return made


class Rows:
    """The rows of a statement, which are waited for when somebody looks at them."""

    __slots__ = ("_cursor", "_name")

    def __init__(self, cursor: psycopg.Cursor[Row], name: str) -> None:
        self._cursor = cursor
        self._name = name

    @property
    def get(self) -> Any:
        """The first value of the first row, or `None`."""
        row = self.fetchone()
        return None if row is None else row[0]

    def fetchone(self) -> Row | None:
        """Return the next row, or `None`."""
        try:
            return self._cursor.fetchone()
        except psycopg.Error as error:
            raise trouble(self._name, error) from error

    def fetchall(self) -> list[Row]:
        """Return the rows that are left."""
        try:
            return self._cursor.fetchall()
        except psycopg.Error as error:
            raise trouble(self._name, error) from error

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchall())


class Granted:
    """Rows that are known without asking."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    @property
    def get(self) -> Any:
        """The first value of the first row, or `None`."""
        return self._rows[0][0] if self._rows else None

    def fetchone(self) -> Row | None:
        """Return the next row, or `None`."""
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[Row]:
        """Return the rows that are left."""
        rows, self._rows = self._rows, []
        return rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchall())


_END_BACKEND = (
    "select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and usename = session_user"
    " and application_name = current_setting('application_name') and pid <> pg_backend_pid()"
)
"""The process of a connection of the same address, whatever name that gives it; behind a restart its number may be another's."""

translated: Callable[[str], Statement] = cache(statement)
"""Statements by their text; there are some hundred, with those of the filters that people use."""


class PostgresConnection:
    """See the module.

    Args:
        address: Where the database is.
        writes: Whether it is that of the ledger; the others can only read.
    """

    def __init__(self, address: DatabaseAddress, *, writes: bool) -> None:
        self._address = address
        self._writes = writes
        self._pg = connect(address, writes=writes)
        self._backend = self._pg.info.backend_pid
        self._pipeline: psycopg.Pipeline | None = None
        self._context: AbstractContextManager[psycopg.Pipeline]
        self._last: psycopg.Cursor[Row] | None = None
        self._expects = False
        self._known: OrderedDict[str, Row] = OrderedDict()
        self._loaded: dict[int, tuple[int, str]] = {}
        self._saved: dict[str, Row] = {}

    @property
    def raw(self) -> psycopg.Connection[Row]:
        """psycopg's own connection, for what is not a statement of the store."""
        return self._pg

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and has not ended."""
        return self._pipeline is not None or (
            not self._pg.closed and self._pg.info.transaction_status != TransactionStatus.IDLE
        )

    # ── versions ─────────────────────────────────────────────────────────────────────────────────

    def version(self) -> Version | None:
        """Return the version of the tables, or `None` if there are none."""
        try:
            return version_of(self._pg)
        except psycopg.Error as error:
            raise trouble(self._address.name, error) from error

    def migrate(self) -> tuple[int, int]:
        """Bring the tables up to date; see `schema.migrate`."""
        try:
            return migrate(self._pg, self._address.name)
        except psycopg.Error as error:
            raise trouble(self._address.name, error) from error

    # ── statements ───────────────────────────────────────────────────────────────────────────────

    def execute(self, statements: str, bindings: Any = (), /) -> SqlRows:
        """Run a statement of the store."""
        if statements == LOAD and self._writes:
            return self._load(bindings)
        if statements == SAVE:
            bindings = self._save(bindings)
        made = translated(statements)
        if made.text == "begin":
            self._begin()
        elif made.text in {"commit", "rollback"}:
            self._end(made.text)
            return Granted(())
        values = made.convert(bindings) if made.convert is not None else bindings
        if made.expected and (self._expects or statements == SAVE):
            self._last = None
            self._send(made.expected, values)
            return Granted(made.granted)
        self._last = self._send(made.text, values)
        return Rows(self._last, self._address.name)

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], /) -> None:
        """Run a statement with each of some values."""
        for bindings in sequenceofbindings:
            self.execute(statements, bindings)

    def changes(self) -> int:
        """Return how many rows the last statement has changed; one, where that is taken for granted."""
        if self._last is None:
            return 1
        if self._pipeline is not None:
            self._sync()
        return self._last.rowcount

    def last_insert_rowid(self) -> int:
        """Return nothing of use: statements that need the id of an event look it up."""
        return 0

    def _send(self, text: str, values: Any) -> psycopg.Cursor[Row]:
        try:
            cursor = self._pg.cursor(binary=True)  # which a connection that is closed refuses
            try:
                cursor.execute(text.encode(), values)
            except psycopg.DataError as error:
                if error.sqlstate is not None:
                    raise
                cursor.execute(text.encode(), _without_nul(values))
        except psycopg.Error as error:
            raise trouble(self._address.name, error) from error
        return cursor

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    def begin_expecting(self) -> None:
        """Let the transaction that begins next take results for granted."""
        self._expects = True

    def _begin(self) -> None:
        self._loaded.clear()
        self._saved.clear()
        try:
            context = self._pg.pipeline()
            self._pipeline = context.__enter__()
            self._context = context
        except psycopg.Error as error:
            raise trouble(self._address.name, error) from error

    def _end(self, how: str) -> None:
        """Commit or roll back; what fails before rolls back too."""
        pipeline, self._pipeline = self._pipeline, None
        self._expects = False
        if pipeline is None:
            with suppress(psycopg.Error):
                self._pg.execute(how.encode())
            return
        try:
            try:
                ended = self._pg.cursor()
                ended.execute(how.encode()) if how == "commit" else None
            finally:
                self._context.__exit__(None, None, None)
            if how == "commit" and ended.statusmessage == "COMMIT":
                self._keep_known()
                return
        except psycopg.Error as error:
            if how == "commit":
                raise trouble(self._address.name, error) from error
        finally:
            self._loaded.clear()
            if not self._pg.closed and self._pg.info.transaction_status != TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    self._pg.execute("rollback")
        if how == "commit":
            raise StorageError(f"{self._address.name} did not commit.")

    def _sync(self) -> None:
        assert self._pipeline is not None
        try:
            self._pipeline.sync()
        except psycopg.Error as error:
            raise trouble(self._address.name, error) from error

    # ── rows of sessions ─────────────────────────────────────────────────────────────────────────

    def _load(self, bindings: Row) -> SqlRows:
        """Return the row of a session: as the last commit left it, where results are taken for granted."""
        (session_id,) = bindings
        row = self._known.get(session_id) if self._expects else None
        if row is None:
            cursor = self._send(translated(LOAD).text, bindings)
            row = Rows(cursor, self._address.name).fetchone()
        else:
            self._known.move_to_end(session_id)
        if row is None:
            return Granted(())
        self._loaded[row[0]] = row[1], session_id
        return Granted((row,))

    def _save(self, bindings: Row) -> Row:
        """Add the `seq` that was read to what is saved."""
        key = bindings[-1]
        head_seq, session_id = self._loaded.get(key, (0, ""))
        if session_id:
            self._saved[session_id] = (key, *bindings[:8])
        return (*bindings, head_seq)

    def _keep_known(self) -> None:
        self._known.update(self._saved)
        while len(self._known) > MAX_KNOWN_SESSIONS:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Forget the rows of sessions: they are read again."""
        self._known.clear()

    def prepare_again(self) -> None:
        """Forget which statements are prepared: the database does not have one of them."""
        try:
            self._pg.execute("deallocate all", prepare=False)
        except psycopg.Error as error:
            raise trouble(self._address.name, error) from error

    # ── opening and closing ──────────────────────────────────────────────────────────────────────

    def open_again(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Open a new connection in place of one that was lost, and end what the old one still does.

        Args:
            seconds: How long to try.
            is_over: Whether to give up at once.

        Raises:
            StorageError: There is none yet.
        """
        self.forget()
        self.close()
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._pg = connect(self._address, writes=self._writes)
                break
            except DatabaseLost:
                if is_over() or time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)
        # Known until it has ended, also where the new connection breaks meanwhile.
        self._end_backend(self._backend, deadline)
        self._backend = self._pg.info.backend_pid

    def _end_backend(self, backend: int, deadline: float) -> None:
        """End the process that served the connection which was lost, so that it can commit nothing any more."""
        try:
            while self._pg.execute(_END_BACKEND, (backend,)).fetchone() is not None:
                if time.monotonic() > deadline:
                    raise DatabaseLost(
                        f"{self._address.name} still works on a commit of a connection that was lost."
                    )
                time.sleep(RETRY_SECONDS / 5)
        except psycopg.Error as error:
            raise trouble(self._address.name, error) from error

    @property
    def is_lost(self) -> bool:
        """Whether the connection is of no use any more."""
        return self._pg.closed

    def close(self) -> None:
        """Close the connection."""
        self._pipeline, self._expects = None, False
        with suppress(psycopg.Error):
            self._pg.close()


RETRY_SECONDS = 0.25
"""Between two attempts to open a connection again."""


def _without_nul(values: Iterable[Any]) -> Row:
    """Return values without the one character that no text of PostgreSQL may have; the event keeps it."""
    return tuple(
        each.replace("\x00", "\ufffd").replace("\\u0000", "\\ufffd") if type(each) is str else each
        for each in values
    )
