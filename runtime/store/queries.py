"""What can be read from a store: every query, with its SQL, over one connection.

`Queries` is synchronous and knows no thread. `interface.StoreReader` offers each of its methods as an
asynchronous one; the two stores decide where the query runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
import msgspec

from ..definitions import Attachment, CallStatus
from ..events import CallFinished, Stored
from ..identity import RequestKey
from ..memory.memories import Memory, query_of
from ..text import UNDECODABLE
from .codec import decode_event, encode_event
from .feeds import DoneRequest, LogEntry, StoredBytes, Topic
from .ledger import SEEN_AT_MS, storage_error, too_large
from .lists import (
    ALL_VISIBLE,
    CallFilter,
    CallPage,
    Hit,
    SessionFilter,
    SessionPage,
    StoreSize,
    Visibility,
    WordSearch,
)
from .rows import (
    ApprovalRow,
    AskedQuestion,
    CallRow,
    GrantRow,
    InputRow,
    MessageRow,
    NamedInputRow,
    OpenTurn,
    SessionRow,
    Spending,
    TurnPlace,
    UsageRow,
    WaitingQuestion,
)
from .tables.inputs import (
    OPEN_CALLS,
    OPEN_QUESTIONS,
    OPEN_TURNS,
    SELECT_INPUTS,
    WAKING,
    last_questions,
    open_questions,
)
from .tables.lists import (
    SELECT_FIRST_MESSAGES,
    SELECT_LATEST_MESSAGES,
    SELECT_TURN_START,
    TREE,
    UNUSED_SESSIONS,
    WAITED_FOR,
    call_conditions,
    equal,
    joined,
    latest,
    names,
    position_of,
    visible,
    whole_messages,
)
from .tables.memories import memory_of, search_memories, select_memories
from .tables.permissions import (
    ASKED_BEFORE,
    GRANTS_THAT_HOLD,
    IS_OPEN,
    OPEN_STATES,
    SELECT_APPROVALS,
    SELECT_GRANTS,
    approval_row,
    grant_row,
)
from .tables.requests import SELECT_REQUEST, latest_named
from .tables.search import find_matches
from .tables.topics import LOG_HEAD, SELECT_BYTES, log_entry, select_log
from .tables.usage import read_spending, select_usage

if TYPE_CHECKING:
    from .tables.connection import SqlConnection

_Row = TypeVar("_Row", SessionRow, MessageRow, CallRow, UsageRow, InputRow)
_Decoded = TypeVar("_Decoded", ApprovalRow, GrantRow, Memory)

_BOOLEANS = frozenset(
    {"is_active", "is_tainted", "has_private", "is_detached", "is_set_aside", "is_deleted"}
)

_SESSION_COLUMNS = (
    "session_id, title, agent, kind, workspace, model, parent_id, message_count,"
    " last_message_preview, is_active, head_seq, created_at_ms, updated_at_ms, deleted_at_ms,"
    " is_tainted, parent_call_id, is_detached, has_private, forked_from, budget, '' as waiting_for, via"
)
_SELECT_SESSIONS = f"select {_SESSION_COLUMNS} from sessions s"

_CALL_COLUMNS = (
    "c.call_id, s.session_id, c.turn_id, c.name, c.status, c.arguments, c.result, c.display,"
    " c.proposed_at_ms, c.started_at_ms, c.finished_at_ms, c.duration_ms"
)
_FROM_CALLS = "from tool_calls c join sessions s on s.id = c.session"
_SELECT_CALLS = f"select {_CALL_COLUMNS} {_FROM_CALLS}"

MAX_POSITION = 2**63 - 1
"""Behind every message, and every event."""
ASK_USER = "ask_user"
"""The tool whose calls wait for a person's answer: it does nothing else, so they can wait again."""


