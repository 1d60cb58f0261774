"""PostgreSQL as the database of a cluster: one blocking connection, made again when it broke."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any

import psycopg

from ..errors import StorageError
from ..store.postgres.address import DatabaseAddress
from ..store.postgres.connection import connect
from ..store.postgres.ledger import CHANNEL
from ..store.postgres.schema import NODE_LOCKS, TIMELINE_NOW, check_version, version_of
from ..store.postgres.trouble import trouble
from .lease import LEASE_SECONDS
from .registry import ALL, LEASE_MS, NODES, ClusterSql, Database

STATEMENT_MS = 1000
"""A renewal that takes longer comes too late, and whatever else takes as long is tried again. A node that is stopped
between two statements of a transaction holds others up no longer: then the database ends it."""
_UP_SINCE = f"pg_postmaster_start_time() + interval '{LEASE_SECONDS} seconds'"

_NOW = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
_IS_NEW = f"timeline <> {TIMELINE_NOW} or timeline_since_ms + {LEASE_MS} > {_NOW}"
"""Of the row of cluster: a standby has taken over, and was not long seen to."""

_END_STOPPED = (
    "select pg_terminate_backend(a.pid) from pg_locks l join pg_stat_activity a on a.pid = l.pid"
    " join pg_database d on d.oid = l.database where d.datname = current_database() and l.locktype = 'advisory'"
    f" and l.classid = {NODE_LOCKS} and l.objid::bigint = (hashtext(?)::bigint & 4294967295) and l.objsubid = 2"
    " and a.state = 'active' and a.wait_event = 'ClientRead' and a.xact_start is not null"
    " and pg_has_role(a.usesysid, 'usage')"  # else it may not be ended, and that would be an error of the fence
    f" and a.state_change < clock_timestamp() - interval '{STATEMENT_MS} milliseconds'"
)
"""Of a commit whose statements go to the database together, a node that is stopped may have sent some. To the database it
works then, and is not idle, so that no timeout of it ends that; what it holds locked would be held until the node wakes."""

POSTGRES = ClusterSql(
    now=_NOW,
    is_settled=f"clock_timestamp() > {_UP_SINCE} and not exists (select 1 from cluster where {_IS_NEW})",
    timeline=TIMELINE_NOW,
    shared="for key share",
    excluding="for update",
    end_stopped=_END_STOPPED,
    skip_locked="for update of o skip locked",
    locked="for update of o",
    one_of="{column} = any(?)",
    tell=f"select pg_notify('{CHANNEL}', '{NODES}')",
)


class PostgresDatabase(Database):
    """A connection of its own, for one thread at a time.

    A statement alone need not be on the disk when it returns: a renewal that a crash loses is one that was not
    made, and nobody is fenced soon after a start. A transaction is.

    Args:
        address: Of the database.
    """

    sql = POSTGRES

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self.name = address.name
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._may_have_missed = False

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """See `Database`."""
        with self._named_errors():
            cursor = self._open().execute(_numbered(sql), values)
            return cursor.fetchall() if cursor.description is not None else []

    @contextmanager
    def transaction(self) -> Generator[None]:
        """See `Database`."""
        with self._named_errors():
            connection = self._open()
            with connection.transaction():
                connection.execute("set local synchronous_commit = on")
                yield

    def list_value(self, values: Collection[object]) -> list[object]:
        """See `Database`."""
        return list(values)

    def notified(self, seconds: float) -> frozenset[str]:
        """Wait until the database says that something has changed; return what, and nothing when nothing did in time.

        All that there is, behind the start of a connection: it may have been said before.
        """
        with self._named_errors():
            connection = self._open()
            if self._may_have_missed:
                self._may_have_missed = False
                return ALL
            return frozenset(
                each.payload for each in connection.notifies(timeout=seconds, stop_after=1)
            )

    def check_format(self, *, least: int) -> None:
        """Raise `StorageError` if the tables of nodes are not there, or not as this release knows them.

        Args:
            least: How many steps of `schema.MIGRATIONS` the database must have had.
        """
        with self._named_errors():
            found = version_of(self._open())
        check_version(found, self.name)
        if found is not None and found.steps < least:
            raise StorageError(
                f"{self.name} has format {found.steps}, written by callboard {found.release}; this needs format {least}. "
                "Start a node of this release there, which brings it up to date. Nothing was changed."
            )

    def close(self) -> None:
        """Close the connection; the next statement opens it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._address, writes=True)
            self._connection.execute("set synchronous_commit = off")
            self._connection.execute(b"set statement_timeout = %d" % STATEMENT_MS)
            self._connection.execute(b"set idle_in_transaction_session_timeout = %d" % STATEMENT_MS)
            self._connection.execute(f"listen {CHANNEL}".encode())
            self._may_have_missed = True
        return self._connection

    @contextmanager
    def _named_errors(self) -> Generator[None]:
        """Raise `StorageError` for what psycopg raises; a connection that may be broken is dropped."""
        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                self.close()
            found = trouble(self._address.name, error)
            raise found if isinstance(found, StorageError) else StorageError(str(found)) from error


@cache
def _numbered(sql: str) -> bytes:
    """Return a statement with `$1` for its values."""
    pieces, numbers = sql.split("?"), count(1)
    numbered = [*(f"{piece}${next(numbers)}" for piece in pieces[:-1]), pieces[-1]]
    return "".join(numbered).encode()
