"""The table `topic_log`: the events of topics, in one order over all sessions.

A number is never used twice, even if its session was purged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ...events import Stored
from ..codec import event_of
from ..feeds import TOPIC_OF, LogEntry, StoredBytes, Topic
from .lists import Condition, equal, joined

if TYPE_CHECKING:
    from .connection import SqlConnection

LOG_HEAD = "select coalesce(max(id), 0) from topic_log"
"""The last number that was used: a purge, which removes rows, adds a later one."""

_SELECT_LOG = (
    "select l.id, l.topic, coalesce(s.agent, p.agent), coalesce(s.session_id, p.session_id),"
    f" coalesce(e.seq, p.seq), coalesce(e.at_ms, p.at_ms), {event_of('e')}, p.event"
    " from topic_log l left join sessions s on s.id = l.session"
    " left join events e on e.session = l.session and e.seq = l.seq left join purged p on p.id = l.id"
)

NO_SESSION = 0
"""Stands for a purged session, because another one may get its key."""

SELECT_BYTES = (
    f"select e.seq, e.at_ms, {event_of('e')} from events e join sessions s on s.id = e.session"
    " where s.session_id = ? and e.seq > ? order by e.seq limit ?"
)


def select_log(after_seq: int, topic: Topic | None, limit: int) -> Condition:
    """Return the query for the events of a topic, or of all, in order, and its values."""
    where, values = joined(equal({"l.id >": after_seq, "l.topic =": topic and str(topic)}))
    return f"{_SELECT_LOG} where {where} order by l.id limit ?", (*values, limit)


_LOG = "insert into topic_log (topic, session, seq) values (?, ?, ?)"


def log_event(connection: SqlConnection, session: int, seq: int, topic: Topic) -> None:
    """Add an event of a topic."""
    connection.execute(_LOG, (topic.value, session, seq))


def log_purge(connection: SqlConnection, agent: str, stored: Stored, event: bytes) -> None:
    """Note that a session was purged, for clients that reconnect: its id stays, no text."""
    topic = TOPIC_OF[type(stored.event)]
    place = connection.execute(f"{_LOG} returning id", (topic.value, NO_SESSION, stored.seq)).get
    connection.execute(
        "insert into purged (id, session_id, agent, seq, at_ms, event) values (?, ?, ?, ?, ?, ?)",
        (
            place,
            stored.session_id,
            agent,
            stored.seq,
            stored.at_ms,
            event,
        ),
    )


def log_entry(row: tuple[Any, ...]) -> LogEntry:
    """Return the entry of a row of `select_log`."""
    seq, topic, agent, session_id, session_seq, at_ms, data, of_purge = row
    data = of_purge if data is None else data
    return LogEntry(
        seq, Topic(topic), agent, StoredBytes(session_id, session_seq, at_ms, msgspec.Raw(data))
    )