class Queries:
    """The reads of one connection; each raises `StorageError` when the database fails.

    `name` is the database's, for errors.
    """

    def __init__(self, connection: SqlConnection, name: str) -> None:
        self._connection = connection
        self._name = name

    # ── events and feeds ─────────────────────────────────────────────────────────────────────────

    def events(
        self, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[Stored]:
        """Return the events of a session after `after_seq`, in order."""
        stored: list[Stored] = []
        for seq, at_ms, data in self._rows(SELECT_BYTES, (session_id, after_seq, _bound(limit))):
            try:
                event = decode_event(data)
            except UNDECODABLE as error:
                place = f"{self._name}: event {seq} of session {session_id}"
                raise storage_error(place, error) from error
            stored.append(Stored(session_id, seq, at_ms, event))
        return stored

    def event_bytes(
        self, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[StoredBytes]:
        """Return the same as `events`, not decoded."""
        rows = self._rows(SELECT_BYTES, (session_id, after_seq, _bound(limit)))
        return [StoredBytes(session_id, row[0], row[1], msgspec.Raw(row[2])) for row in rows]

    def shown_events(
        self, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> Sequence[Stored]:
        """Return the same as `events`, with nothing of deleted messages: for people, and for copies."""
        events = self.events(session_id, after_seq=after_seq, limit=limit)
        if not (deleted := self._deleted(session_id)):
            return events
        from .tables.deleted_messages import without_deleted  # rare, and a start imports it not

        return without_deleted(events, deleted)

    def shown_bytes(
        self, session_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[StoredBytes]:
        """Return the same as `shown_events`, not decoded."""
        if not self._deleted(session_id):
            return self.event_bytes(session_id, after_seq=after_seq, limit=limit)
        return [
            StoredBytes(session_id, each.seq, each.at_ms, msgspec.Raw(encode_event(each.event)[1]))
            for each in self.shown_events(session_id, after_seq=after_seq, limit=limit)
        ]

    def _deleted(self, session_id: str) -> frozenset[str]:
        """Return the ids of the messages of a session that were deleted."""
        rows = self._rows(
            "select m.message_id from messages m join sessions s on s.id = m.session"
            " where s.session_id = ? and m.is_deleted = 1",
            (session_id,),
        )
        return frozenset(row[0] for row in rows)

    def epoch(self) -> str:
        """Return the name of this store; a new or restored one has another."""
        return str(self._rows("select value from meta where key = 'epoch'", ())[0][0])

    def log(
        self, *, after_seq: int = 0, topic: Topic | None = None, limit: int | None = None
    ) -> list[LogEntry]:
        """Return the events of a topic, or of all topics, after `after_seq`, in order."""
        return [log_entry(row) for row in self._rows(*select_log(after_seq, topic, _bound(limit)))]

    def log_head(self) -> int:
        """Return the last `seq` of all topics."""
        return int(self._rows(LOG_HEAD, ())[0][0])

    def request(self, request: RequestKey) -> DoneRequest | None:
        """Return the result of the request with this idempotency key, if it was done."""
        rows = self._rows(SELECT_REQUEST, (request.sender, request.method, request.key))
        return DoneRequest(*rows[0]) if rows else None

    def named_inputs(
        self, senders: Sequence[str], limit: int, key: str | None = None
    ) -> list[NamedInputRow]:
        """Return the last inputs of each sender that came with a key, or this one, and what became of each."""
        return latest_named(self._rows, senders, max(limit, 0), key)

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def session(self, session_id: str) -> SessionRow | None:
        """Return one session, deleted or not."""
        rows = self._structs(SessionRow, f"{_SELECT_SESSIONS} where session_id = ?", (session_id,))
        return rows[0] if rows else None

    def sessions(
        self, *, limit: int = 100, include_deleted: bool = False, include_children: bool = True
    ) -> list[SessionRow]:
        """Return sessions, the latest activity first."""
        wanted = SessionFilter(
            deleted="also" if include_deleted else "no", include_children=include_children
        )
        return self._latest(wanted, _bound(limit))[1]

    def children(
        self,
        parent_id: str | None = None,
        *,
        call_id: str | None = None,
        is_detached: bool | None = None,
    ) -> list[SessionRow]:
        """Return sessions that were delegated to, in order, deleted ones too.

        Args:
            parent_id: Only those of this session.
            call_id: Only those of this call.
            is_detached: Only those whose parent does not have their answer yet, or only the others.
        """
        conditions = equal({"parent_id =": parent_id, "parent_call_id =": call_id})
        if is_detached is not None:  # as text, for the index of detached ones
            conditions.append((f"is_detached = {int(is_detached)}", ()))
        where, values = joined(conditions)
        query = f"{_SELECT_SESSIONS} where parent_id is not null and {where} order by id"
        return self._structs(SessionRow, query, values)

    def session_page(self, wanted: SessionFilter) -> SessionPage:
        """Return a page of sessions, the latest activity first."""
        places, rows = self._latest(wanted, wanted.limit + 1)
        next_before = places[wanted.limit - 1] if len(places) > wanted.limit else None
        return SessionPage(rows[: wanted.limit], next_before)

    def _latest(self, wanted: SessionFilter, limit: int) -> tuple[list[int], list[SessionRow]]:
        """Return places in the list, and the sessions there."""
        rows = self._rows(*latest(_SESSION_COLUMNS, wanted, limit))
        return [row[0] for row in rows], self._made(SessionRow, [row[1:] for row in rows])

    def unused_sessions(
        self, before_ms: int, *, after: tuple[int, str] | None = None, limit: int
    ) -> list[SessionRow]:
        """Return sessions without activity since a Unix time in ms, the longest unused first.

        Left out are deleted ones, those that others delegated to, and those whose turn runs. The next
        page is `after` the `updated_at_ms` and id of the last one.
        """
        at_ms, name = after or (0, "")
        return self._structs(
            SessionRow,
            f"{_SELECT_SESSIONS} {UNUSED_SESSIONS}",
            (before_ms, at_ms, name, limit),
        )

    def session_tree(self, session_ids: Sequence[str]) -> list[str]:
        """Return the ids of those of the sessions that exist, and of all sessions below them."""
        sql = f"{TREE} select session_id from tree"
        return [row[0] for row in self._rows(sql, (names(list(session_ids)),))]

    def expired_sessions(self, before_ms: int) -> list[str]:
        """Return the sessions that were deleted before a Unix time in ms, the first deleted first."""
        sql = "select session_id from sessions where deleted_at_ms < ? order by deleted_at_ms"
        return [row[0] for row in self._rows(sql, (before_ms,))]

    def hits(self, search: WordSearch) -> list[Hit]:
        """Return sessions whose messages hold the words, the best first.

        Only messages that `Store.index_words` has indexed are found.
        """
        return [
            Hit(session=session, **match.of_message())
            for match in find_matches(self._rows, search)
            if (session := self.session(match.session_id)) is not None
        ]

    # ── messages and calls ───────────────────────────────────────────────────────────────────────

    def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        latest_first: bool = False,
        limit: int | None = None,
        from_message: str | None = None,
    ) -> list[MessageRow]:
        """Return messages of a session, in order, or the latest first.

        Args:
            session_id: The session.
            after: Only those behind this position.
            before: Only those in front of this position.
            latest_first: From the end to the beginning; the next page is `before` the last one's position.
            limit: At most so many; `None` is all.
            from_message: Begin with this message; by default with the first or the last one.

        Raises:
            NotFoundError: The session has no message `from_message`.
        """
        end = MAX_POSITION if before is None else before
        if from_message is not None:
            at = position_of(self._rows, session_id, from_message)
            after, end = (after, min(end, at + 1)) if latest_first else (max(after, at - 1), end)
        query = SELECT_LATEST_MESSAGES if latest_first else SELECT_FIRST_MESSAGES
        return self._structs(MessageRow, query, (session_id, after, end, _bound(limit)))

    def whole_messages(self, session_id: str, message_ids: Sequence[str]) -> tuple[str, ...]:
        """Return the ids of these messages, with the results of calls and calls of results; raise `NotFoundError`."""
        return whole_messages(self._rows, session_id, message_ids)

    def message_file(self, session_id: str, message_id: str, number: int) -> Attachment | None:
        """Return a file that came with a message, counted from 0; `None` if there is none."""
        from .tables.files import read_file  # rare, and a start imports it not

        return read_file(self._rows, self.events, session_id, message_id, number)

    def calls(
        self,
        *,
        session_id: str | None = None,
        name: str | None = None,
        status: CallStatus | None = None,
        limit: int = 100,
    ) -> list[CallRow]:
        """Return tool calls, the latest first."""
        wanted = CallFilter(session_id=session_id, name=name, status=status)
        return self._latest_calls(wanted, _bound(limit))[1]

    def call_page(self, wanted: CallFilter) -> CallPage:
        """Return a page of calls, the latest first."""
        places, rows = self._latest_calls(wanted, wanted.limit + 1)
        next_before = places[wanted.limit - 1] if len(places) > wanted.limit else None
        return CallPage(rows[: wanted.limit], next_before)

    def _latest_calls(self, wanted: CallFilter, limit: int) -> tuple[list[int], list[CallRow]]:
        """Return places in the list, and the calls there."""
        where, values = joined(call_conditions(wanted))
        # The ids alone are sorted: the texts of a call may be large.
        found = f"select c.id {_FROM_CALLS} where {where} order by c.id desc limit ?"
        rows = self._rows(
            f"select c.id, {_CALL_COLUMNS} {_FROM_CALLS} where c.id in ({found}) order by c.id desc",
            (*values, limit),
        )
        return [row[0] for row in rows], self._made(CallRow, [row[1:] for row in rows])

    def full_output(self, session_id: str, call_id: str) -> str | None:
        """Return the whole output of a call whose result was cut, as JSON text."""
        finished = self.finished_call(session_id, call_id)
        return None if finished is None else finished.full_output

    def finished_call(self, session_id: str, call_id: str) -> CallFinished | None:
        """Return the whole result of a call, with its files; `None` if it has none."""
        rows = self._rows(
            f"select c.finished_seq {_FROM_CALLS}"
            " where s.session_id = ? and c.call_id = ? and c.finished_seq is not null",
            (session_id, call_id),
        )
        stored = self.events(session_id, after_seq=rows[0][0] - 1, limit=1) if rows else []
        return next((each.event for each in stored if isinstance(each.event, CallFinished)), None)

    def marked_files(self) -> list[str]:
        """Return the files that hold words of tainted sessions; see `FilesMarked`."""
        return [row[0] for row in self._rows("select path from marked_files", ())]

    # ── usage ────────────────────────────────────────────────────────────────────────────────────

    def usage(
        self,
        session_id: str | None = None,
        *,
        since_ms: int = 0,
        after: int = 0,
        limit: int | None = None,
    ) -> list[UsageRow]:
        """Return the tokens of each model call after position `after`, in order.

        Those of one session, or of all sessions, deleted ones too, since a Unix time in ms.
        """
        return self._structs(UsageRow, *select_usage(session_id, since_ms, after, _bound(limit)))

    def spending(self, session_id: str, turn_id: str | None = None) -> Spending | None:
        """Return what a session, or one turn of it, has used, with all that it delegated."""
        return read_spending(self._rows, session_id, turn_id)

    def size(self) -> StoreSize:
        """Return how large the store is."""
        pragmas = "pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
        pages, free, page_bytes = self._rows(f"select * from {pragmas}", ())[0]
        return StoreSize((pages - free) * page_bytes, pages * page_bytes)

    # ── permissions ──────────────────────────────────────────────────────────────────────────────

    def approvals(
        self,
        *,
        session_id: str | None = None,
        approval_id: str | None = None,
        state: str | None = None,
        before: str | None = None,
        within: Visibility = ALL_VISIBLE,
        limit: int = 100,
    ) -> list[ApprovalRow]:
        """Return questions to people, the latest first; only those asked before the id `before`."""
        conditions = equal(
            {
                "s.session_id =": session_id,
                "a.approval_id =": approval_id,
                "a.state =": state,
            }
        )
        if before is not None:
            conditions.append((ASKED_BEFORE, (before,)))
        index = ""
        if state in OPEN_STATES and approval_id is None:
            conditions.append((IS_OPEN, ()))
            index = "indexed by approvals_open"
        where, values = joined([*conditions, *visible(within)])
        # The ids alone are sorted.
        found = (
            f"select a.id from approvals a {index} join sessions s on s.id = a.session"
            f" where {where} order by a.id desc limit ?"
        )
        sql = f"{SELECT_APPROVALS} where a.id in ({found}) order by a.id desc"
        return self._decoded(approval_row, sql, (*values, _bound(limit)))

    def grants(
        self, *, grant_id: str | None = None, include_ended: bool = False, limit: int | None = None
    ) -> list[GrantRow]:
        """Return remembered answers, in the order in which they were given.

        Only those in force: not revoked, and, of a turn's grant, the turn has not ended.
        """
        conditions = equal({"g.grant_id =": grant_id})
        if not include_ended:
            conditions.append((f"g.id in ({GRANTS_THAT_HOLD})", ()))
        where, values = joined(conditions)
        sql = f"{SELECT_GRANTS} where {where} order by g.id limit ?"
        return self._decoded(grant_row, sql, (*values, _bound(limit)))

    # ── what a crash left, and what waits ────────────────────────────────────────────────────────

    def turn_start(self, session_id: str, turn_id: str | None = None) -> TurnPlace | None:
        """Return where a turn begins on record, the latest one of the session by default."""
        where, values = joined(equal({"s.session_id =": session_id, "l.turn_id =": turn_id}))
        rows = self._rows(SELECT_TURN_START.format(where), values)
        return TurnPlace(rows[0][0], bool(rows[0][1])) if rows else None

    def open_turns(self, session_id: str | None = None) -> list[OpenTurn]:
        """Return the turns without an end: those that a crash left, and suspended ones.

        Those of one session, or of all.
        """
        turns = [self._open_turn(row) for row in self._open_turn_rows(session_id)]
        if not any(turn.approvals for turn in turns):
            return turns
        seen = self._rows(SEEN_AT_MS, ())[0][0] or 0
        return [msgspec.structs.replace(turn, seen_at_ms=seen) for turn in turns]

    def open_questions(self, session_id: str | None = None) -> list[WaitingQuestion]:
        """Return the questions without an answer whose calls have no result, in the order of their turns.

        Those of `ask_user` and those of the servers of tools; of one session, or of all.
        """
        try:
            return [
                question
                for row in self._open_turn_rows(session_id)
                for question in open_questions(self._rows, row)
            ]
        except UNDECODABLE as error:
            raise storage_error(self._name, error) from error

    def _open_turn_rows(self, session_id: str | None) -> list[tuple[Any, ...]]:
        where, values = joined(equal({"s.session_id =": session_id}))
        return self._rows(f"{OPEN_TURNS} and {where} order by t.id", values)

    def _open_turn(self, row: tuple[Any, ...]) -> OpenTurn:
        key, session_id, turn_id, started_at_ms, is_suspended, *parent, is_detached = row
        parent_id, parent_call_id = parent
        keys = (key, turn_id, key, turn_id)
        questions = f"{SELECT_APPROVALS} {OPEN_QUESTIONS}"
        open_calls = self._structs(CallRow, f"{_SELECT_CALLS} {OPEN_CALLS}", keys)
        asking = {c.call_id for c in open_calls if c.name == ASK_USER and c.started_at_ms}
        return OpenTurn(
            session_id=session_id,
            turn_id=turn_id,
            started_at_ms=started_at_ms,
            calls=tuple(open_calls),
            is_suspended=bool(is_suspended),
            approvals=tuple(self._decoded(approval_row, questions, keys)),
            parent_id=parent_id,
            parent_call_id=parent_call_id,
            is_detached=bool(is_detached),
            delegated=tuple(row[0] for row in self._rows(WAITED_FOR, (session_id, is_suspended))),
            questions=tuple(self._questions(key, turn_id, asking)) if asking else (),
        )

    def _questions(self, key: int, turn_id: str, call_ids: set[str]) -> list[AskedQuestion]:
        try:
            return last_questions(self._rows, key, turn_id, call_ids)
        except UNDECODABLE as error:
            raise storage_error(self._name, error) from error

    def open_inputs(self, session_id: str) -> list[InputRow]:
        """Return the inputs of a session whose turns have not ended, in order."""
        where = "where s.session_id = ? order by i.id"
        return self._structs(InputRow, f"{SELECT_INPUTS} {where}", (session_id,))

    def waking_sessions(self) -> list[str]:
        """Return the sessions with an input whose turn can begin; see `WAKING`."""
        return [row[0] for row in self._rows(WAKING, ())]

    # ── memories ─────────────────────────────────────────────────────────────────────────────────

    def memories(
        self,
        *,
        agent: str | None = None,
        memory_id: str | None = None,
        before: str | None = None,
        within: Visibility = ALL_VISIBLE,
        limit: int = 100,
    ) -> list[Memory]:
        """Return memories, the latest first; only those stored before the id `before`."""
        sql, values = select_memories(agent, memory_id, before, within, _bound(limit))
        return self._decoded(memory_of, sql, values)

    def found_memories(
        self, agent: str, query: str, *, within: Visibility = ALL_VISIBLE, limit: int
    ) -> list[Memory]:
        """Return an agent's memories that hold a word of the query, the best first."""
        words = query_of(query)
        sql, values = search_memories(agent, words, within, _bound(limit))
        return self._decoded(memory_of, sql, values) if words else []

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def _decoded(
        self,
        make: Callable[[tuple[Any, ...]], _Decoded],
        sql: str,
        values: tuple[object, ...],
    ) -> list[_Decoded]:
        try:
            return [make(row) for row in self._rows(sql, values)]
        except UNDECODABLE as error:
            raise storage_error(self._name, error) from error

    def _structs(self, kind: type[_Row], sql: str, values: tuple[object, ...]) -> list[_Row]:
        return self._made(kind, self._rows(sql, values))

    def _made(self, kind: type[_Row], rows: list[tuple[Any, ...]]) -> list[_Row]:
        # The columns are in the order of the fields. SQLite has no booleans, and `strict=False` of
        # convert, which would accept 0 and 1, also reads the text "null" as `None`.
        names = kind.__struct_fields__
        records = [dict(zip(names, row, strict=True)) for row in rows]
        booleans = _BOOLEANS.intersection(names)
        for record in records:
            for name in booleans:
                record[name] = bool(record[name])
            if (files := record.pop("files", None)) is not None:  # see `tables.files`
                record["files"] = msgspec.json.decode(files)["files"]
            if (budget := record.pop("budget", None)) is not None:
                record["budget"] = msgspec.json.decode(budget)
        try:
            return msgspec.convert(records, list[kind])  # type: ignore[valid-type]
        except UNDECODABLE as error:
            raise storage_error(self._name, error) from error

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise storage_error(self._name, error) from error
        except OverflowError as error:
            raise too_large(error) from error
        except UnicodeEncodeError:
            return []  # nothing stored has a lone surrogate (from an argument that is not UTF-8)


def _bound(limit: int | None) -> int:
    return MAX_POSITION if limit is None else max(limit, 0)
