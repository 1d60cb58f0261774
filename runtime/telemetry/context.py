"""Ids of traces and spans: they follow from callboard's own, so a place can be told before its span exists.

A span that is made twice, by two processes, has the same id both times; and a program that a call starts can name the
span of that call while it still runs.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import msgspec

from ..identity import TraceContext

MAX_TURNS = 256
"""Turns whose place is known: each of their calls asks for it."""
_NO_ID, _LEAST_ID = bytes(8), bytes((*bytes(7), 1))
_SAMPLED = 1
"""The flag of a traceparent that says that the trace is kept."""


class TurnTrace(msgspec.Struct, frozen=True, gc=False):
    """Where a turn stands.

    Attributes:
        trace_id: The trace.
        parent_id: The span of who asked; 0 for none.
        is_sampled: Whether its spans are kept.
        state: The `tracestate` that came.
        session_id: Whose turn it is.
        propagate: The hosts that are told.
    """

    trace_id: int
    parent_id: int = 0
    is_sampled: bool = True
    state: str = ""
    session_id: str = ""
    propagate: frozenset[str] = frozenset()

    def below(self, own_id: str) -> TraceContext:
        """Return the place below the span of a turn or a call, for other programs."""
        flags = _SAMPLED if self.is_sampled else 0
        return TraceContext(
            f"00-{self.trace_id:032x}-{self.span_id(own_id):016x}-{flags:02x}", self.state
        )

    def headers(self, own_id: str, host: str) -> dict[str, str]:
        """Return what tells a server below which span it is asked; nothing, unless the host is one that is told.

        Ids are a way out for what knows them, so the operator names the hosts.
        """
        if host not in self.propagate:
            return {}
        place = self.below(own_id)
        told = {"traceparent": place.traceparent, "tracestate": place.tracestate}
        return {name: text for name, text in told.items() if text}

    def span_id(self, own_id: str) -> int:
        """Return the id of the span of a turn, a message, a call or a question of this session.

        Some models number their calls, so that two sessions of one trace may have a call of the same id.
        """
        return int.from_bytes(self.id_of(own_id))

    def id_of(self, own_id: str) -> bytes:
        """Return the same id as it is sent."""
        hashed = _hashed(self.session_id).copy()
        hashed.update(own_id.encode())
        found = hashed.digest()
        return _LEAST_ID if found == _NO_ID else found


@lru_cache(MAX_TURNS)
def _hashed(session_id: str) -> blake2b:
    """Return what all ids of a session begin with, hashed: each goes on from a copy, a quarter of the work less."""
    return blake2b(f"{session_id}/".encode(), digest_size=8)


class Tracing(msgspec.Struct, frozen=True):
    """Decides where turns stand.

    Attributes:
        sample: The share of the traces that begin here which is kept.
        propagate: The hosts that are told where they are asked from.
    """

    sample: float = 1.0
    propagate: frozenset[str] = frozenset()

    def of_turn(self, given: TraceContext | None, session_id: str, turn_id: str) -> TurnTrace:
        """Return where a turn stands: below who asked, or in a trace of its own.

        What comes from a record of another program may be malformed, and then is nothing.
        """
        return _place_of(self, given, session_id, turn_id)


@lru_cache(MAX_TURNS)
def _place_of(
    tracing: Tracing, given: TraceContext | None, session_id: str, turn_id: str
) -> TurnTrace:
    if given is None or not given.is_valid:
        text = f"{session_id}/{turn_id}"
        trace_id = int.from_bytes(blake2b(text.encode(), digest_size=16).digest()) or 1
        kept = trace_id & (1 << 64) - 1 < round(tracing.sample * (1 << 64))
        return TurnTrace(
            trace_id, is_sampled=kept, session_id=session_id, propagate=tracing.propagate
        )
    _, trace, parent, flags = given.traceparent.split("-")
    is_sampled = bool(int(flags, 16) & _SAMPLED)
    return TurnTrace(
        *(int(trace, 16), int(parent, 16), is_sampled, given.tracestate),
        *(session_id, tracing.propagate),
    )
