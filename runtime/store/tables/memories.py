"""The tables of memories: who stored which, and the index of their words; the texts are in the events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...events import DurableEvent, MemoryForgotten, MemoryStored
from ...memory.memories import MAX_MEMORIES, Memory, indexed
from ..codec import decode_event, event_of
from ..lists import Visibility
from .lists import Condition, equal, joined, visible

if TYPE_CHECKING:
    from .connection import SqlConnection

MemoryEvent = MemoryStored | MemoryForgotten

_SELECT = f"""
select s.session_id, e.at_ms, {event_of("e")}, m.is_untrusted
from memories m
join sessions s on s.id = m.session
join events e on e.session = m.session and e.seq = m.stored_seq
"""

_BEFORE = "m.id < (select b.id from memories b where b.memory_id = ?)"


INDEX_MEMORY = "insert into memory_words (rowid, text, tags) values (?, ?, ?)"


def select_memories(
    agent: str | None, memory_id: str | None, before: str | None, within: Visibility, limit: int
) -> Condition:
    """Return the query for memories, the latest first, and its values."""
    conditions = equal({"m.agent =": agent, "m.memory_id =": memory_id})
    if before is not None:
        conditions.append((_BEFORE, (before,)))
    where, values = joined([*conditions, *visible(within)])
    return f"{_SELECT} where {where} order by m.id desc limit ?", (*values, limit)


def search_memories(agent: str, words: str, within: Visibility, limit: int) -> Condition:
    """Return the query for memories with these words, the best first, and its values."""
    matches: list[Condition] = [("memory_words match ?", (words,)), ("m.agent = ?", (agent,))]
    where, values = joined([*matches, *visible(within)])
    # A tag is chosen on purpose, so it counts as much as two words of the text.
    order = "bm25(memory_words, 1.0, 2.0), m.id desc"
    sql = f"{_SELECT} join memory_words w on w.rowid = m.id where {where} order by {order} limit ?"
    return sql, (*values, limit)


def keep_memory(
    connection: SqlConnection, session: int, event: MemoryEvent, seq: int, *, is_untrusted: bool
) -> bool:
    """Store or forget a memory; return `False`, having changed nothing, if that was done already."""
    if isinstance(event, MemoryForgotten):
        return _forget(connection, session, event.memory_id)
    key = connection.execute(
        "insert into memories (session, memory_id, agent, stored_seq, is_untrusted)"
        " values (?, ?, ?, ?, ?) on conflict do nothing returning id",
        (session, event.memory_id, event.agent, seq, is_untrusted or event.is_untrusted),
    ).get
    if key is None:
        return False
    connection.execute(
        INDEX_MEMORY,
        (key, indexed(event.text), indexed(" ".join(event.tags))),
    )
    return True


def memory_problem(connection: SqlConnection, events: Iterable[DurableEvent]) -> str | None:
    """Return why a memory can't be stored, or `None` if it can."""
    for event in events:
        if isinstance(event, MemoryStored) and not _is_there(connection, event):
            count = connection.execute(
                "select count(*) from memories where agent = ?", (event.agent,)
            ).get
            if count >= MAX_MEMORIES:
                return (
                    f"The agent {event.agent} has {count} memories, which is as many as there may "
                    "be. `callboard memory forget ID` makes room."
                )
    return None


def memory_of(row: tuple[Any, ...]) -> Memory:
    """Return the memory of a row."""
    session_id, at_ms, data, is_untrusted = row
    event = decode_event(data)
    assert isinstance(event, MemoryStored)
    return Memory(
        memory_id=event.memory_id,
        agent=event.agent,
        text=event.text,
        tags=event.tags,
        session_id=session_id,
        call_id=event.call_id,
        is_untrusted=bool(is_untrusted),
        stored_at_ms=at_ms,
    )


def _is_there(connection: SqlConnection, event: MemoryStored) -> bool:
    row = connection.execute(
        "select 1 from memories where memory_id = ?", (event.memory_id,)
    ).fetchone()
    return row is not None


def _forget(connection: SqlConnection, session: int, memory_id: str) -> bool:
    key = connection.execute(
        "delete from memories where memory_id = ? and session = ? returning id",
        (memory_id, session),
    ).get
    if key is None:
        return False
    connection.execute("delete from memory_words where rowid = ?", (key,))
    return True
