"""The table `requests`: idempotency keys of requests that were done, so that none is done twice.

A row is written in the commit of the event that is the request's effect, and follows from that event.
So after a crash either both are there or neither is.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from ...errors import ConflictError
from ...events import DurableEvent, InputAccepted, SessionCreated, TurnSetAside
from ...identity import RequestKey

MAX_REQUESTS = 100_000
"""Keys to keep, some 20 MB. Clients repeat a request within minutes; this many take days."""

SELECT_REQUEST = (
    "select r.digest, s.session_id, r.seq from requests r join sessions s on s.id = r.session"
    " where r.sender = ? and r.method = ? and r.key = ?"
)


def duplicate(events: Iterable[DurableEvent], connection: apsw.Connection) -> ConflictError | None:
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
    connection: apsw.Connection, session: int, seq: int, request: RequestKey | None
) -> None:
    """Add the key of a request that was done; drop the oldest."""
    if request is None:
        return
    connection.execute(
        "insert into requests (sender, method, key, digest, session, seq) values (?, ?, ?, ?, ?, ?)",
        (request.sender, request.method, request.key, request.digest, session, seq),
    )
    last = connection.last_insert_rowid()
    connection.execute("delete from requests where id <= ?", (last - MAX_REQUESTS,))
