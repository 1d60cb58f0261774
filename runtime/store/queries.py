"""What is read of a database of events and rows, without a thread and without a file's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from ..definitions import CallStatus
from ..events import CallFinished, Stored
from ..identity import RequestKey
from ..memory.memories import Memory, query_of
from .codec import decode_event
from .feeds import DoneRequest, LogEntry, StoredBytes, Topic
from .interface import (
    ApprovalRow,
    CallRow,
    GrantRow,
    InputRow,
    MessageRow,
    OpenTurn,
    SessionRow,
    UsageRow,
)
from .ledger import SEEN_AT_MS, storage_error, too_large
from .lists import (
    CallFilter,
    CallPage,
    Hit,
    Limits,
    Search,
    SessionFilter,
    SessionPage,
    StoreSize,
)
from .rows import Spending, read_spending
from .tables.inputs import LATE_CALLS, LATE_QUESTIONS, SELECT_INPUTS, WAKING
from .tables.lists import LIMITS, TREE, call_condition, filtered, limits, names, session_condition
from .tables.memories import SEARCH_MEMORIES, SELECT_MEMORIES, memory_of
from .tables.permission_rows import (
    ASKED_BEFORE,
    GRANT_HOLDS,
    SELECT_APPROVALS,
    SELECT_GRANTS,
    approval_row,
    grant_row,
)
from .tables.requests import SELECT_REQUEST
from .tables.search import find_matches
from .tables.topics import LOG_HEAD, SELECT_BYTES, SELECT_LOG, log_entry
from .tables.usage import select_usage

# The call's own columns come from its row, so that a `tool_call` shows its present state and no
# large text is kept twice.
SELECT_MESSAGES = """
select m.message_id, s.session_id, m.position, m.type,
  iif(m.type = 'tool_result', c.display, m.content),
  m.created_at_ms, m.turn_id, m.thinking, m.call_id, c.name,
  iif(m.type = 'tool_call', c.arguments, null),
  iif(m.type = 'tool_result', c.result, null),
  c.status, c.duration_ms,
  m.input_tokens, m.output_tokens, m.model, m.provider, m.duration_ms, m.is_set_aside
