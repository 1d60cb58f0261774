"""Durable events of memories: stored by a session, forgotten by a person."""

from __future__ import annotations

from .durable import Event


class MemoryStored(Event, frozen=True, kw_only=True, tag="memory_stored"):
    """The session stored a memory for later sessions of its agent; each memory is kept once.

    Attributes:
        memory_id: Derived from agent, text and tags: equal content is the same memory.
        agent: The agent whose sessions find it.
        call_id: The call that stored it.
        tags: Sorted, without duplicates.
        is_untrusted: Whether the call itself had read what strangers may have written; in a tainted
            session every memory is untrusted.
    """

    memory_id: str
    agent: str
    text: str
    tags: tuple[str, ...] = ()
    call_id: str = ""
    is_untrusted: bool = False


class MemoryForgotten(Event, frozen=True, kw_only=True, tag="memory_forgotten"):
    """A memory was removed, by `forgotten_by`; the event is in the session that stored it."""

    memory_id: str
    forgotten_by: str
