"""The table `topic_log`: the events of topics, in one order over all sessions.

A number is never used twice, even if its session was purged.
"""

from __future__ import annotations

from typing import Any

import apsw
import msgspec

from ...events import Stored
from ..codec import event_of
from ..feeds import TOPIC_OF, LogEntry, StoredBytes, Topic
from .lists import Condition, equal, joined

LOG_HEAD = "select coalesce((select seq from sqlite_sequence where name = 'topic_log'), 0)"
"""The last number that was used."""

_SELECT_LOG = (
    "select l.id, l.topic, coalesce(s.agent, p.agent), coalesce(s.session_id, p.session_id),"
    f" coalesce(e.seq, p.seq), coalesce(e.at_ms, p.at_ms), coalesce({event_of('e')}, p.event)"
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


def log_event(connection: apsw.Connection, session: int, seq: int, topic: Topic) -> None:
    """Add an event of a topic."""
    connection.execute(
        "insert into topic_log (topic, session, seq) values (?, ?, ?)", (topic.value, session, seq)
    )


def log_purge(connection: apsw.Connection, agent: str, stored: Stored, event: bytes) -> None:
    """Note that a session was purged, for clients that reconnect: its id stays, no text."""
    log_event(connection, NO_SESSION, stored.seq, TOPIC_OF[type(stored.event)])
    connection.execute(
        "insert into purged (id, session_id, agent, seq, at_ms, event) values (?, ?, ?, ?, ?, ?)",
        (
            connection.last_insert_rowid(),
            stored.session_id,
            agent,
            stored.seq,
            stored.at_ms,
            event,
        ),
    )


def log_entry(row: tuple[Any, ...]) -> LogEntry:
    """Return the entry of a row of `select_log`."""
    seq, topic, agent, session_id, session_seq, at_ms, data = row
    return LogEntry(
        seq, Topic(topic), agent, StoredBytes(session_id, session_seq, at_ms, msgspec.Raw(data))
    )