from messages m
join sessions s on s.id = m.session
left join tool_calls c on m.call_id is not null and c.session = m.session and c.call_id = m.call_id
where s.session_id = ? and m.position > ?
order by m.position limit ?
"""


Row = TypeVar("Row", SessionRow, MessageRow, CallRow, UsageRow, InputRow)
_Made = TypeVar("_Made", ApprovalRow, GrantRow)

_BOOLEANS = frozenset({"is_active", "is_tainted", "has_private", "is_detached", "is_set_aside"})

_SESSION_COLUMNS = (
    "session_id, title, agent, kind, workspace, model, parent_id, message_count,"
    " last_message_preview, is_active, head_seq, created_at_ms, updated_at_ms, deleted_at_ms,"
    " is_tainted, parent_call_id, is_detached, has_private"
)

_CALL_COLUMNS = (
    "c.call_id, s.session_id, c.turn_id, c.name, c.status, c.arguments, c.result, c.display,"
    " c.proposed_at_ms, c.started_at_ms, c.finished_at_ms, c.duration_ms"
)

WAITED_FOR = (
    "select s.parent_call_id from sessions s where s.parent_id = ? and not s.is_detached"
    " and (? or exists (select 1 from turns t"
    " where t.session = s.id and t.is_suspended and t.ended_at_ms is null)) order by s.id"
)


class Queries:
    """The reading side of a database; every method raises `StorageError` when it fails."""

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self._connection = connection
        self._name = name

    def events(self, session_id: str, after_seq: int, limit: int | None) -> list[Stored]:
        """See `StoreReader.events`."""
        rows = self._rows(
            "select e.seq, e.at_ms, e.event from events e join sessions s on s.id = e.session"
            " where s.session_id = ? and e.seq > ? order by e.seq limit ?",
            (session_id, after_seq, _bound(limit)),
        )
        stored: list[Stored] = []
        for seq, at_ms, data in rows:
            try:
                event = decode_event(data)
            except msgspec.MsgspecError as error:
                place = f"{self._name}: event {seq} of session {session_id}"
                raise storage_error(place, error) from error
            stored.append(Stored(session_id, seq, at_ms, event))
        return stored

    def epoch(self) -> str:
        """See `FeedReader.epoch`."""
        return str(self._rows("select value from meta where key = 'epoch'", ())[0][0])

    def event_bytes(self, session_id: str, after_seq: int, limit: int | None) -> list[StoredBytes]:
        """See `FeedReader.event_bytes`."""
        rows = self._rows(SELECT_BYTES, (session_id, after_seq, _bound(limit)))
        return [StoredBytes(session_id, row[0], row[1], msgspec.Raw(row[2])) for row in rows]

    def log(self, after_seq: int, topic: Topic | None, limit: int | None) -> list[LogEntry]:
        """See `FeedReader.log`."""
        values = (after_seq, None if topic is None else topic.value, _bound(limit))
        return [log_entry(row) for row in self._rows(SELECT_LOG, values)]

    def log_head(self) -> int:
        """See `FeedReader.log_head`."""
        return int(self._rows(LOG_HEAD, ())[0][0])

    def request(self, request: RequestKey) -> DoneRequest | None:
        """See `FeedReader.request`."""
        rows = self._rows(SELECT_REQUEST, (request.sender, request.method, request.key))
        return DoneRequest(*rows[0]) if rows else None

    def session_page(self, wanted: SessionFilter) -> SessionPage:
        """See `RecordReader.session_page`."""
        where, values = session_condition(wanted)
        sql = f"from sessions s where {where} order by s.last_event desc limit ?"
        bound = (*values, wanted.limit + 1)
        places = [row[0] for row in self._rows(f"select s.last_event {sql}", bound)]
        rows = self._structs(SessionRow, f"select {_SESSION_COLUMNS} {sql}", bound)
        next_before = places[wanted.limit - 1] if len(places) > wanted.limit else None
        return SessionPage(rows[: wanted.limit], next_before)

    def call_page(self, wanted: CallFilter) -> CallPage:
        """See `RecordReader.call_page`."""
        where, values = call_condition(wanted)
        sql = (
            "from tool_calls c join sessions s on s.id = c.session"
            f" where {where} order by c.id desc limit ?"
        )
        bound = (*values, wanted.limit + 1)
        places = [row[0] for row in self._rows(f"select c.id {sql}", bound)]
        rows = self._structs(CallRow, f"select {_CALL_COLUMNS} {sql}", bound)
        next_before = places[wanted.limit - 1] if len(places) > wanted.limit else None
        return CallPage(rows[: wanted.limit], next_before)

    def hits(self, search: Search) -> list[Hit]:
        """See `RecordReader.hits`."""
        return [
            Hit(session=session, **match.of_message())
            for match in find_matches(self._rows, search)
            if (session := self.session(match.session_id)) is not None
        ]

    def session_tree(self, session_ids: Sequence[str]) -> list[str]:
        """See `RecordReader.session_tree`."""
        sql = f"{TREE} select session_id from tree"
        return [row[0] for row in self._rows(sql, (names(list(session_ids)),))]

    def expired_sessions(self, before_ms: int) -> list[str]:
        """See `RecordReader.expired_sessions`."""
        sql = "select session_id from sessions where deleted_at_ms < ? order by deleted_at_ms"
        return [row[0] for row in self._rows(sql, (before_ms,))]

    def size(self) -> StoreSize:
        """See `RecordReader.size`."""
        pragmas = "pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
        pages, free, page_bytes = self._rows(f"select * from {pragmas}", ())[0]
        return StoreSize((pages - free) * page_bytes, pages * page_bytes)

    def session(self, session_id: str) -> SessionRow | None:
        """See `StoreReader.session`."""
        rows = self._structs(
            SessionRow,
            f"select {_SESSION_COLUMNS} from sessions where session_id = ?",
            (session_id,),
        )
        return rows[0] if rows else None

    def sessions(
        self, limit: int, include_deleted: bool, include_children: bool
    ) -> list[SessionRow]:
        """See `StoreReader.sessions`."""
        return self._structs(
            SessionRow,
            f"select {_SESSION_COLUMNS} from sessions where (? or deleted_at_ms is null)"
            " and (? or parent_id is null) order by last_event desc limit ?",
            (include_deleted, include_children, _bound(limit)),
        )

    def children(
        self, parent_id: str | None, call_id: str | None, is_detached: bool | None
    ) -> list[SessionRow]:
        """See `StoreReader.children`."""
        where, values = filtered({"parent_id": parent_id, "parent_call_id": call_id})
        return self._structs(
            SessionRow,
            f"select {_SESSION_COLUMNS} from sessions where parent_id is not null and {where}"
            " and (? is null or is_detached = ?) order by id",
            (*values, is_detached, is_detached),
        )

    def messages(self, session_id: str, after: int, limit: int | None) -> list[MessageRow]:
        """See `StoreReader.messages`."""
        return self._structs(MessageRow, SELECT_MESSAGES, (session_id, after, _bound(limit)))

    def calls(
        self, session_id: str | None, name: str | None, status: CallStatus | None, limit: int
    ) -> list[CallRow]:
        """See `StoreReader.calls`."""
        where, values = filtered({"s.session_id": session_id, "c.name": name, "c.status": status})
        return self._structs(
            CallRow,
            f"select {_CALL_COLUMNS} from tool_calls c join sessions s on s.id = c.session"
            f" where {where} order by c.id desc limit ?",
            (*values, _bound(limit)),
        )

    def usage(
        self, session_id: str | None, since_ms: int, after: int, limit: int | None
    ) -> list[UsageRow]:
        """See `StoreReader.usage`."""
        query = select_usage(session_id, since_ms, after, _bound(limit))
        return self._structs(UsageRow, *query)

    def spending(self, session_id: str, turn_id: str | None) -> Spending | None:
        """See `StoreReader.spending`."""
        return read_spending(self._rows, session_id, turn_id)

    def approvals(
        self,
        session_id: str | None,
        approval_id: str | None,
        state: str | None,
        before: str | None,
        within: Limits,
        limit: int,
    ) -> list[ApprovalRow]:
        """See `StoreReader.approvals`."""
        where, values = filtered(
            {"s.session_id": session_id, "a.approval_id": approval_id, "a.state": state}
        )
        sql = f"{SELECT_APPROVALS} where {where}{ASKED_BEFORE}{LIMITS} order by a.id desc limit ?"
        bound = (*values, before, before, *limits(within.agents, within.session_ids), _bound(limit))
        return self._decoded(approval_row, self._rows(sql, bound))

    def grants(
        self, grant_id: str | None, include_ended: bool, limit: int | None
    ) -> list[GrantRow]:
        """See `StoreReader.grants`."""
        where, values = filtered({"g.grant_id": grant_id})
        sql = f"{SELECT_GRANTS} where {where} and (? or {GRANT_HOLDS}) order by g.id limit ?"
        rows = self._rows(sql, (*values, include_ended, _bound(limit)))
        return self._decoded(grant_row, rows)

    def _decoded(
        self, make: Callable[[tuple[Any, ...]], _Made], rows: list[tuple[Any, ...]]
    ) -> list[_Made]:
        try:
            return [make(row) for row in rows]
        except msgspec.MsgspecError as error:
            raise storage_error(self._name, error) from error

    def full_output(self, session_id: str, call_id: str) -> str | None:
        """See `StoreReader.full_output`."""
        rows = self._rows(
            "select c.finished_seq from tool_calls c join sessions s on s.id = c.session"
            " where s.session_id = ? and c.call_id = ? and c.finished_seq is not null",
            (session_id, call_id),
        )
        if not rows:
            return None
        (stored,) = self.events(session_id, rows[0][0] - 1, 1)
        return stored.event.full_output if isinstance(stored.event, CallFinished) else None

    def open_turns(self) -> list[OpenTurn]:
        """See `StoreReader.open_turns`."""
        turns = self._rows(
            "select t.session, s.session_id, t.turn_id, t.started_at_ms, t.is_suspended,"
            " s.parent_id, s.parent_call_id, s.is_detached from turns t"
            " join sessions s on s.id = t.session where t.ended_at_ms is null order by t.id",
            (),
        )
        seen = self._rows(SEEN_AT_MS, ())[0][0] or 0 if turns else 0
        return [self._open_turn(row, seen) for row in turns]

    def _open_turn(self, row: tuple[Any, ...], seen_at_ms: int) -> OpenTurn:
        key, session_id, turn_id, started_at_ms, is_suspended, *parent, is_detached = row
        parent_id, parent_call_id = parent
        return OpenTurn(
            session_id=session_id,
            turn_id=turn_id,
            started_at_ms=started_at_ms,
            calls=self._open_calls(key, turn_id),
            is_suspended=bool(is_suspended),
            approvals=tuple(self._open_questions(key, turn_id)),
            seen_at_ms=seen_at_ms,
            parent_id=parent_id,
            parent_call_id=parent_call_id,
            is_detached=bool(is_detached),
            delegated=tuple(row[0] for row in self._rows(WAITED_FOR, (session_id, is_suspended))),
        )

    def _open_questions(self, key: int, turn_id: str) -> list[ApprovalRow]:
        where = (
            "a.session = ? and (a.turn_id = ? and not a.is_deferred"
            f" or a.approval_id in ({LATE_QUESTIONS}))"
            " and not exists (select 1 from tool_calls c where"
            " c.session = a.session and c.call_id = a.call_id and c.finished_at_ms is not null)"
        )
        sql = f"{SELECT_APPROVALS} where {where} order by a.id"
        rows = self._rows(sql, (key, turn_id, key, turn_id))
        return self._decoded(approval_row, rows)

    def _open_calls(self, key: int, turn_id: str) -> tuple[CallRow, ...]:
        rows = self._structs(
            CallRow,
            f"select {_CALL_COLUMNS} from tool_calls c join sessions s on s.id = c.session"
            " where c.session = ? and c.finished_at_ms is null"
            " and (c.turn_id = ? and c.status <> 'deferred'"
            f" or c.call_id in ({LATE_CALLS})) order by c.id",
            (key, turn_id, key, turn_id),
        )
        return tuple(rows)

    def open_inputs(self, session_id: str) -> list[InputRow]:
        """See `StoreReader.open_inputs`."""
        where = "where s.session_id = ? order by i.id"
        return self._structs(InputRow, f"{SELECT_INPUTS} {where}", (session_id,))

    def waking_sessions(self) -> list[str]:
        """See `StoreReader.waking_sessions`."""
        return [row[0] for row in self._rows(WAKING, ())]

    def memories(
        self,
        agent: str | None,
        memory_id: str | None,
        before: str | None,
        within: Limits,
        limit: int,
    ) -> list[Memory]:
        """See `StoreReader.memories`."""
        bound = (*limits(within.agents, within.session_ids), _bound(limit))
        return self._memories(SELECT_MEMORIES, (agent, memory_id, before, *bound))

    def found_memories(self, agent: str, query: str, within: Limits, limit: int) -> list[Memory]:
        """See `StoreReader.found_memories`."""
        words = query_of(query)
        bound = (*limits(within.agents, within.session_ids), _bound(limit))
        return self._memories(SEARCH_MEMORIES, (words, agent, *bound)) if words else []

    def _memories(self, sql: str, values: tuple[object, ...]) -> list[Memory]:
        try:
            return [memory_of(row) for row in self._rows(sql, values)]
        except msgspec.MsgspecError as error:
            raise storage_error(self._name, error) from error

    def marked_files(self) -> list[str]:
        """See `StoreReader.marked_files`."""
        return [row[0] for row in self._rows("select path from marked_files", ())]

    def _structs(self, kind: type[Row], sql: str, values: tuple[object, ...]) -> list[Row]:
        # The columns stand in the order of the fields. SQLite has no booleans, and convert's
        # `strict=False`, which would take 0 and 1, also takes the text "null" for `None`.
        names = kind.__struct_fields__
        records = [dict(zip(names, row, strict=True)) for row in self._rows(sql, values)]
        for record in records:
            for name in _BOOLEANS & record.keys():
                record[name] = bool(record[name])
        try:
            return msgspec.convert(records, list[kind])  # type: ignore[valid-type]
        except msgspec.MsgspecError as error:
            raise storage_error(self._name, error) from error

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise storage_error(self._name, error) from error
        except OverflowError as error:
            raise too_large(error) from error
        except UnicodeEncodeError:
            return []  # a lone surrogate (an argument that is not UTF-8) names nothing stored


def _bound(limit: int | None) -> int:
    return -1 if limit is None else max(limit, 0)
