"""The table `requests`: idempotency keys of requests that were done, so that none is done twice.

A row is written in the commit of the event that is the request's effect, and follows from that event.
So after a crash either both are there or neither is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...errors import ConflictError
from ...events import (
    DurableEvent,
    InputAccepted,
    InputCancelled,
    SessionCreated,
    TurnEnded,
    TurnSetAside,
    TurnStarted,
)
from ...identity import RequestKey
from ..codec import decode_event
from ..rows import NamedInputRow

if TYPE_CHECKING:
    from .connection import SqlConnection

MAX_REQUESTS = 100_000
"""Keys to keep, some 20 MB. Clients repeat a request within minutes; this many take days."""

SELECT_REQUEST = (
    "select r.digest, s.session_id, r.seq from requests r join sessions s on s.id = r.session"
    " where r.sender = ? and r.method = ? and r.key = ?"
)


def duplicate(events: Iterable[DurableEvent], connection: SqlConnection) -> ConflictError | None:
    """Return the refusal of events whose request was done already."""
    for event in events:
        if isinstance(event, InputAccepted | SessionCreated | TurnSetAside) and event.request:
            request = event.request
            found = connection.execute(
                SELECT_REQUEST, (request.sender, request.method, request.key)
            )
            if found.fetchone() is not None:
                return ConflictError(
                    f"the request {request.key!r} of {request.sender} was done already"
                )
    return None


def keep_request(
    connection: SqlConnection, session: int, seq: int, request: RequestKey | None
) -> None:
    """Add the key of a request that was done; drop the oldest."""
    if request is None:
        return
    connection.execute(
        "insert into requests (sender, method, key, digest, session, seq) values (?, ?, ?, ?, ?, ?)",
        (request.sender, request.method, request.key, request.digest, session, seq),
    )
    connection.execute(
        "delete from requests where id <= (select max(id) from requests) - ?", (MAX_REQUESTS,)
    )


_LATEST_NAMED = (
    "select r.method, r.key, s.session_id, s.id, s.deleted_at_ms, r.seq, e.at_ms, e.event from"
    " (select id from requests where sender = ? order by id desc limit ?) l join requests r on r.id = l.id"
    " join sessions s on s.id = r.session join events e on e.session = r.session and e.seq = r.seq"
    " order by l.id desc"
)

_NAMED = (
    "select r.method, r.key, s.session_id, s.id, s.deleted_at_ms, r.seq, e.at_ms, e.event from requests r"
    " join sessions s on s.id = r.session join events e on e.session = r.session and e.seq = r.seq"
    " where r.sender = ? and r.key = ? limit ?"
)

_WHAT_BECAME = (
    "select event from events where session = ? and seq > ? and substr(event, 1, 20) in (?, ?, ?)"
    " order by seq limit ?"
)
_TURNS_AND_CANCELS = (b'{"type":"turn_starte', b'{"type":"turn_ended"', b'{"type":"input_cance')
"""An event begins with its type; the others, which may be many, are not decoded."""

MAX_TURNS_BETWEEN = 100
"""Of the turns behind an input, its own among them: so many others may wait before it."""

Rows = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]


def latest_named(
    rows: Rows, senders: Iterable[str], limit: int, key: str | None
) -> list[NamedInputRow]:
    """Return the last inputs of each sender, or those with a key, the latest first, and what became of them."""
    return [row for sender in senders for row in _latest_of(rows, sender, limit, key)]


def _latest_of(rows: Rows, sender: str, limit: int, wanted: str | None) -> list[NamedInputRow]:
    query, given = _LATEST_NAMED, tuple[Any, ...]((sender, 2 * limit))
    if wanted is not None:
        query, given = _NAMED, (sender, wanted, 2 * limit)
    found: list[NamedInputRow] = []
    # Half of its requests may have begun a session.
    for method, key, session_id, session, deleted_at_ms, seq, at_ms, event in rows(query, given):
        accepted = decode_event(event)
        if not isinstance(accepted, InputAccepted) or len(found) == limit:
            continue
        later = rows(_WHAT_BECAME, (session, seq, *_TURNS_AND_CANCELS, 2 * MAX_TURNS_BETWEEN))
        state, message = _what_became(accepted.input_id, [decode_event(row[0]) for row in later])
        if deleted_at_ms is not None and state in {"waiting", "running"}:
            state, message = "cancelled", "its session was deleted"
        found.append(
            NamedInputRow(
                sender=sender,
                method=method,
                key=key,
                session_id=session_id,
                input_id=accepted.input_id,
                seq=seq,
                at_ms=at_ms,
                state=state,
                message=message,
            )
        )
    return found


def _what_became(input_id: str, later: Iterable[DurableEvent]) -> tuple[str, str]:
    turn_id: str | None = None
    for event in later:
        if isinstance(event, InputCancelled) and event.input_id == input_id:
            return "cancelled", event.reason
        if isinstance(event, TurnStarted) and input_id in event.input_ids:
            turn_id = event.turn_id
        if isinstance(event, TurnEnded) and event.turn_id == turn_id:
            return event.outcome, event.message
    return ("waiting", "") if turn_id is None else ("running", "")
