"""The ledger over PostgreSQL: its transactions, and what becomes of a commit whose connection breaks."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from ...errors import ConflictError, RecordLost, StorageError
from ...events import SessionCreated, Stored
from ...redaction import redacting_logger
from ..ledger import Done, Ledger, PreparedAppend, Projections, wall_clock_ms
from ..rows import CommitResult, Refusal
from ..tables.connection import SqlConnection
from ..tables.lists import names
from ..tables.purge import purge_sessions
from .address import DatabaseAddress
from .connection import RETRY_SECONDS, PostgresConnection
from .schema import LOCK, NODE_LOCKS, TIMELINE_NOW
from .trouble import DatabaseLost, NotPrepared, Unexpected, another_writes

logger = redacting_logger(__name__)

AWAY_SECONDS = 60.0
"""How long a commit waits for a database that is away: sessions stand still meanwhile, and a restart takes less."""

STOPPED_MS = 1000
"""How long a node that was stopped in the middle of a commit can hold up those that fence it: then the database
ends that commit, or who fences it does where a part of its statements had been sent (`cluster.postgres`)."""

GONE_SECONDS = 1.0
"""For the database to see that whoever wrote before has gone: the lock ends with its connection, and a little later than that is closed."""
LOOK_SECONDS = 0.02

MAX_ATTEMPTS = 5
"""How often a commit is made again because another writer came first; the second time is right."""


MAX_ACKNOWLEDGED = 1000
"""Sessions whose last acknowledged event is kept: what a standby lacks is what came last, a second of commits."""

MAX_NAMED = 5
"""Sessions that an error names."""

CHANNEL, NODES = "callboard_nodes", "nodes"
"""How the database tells nodes of a cluster that something has changed."""


class Fence(Protocol):
    """Decides in the transaction of each commit whether this node may write; see `open_postgres_store`.

    Attributes:
        node_id: The node, by which others find its connection when they fence it.
    """

    node_id: str

    def check(
        self,
        connection: SqlConnection,
        session_ids: Sequence[str],
        created: Mapping[str, SessionCreated],
        *,
        expects: bool,
    ) -> Mapping[str, Refusal]:
        """Run the first statements of a commit; return the sessions whose appends are refused, and why.

        Args:
            connection: Inside the transaction.
            session_ids: The sessions that the commit writes to.
            created: Those of them that it makes, each with its first event.
            expects: The usual answer may be taken for granted: let a statement fail by the function
                `as_expected` where nothing can be written, and return nothing. The commit is then made again
                without this.
        """
        ...

    def check_purge(
        self, connection: SqlConnection, session_ids: Sequence[str]
    ) -> ConflictError | None:
        """Return why sessions may not be removed in this transaction, or `None`."""
        ...


class PostgresLedger(Ledger):
    """The one writer of this node. See `store.ledger.Ledger`.

    Args:
        connection: That which writes.
        address: Where the database is.
        fence: Checks each commit; without one this node is the only one that writes.
    """

    def __init__(
        self,
        connection: PostgresConnection,
        address: DatabaseAddress,
        now_ms: Callable[[], int] = wall_clock_ms,
        fence: Fence | None = None,
    ) -> None:
        super().__init__(connection, address.name, now_ms)
        self._postgres = connection
        self._fence = fence
        self.stops = threading.Event()
        self.take_lock()
        self._acknowledged: dict[str, int] = {}
        self._lost: RecordLost | None = None
        self._timeline, self._epoch = self._life()

    def take_lock(self) -> None:
        """Make this node the one that writes, or, with a fence, one of them.

        Raises:
            ConflictError: Another one writes.
        """
        take_writers_lock(self._postgres, self._name, is_shared=self._fence is not None)
        if self._fence is not None:
            self._postgres.execute(f"set idle_in_transaction_session_timeout = {STOPPED_MS}")
            mark = f"select pg_advisory_lock_shared({NODE_LOCKS}, hashtext(?))"
            self._postgres.execute(mark, (self._fence.node_id,))

    def touch(self) -> None:
        """Find out whether the database takes writes."""
        self.keep_up(_write_nothing)

    def keep_up(self, work: Callable[[SqlConnection], Done]) -> Done:
        """Run work that stores no event, in a transaction of its own; once more, if the connection breaks."""
        for attempt in range(MAX_ATTEMPTS):
            try:
                self._connect_again()
                return work(self._connection)
            except (DatabaseLost, Unexpected) as error:
                if isinstance(error, DatabaseLost) and (attempt or not self._postgres.is_lost):
                    raise
                self._look_anew(error)
        raise self._busy()

    def purge(self, session_ids: Sequence[str]) -> list[Stored]:
        """See `Store.purge`."""
        self._postgres.forget()
        at_ms, check = self._now_ms(), partial(self._admit_purge, session_ids)
        return self.keep_up(
            lambda connection: purge_sessions(connection, session_ids, at_ms, check)
        )

    def _admit_purge(self, session_ids: Sequence[str], connection: SqlConnection) -> None:
        """Raise `ConflictError` if another node owns one of these sessions; else nobody owns them any more."""
        if self._fence is not None and (
            refused := self._fence.check_purge(connection, session_ids)
        ):
            raise refused
        connection.execute(
            "delete from owners where session_id in (select value from json_each(?))",
            (names(list(session_ids)),),
        )

    def _transact(self, entries: Sequence[PreparedAppend | Refusal]) -> list[CommitResult]:
        """Store appends; make the commit again where it did nothing, and only there."""
        expects = True
        for _ in range(MAX_ATTEMPTS):
            projections = Projections()
            results: list[CommitResult] | None = None
            try:
                self._connect_again()
                try:
                    results = self._begun(entries, projections, expects=expects)
                    self._connection.execute("commit")
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("rollback")
            except Unexpected as error:
                self._look_anew(error)
            except DatabaseLost:
                is_stored = self._connected(partial(self._is_stored, projections))
                if results is not None and is_stored:
                    self._keep_acknowledged(results)
                    return results
            else:
                assert results is not None  # it is committed
                self._keep_acknowledged(results)
                return results
            expects = False
        raise self._busy()

    def _begun(
        self,
        entries: Sequence[PreparedAppend | Refusal],
        projections: Projections,
        *,
        expects: bool,
    ) -> list[CommitResult]:
        """Begin a transaction, look whether this node may write, and write."""
        if expects:
            self._postgres.begin_expecting()
        self._connection.execute("begin immediate")
        if self._fence is not None:
            written = [each for each in entries if isinstance(each, PreparedAppend) and each.events]
            named = list(dict.fromkeys(each.session_id for each in written))
            created = {
                each.session_id: first
                for each in written
                if type(first := each.events[0][0]) is SessionCreated
            }
            if refused := self._fence.check(self._connection, named, created, expects=expects):
                entries = [
                    refused.get(each.session_id, each) if isinstance(each, PreparedAppend) else each
                    for each in entries
                ]
        return self._store(entries, projections)

    def _is_stored(self, projections: Projections) -> bool:
        """Look whether a commit was done whose answer was lost: all of its sessions, or none, have its events.

        The process of the database that had it has ended by now, so it is not done later.
        """
        for session_id, projection in projections.items():
            if projection.last_event is not None:
                found = self._connection.execute(
                    _EVENT_AT, (session_id, projection.head_seq)
                ).fetchone()
                return bool(found == (projection.now_ms, projection.last_data))
        return False

    def _connect_again(self) -> None:
        """Wait for a new connection, if the present one is lost; raise `RecordLost` where the record is another one."""
        if self._lost is not None:
            raise self._lost
        if self._postgres.is_lost:
            self._connected(lambda: None)

    def _connected(self, look: Callable[[], Done]) -> Done:
        """Return what is seen over a connection that stands; a new one, and the next, are waited for.

        A server that ends may let somebody in before it does.
        """
        deadline = time.monotonic() + AWAY_SECONDS
        while True:
            try:
                if self._postgres.is_lost:
                    self._open_again(deadline - time.monotonic())
                return look()
            except DatabaseLost:
                is_over = self.stops.is_set() or time.monotonic() > deadline
                if is_over or not self._postgres.is_lost:
                    raise
                time.sleep(RETRY_SECONDS)

    def _open_again(self, seconds: float) -> None:
        self._postgres.open_again(seconds, self.stops.is_set)
        try:
            self.take_lock()
        except ConflictError as error:
            self._postgres.close()
            raise StorageError(str(error)) from error
        self._check_kept()

    # ── a standby that took over ─────────────────────────────────────────────────────────────────

    def _life(self) -> tuple[int, str]:
        """Return the timeline of the server, and the epoch of the record."""
        sql = f"select {TIMELINE_NOW}, value from meta where key = 'epoch'"
        ((timeline, epoch),) = self._postgres.execute(sql).fetchall()
        return timeline, epoch

    def _keep_acknowledged(self, results: Sequence[CommitResult]) -> None:
        """Keep how far sessions go whose events were acknowledged."""
        for result in results:
            if isinstance(result, tuple) and result:
                last = result[-1]
                self._acknowledged.pop(last.session_id, None)
                self._acknowledged[last.session_id] = last.seq
        while len(self._acknowledged) > MAX_ACKNOWLEDGED:
            del self._acknowledged[next(iter(self._acknowledged))]

    def _check_kept(self) -> None:
        """Look whether all is there that was acknowledged, where another server has the record now.

        A standby that follows behind may lack the last second. Then the record gets another epoch, which tells every
        client that what it holds may be more than the record, and nothing is written any more: sessions in memory are ahead
        of their record.
        """
        timeline, epoch = self._life()
        if timeline == self._timeline:
            return
        listed = names(list(self._acknowledged))
        sql = "select session_id, head_seq from sessions where session_id in (select value from json_each(?))"
        heads = dict(self._postgres.execute(sql, (listed,)).fetchall())
        lost = {
            name: (seq, heads.get(name, 0))
            for name, seq in self._acknowledged.items()
            if heads.get(name, 0) < seq
        }
        self._timeline = timeline
        if not lost and epoch == self._epoch:
            logger.warning(
                "%s: a standby has taken over, with all that was acknowledged", self._name
            )
            return
        if lost:
            sql = "update meta set value = ? where key = 'epoch' and value = ?"
            self._postgres.execute(sql, (new_epoch(), self._epoch))
            if self._fence is not None:
                self._postgres.execute(f"select pg_notify('{CHANNEL}', '{NODES}')")
        self._lost = RecordLost(_loss(self._name, lost))
        logger.error("%s", self._lost)
        raise self._lost

    def _look_anew(self, error: Exception) -> None:
        """Take nothing for granted that was known before a commit failed."""
        self._postgres.forget()
        if isinstance(error, NotPrepared):
            self._postgres.prepare_again()

    def _busy(self) -> StorageError:
        return StorageError(
            f"{self._name} was changed by others each of {MAX_ATTEMPTS} times that this was stored. Nothing "
            "of it was stored; try again."
        )


def take_writers_lock(
    connection: PostgresConnection, name: str, *, is_shared: bool = False
) -> None:
    """Take the lock of those who write, until the connection is closed.

    Raises:
        ConflictError: Another callboard has it, also `GONE_SECONDS` later.
    """
    way = "pg_try_advisory_lock_shared" if is_shared else "pg_try_advisory_lock"
    deadline = time.monotonic() + GONE_SECONDS
    while not connection.execute(f"select {way}(?)", (LOCK + 1,)).get:
        if time.monotonic() > deadline:
            raise another_writes(name)
        time.sleep(LOOK_SECONDS)


_EVENT_AT = (
    "select e.at_ms, e.event from events e join sessions s on s.id = e.session"
    " where s.session_id = ? and e.seq = ?"
)


def new_epoch() -> str:
    """Return what tells a record from every other one."""
    return uuid.uuid4().hex


def _loss(name: str, lost: Mapping[str, tuple[int, int]]) -> str:
    """Say what a record lacks that was acknowledged."""
    if not lost:
        return f"{name} has lost events that another node had put on record: a standby took over without them. This one begins anew."
    events = sum(acknowledged - now for acknowledged, now in lost.values())
    which = [
        f"{session_id} had {acknowledged}, has {now}"
        for session_id, (acknowledged, now) in list(lost.items())[:MAX_NAMED]
    ]
    more = ", …" if len(lost) > MAX_NAMED else ""
    return (
        f"{name} has lost {events} events that were acknowledged: a standby took over without them ("
        f"{', '.join(which)}{more}). Clients are told, by another epoch, that they may hold more than the record. "
        "Callboard begins anew."
    )


def _write_nothing(connection: SqlConnection) -> None:
    connection.execute("update meta set value = value where key = 'epoch'")
    connection.changes()
