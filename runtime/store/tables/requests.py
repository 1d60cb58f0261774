"""The table `requests`: keys of requests whose effect is an event, so that none is done twice.

A row is made in the commit of its event, and follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from ...errors import ConflictError
from ...events import DurableEvent, InputAccepted, SessionCreated, TurnSetAside
from ...identity import RequestKey

MAX_REQUESTS = 100_000
"""Keys that are known: clients repeat within minutes, and this many take days, and 20 MB."""

SELECT_REQUEST = (
    "select r.digest, s.session_id, r.seq from requests r join sessions s on s.id = r.session"
    " where r.sender = ? and r.method = ? and r.key = ?"
)


def request_of(event: DurableEvent) -> RequestKey | None:
    """The request that an event comes of, if that had a key."""
    if isinstance(event, InputAccepted | SessionCreated | TurnSetAside):
        return event.request
    return None


def request_problem(connection: apsw.Connection, events: Iterable[DurableEvent]) -> str | None:
    """Why events can't be stored: their request was done already."""
    for event in events:
        request = request_of(event)
        if request is not None and _is_known(connection, request):
            return f"the request {request.key!r} of {request.sender} was done already"
    return None


def keep_request(
    connection: apsw.Connection, session: int, seq: int, request: RequestKey | None
) -> None:
    """Notes what a request came to; the oldest ones are forgotten."""
    if request is None:
        return
    connection.execute(
        "insert into requests (sender, method, key, digest, session, seq) values (?, ?, ?, ?, ?, ?)",
        (request.sender, request.method, request.key, request.digest, session, seq),
    )
    last = connection.last_insert_rowid()
    connection.execute("delete from requests where id <= ?", (last - MAX_REQUESTS,))


def duplicate(events: Iterable[DurableEvent], connection: apsw.Connection) -> ConflictError | None:
    """The refusal of events whose request was done already."""
    problem = request_problem(connection, events)
    return None if problem is None else ConflictError(problem)


def _is_known(connection: apsw.Connection, request: RequestKey) -> bool:
    found = connection.execute(SELECT_REQUEST, (request.sender, request.method, request.key))
    return found.fetchone() is not None
