"""What a session remembers for later ones, and what a person takes back of it."""

from __future__ import annotations

from .durable import Event


class MemoryStored(Event, frozen=True, kw_only=True, tag="memory_stored"):
    """The session told its agent's later sessions something; the store keeps each memory once.

    Attributes:
        memory_id: Follows from agent, text and tags: the same said again is the same memory.
        agent: Whose sessions find it.
        call_id: The call that stored it.
        tags: In the order of the alphabet, each once.
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
    """A memory is found no longer; `forgotten_by` says who took it back.

    It stands in the session that stored it.
    """

    memory_id: str
    forgotten_by: str
