"""SQLite in memory as the database of a cluster. Its clock stands still until it is set.

It has the tables of a store, so that the statements of `runtime.cluster.registry` run as they are; what only
PostgreSQL has (locks of rows) is left out, since one statement runs after another here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from callboard.runtime.cluster.registry import ClusterSql
from callboard.runtime.errors import StorageError
from callboard.runtime.store.migrations import migrate
from callboard.runtime.store.postgres.schema import CLUSTER, NODE_KEYS, OWNERS_BY_ROOT, TIMELINE

SQLITE = ClusterSql(
    now="now_ms()",
    is_settled="true",
    shared="",
    skip_locked="",
    one_of="{column} in (select value from json_each(?))",
)


class PlayedDatabase:
    """The database, which several nodes share; `is_down` makes each statement fail."""

    sql = SQLITE

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms
        self.name = "the played database"
        self.is_down = False
        self.statements = 0
        self.connection = apsw.Connection(":memory:")
        migrate(self.connection, self.name)
        self.connection.create_scalar_function("now_ms", self._read_clock, 0)
        for statement in re.sub(
            r" with \(.*\)|--.*", "", CLUSTER + NODE_KEYS + TIMELINE + OWNERS_BY_ROOT
        ).split(";\n"):
            self.connection.execute(statement)

    def _read_clock(self, *_: object) -> int:
        return self.now_ms

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self.is_down:
            raise StorageError("the played database is down")
        self.statements += 1
        return list(self.connection.execute(sql, tuple(values)))

    @contextmanager
    def transaction(self) -> Generator[None]:
        with self.connection:
            yield

    def list_value(self, values: Collection[object]) -> str:
        return msgspec.json.encode(list(values)).decode()

    def add_session(
        self, session_id: str, *, parent_id: str | None = None, is_busy: bool = False
    ) -> None:
        """Put a session on record, as the store would; a busy one has an input that waits."""
        self.add_sessions([(session_id, parent_id)], [session_id] if is_busy else [])

    def add_sessions(
        self, sessions: Sequence[tuple[str, str | None]], busy: Collection[str]
    ) -> None:
        """Put many sessions on record, each with its parent."""
        with self.connection:
            self.connection.executemany(
                "insert into sessions (session_id, title, agent, kind, workspace, parent_id,"
                " message_count, last_message_preview, is_active, head_seq, last_event,"
                " created_at_ms, updated_at_ms) values (?, '', '', '', '', ?, 0, '', 0, 1, 0, 0, 0)",
                sessions,
            )
            self.connection.executemany(
                "insert into inputs (session, input_id, source)"
                " select id, 'input', 'user' from sessions where session_id = ?",
                ((name,) for name in busy),
            )

    def detach(self, session_id: str, *, is_delivered: bool) -> None:
        """Let no call wait for a session that has ended; its parent may have its answer."""
        sql = "update sessions set is_detached = ? where session_id = ?"
        self.connection.execute(sql, (not is_delivered, session_id))

    def defer(self, session_id: str, state: str) -> None:
        """Put a deferred question of a turn that has ended on record."""
        self.connection.execute(
            "insert into approvals (session, approval_id, turn_id, call_id, digest, state, asked_seq,"
            " asked_at_ms, is_deferred) select id, 'approval', 'turn', 'call', '', ?, 1, 0, 1"
            " from sessions where session_id = ?",
            (state, session_id),
        )

    def owners(self) -> Counter[tuple[str, int]]:
        """How many sessions each life owns."""
        return Counter(self.connection.execute("select node_id, term from owners"))
