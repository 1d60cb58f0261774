"""What is read of a database of events and rows, without a thread and without a file's name."""

from __future__ import annotations

from typing import Any, TypeVar

import apsw
import msgspec

from .definitions import CallStatus
from .event_codec import decode_event
from .events import CallFinished, Stored
from .ledger import storage_error
from .store import CallRow, MessageRow, OpenTurn, SessionRow, UsageRow
from .usage_table import select_usage

Row = TypeVar("Row", SessionRow, MessageRow, CallRow, UsageRow)

_SESSION_COLUMNS = (
    "session_id, title, agent, kind, workspace, model, parent_id, message_count,"
    " last_message_preview, is_active, head_seq, created_at_ms, updated_at_ms, deleted_at_ms"
)

_CALL_COLUMNS = (
    "c.call_id, s.session_id, c.turn_id, c.name, c.status, c.arguments, c.result, c.display,"
    " c.proposed_at_ms, c.started_at_ms, c.finished_at_ms, c.duration_ms"
)

# The call's own columns come from its row, so that a `tool_call` shows its present state and no
# large text is kept twice.
_MESSAGES = """
select m.message_id, s.session_id, m.position, m.type,
  iif(m.type = 'tool_result', c.display, m.content),
  m.created_at_ms, m.turn_id, m.thinking, m.call_id, c.name,
  iif(m.type = 'tool_call', c.arguments, null),
  iif(m.type = 'tool_result', c.result, null),
  c.status, c.duration_ms,
  m.input_tokens, m.output_tokens, m.model, m.provider, m.duration_ms
from messages m
join sessions s on s.id = m.session
left join tool_calls c on m.call_id is not null and c.session = m.session and c.call_id = m.call_id
where s.session_id = ? and m.position > ?
order by m.position limit ?
"""


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

    def session(self, session_id: str) -> SessionRow | None:
        """See `StoreReader.session`."""
        rows = self._structs(
            SessionRow,
            f"select {_SESSION_COLUMNS} from sessions where session_id = ?",
            (session_id,),
        )
        return rows[0] if rows else None

    def sessions(self, limit: int, include_deleted: bool) -> list[SessionRow]:
        """See `StoreReader.sessions`."""
        return self._structs(
            SessionRow,
            f"select {_SESSION_COLUMNS} from sessions where ? or deleted_at_ms is null"
            " order by last_event desc limit ?",
            (include_deleted, _bound(limit)),
        )

    def messages(self, session_id: str, after: int, limit: int | None) -> list[MessageRow]:
        """See `StoreReader.messages`."""
        return self._structs(MessageRow, _MESSAGES, (session_id, after, _bound(limit)))

    def calls(
        self, session_id: str | None, name: str | None, status: CallStatus | None, limit: int
    ) -> list[CallRow]:
        """See `StoreReader.calls`."""
        wanted = {"s.session_id": session_id, "c.name": name, "c.status": status}
        filters = {column: value for column, value in wanted.items() if value is not None}
        where = " and ".join(f"{column} = ?" for column in filters) or "true"
        return self._structs(
            CallRow,
            f"select {_CALL_COLUMNS} from tool_calls c join sessions s on s.id = c.session"
            f" where {where} order by c.id desc limit ?",
            (*map(str, filters.values()), _bound(limit)),
        )

    def usage(
        self, session_id: str | None, since_ms: int, after: int, limit: int | None
    ) -> list[UsageRow]:
        """See `StoreReader.usage`."""
        query = select_usage(session_id, since_ms, after, _bound(limit))
        return self._structs(UsageRow, *query)

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
            "select t.session, s.session_id, t.turn_id, t.started_at_ms from turns t"
            " join sessions s on s.id = t.session where t.ended_at_ms is null order by t.id",
            (),
        )
        return [
            OpenTurn(
                session_id=session_id,
                turn_id=turn_id,
                started_at_ms=started_at_ms,
                calls=self._open_calls(key, turn_id),
            )
            for key, session_id, turn_id, started_at_ms in turns
        ]

    def _open_calls(self, key: int, turn_id: str) -> tuple[CallRow, ...]:
        rows = self._structs(
            CallRow,
            f"select {_CALL_COLUMNS} from tool_calls c join sessions s on s.id = c.session"
            " where c.session = ? and c.turn_id = ? and c.finished_at_ms is null order by c.id",
            (key, turn_id),
        )
        return tuple(rows)

    def _structs(self, kind: type[Row], sql: str, values: tuple[object, ...]) -> list[Row]:
        # The columns stand in the order of the fields. SQLite has no booleans, and convert's
        # `strict=False`, which would take 0 and 1, also takes the text "null" for `None`.
        names = kind.__struct_fields__
        records = [dict(zip(names, row, strict=True)) for row in self._rows(sql, values)]
        for record in records:
            if "is_active" in record:
                record["is_active"] = bool(record["is_active"])
        try:
            return msgspec.convert(records, list[kind])  # type: ignore[valid-type]
        except msgspec.MsgspecError as error:
            raise storage_error(self._name, error) from error

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise storage_error(self._name, error) from error
        except UnicodeEncodeError:
            return []  # a lone surrogate (an argument that is not UTF-8) names nothing stored


def _bound(limit: int | None) -> int:
    return -1 if limit is None else max(limit, 0)
