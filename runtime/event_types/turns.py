"""The durable event of a turn that does not count any more, since another takes its place."""

from __future__ import annotations

from typing import Literal

from ..identity import RequestKey
from .durable import Event

RerunWay = Literal["retry", "regenerate"]
"""Why a turn is run again: it was not answered, or another answer is wanted."""

TurnOutcome = Literal[
    "answered",
    "cancelled",
    "failed",
    "refused",
    "max_tokens",
    "budget",
    "loop_guard",
    "suspended",
]
"""How a turn ended; only an `answered` one has a whole answer."""


class TurnSetAside(Event, frozen=True, kw_only=True, tag="turn_set_aside"):
    """The last turn's answers and calls are no part of what the model reads from here on.

    Its inputs are, and have another turn: `TurnStarted` follows in the same commit. The journal
    keeps what is set aside, and nothing that tools did is undone.

    Attributes:
        input_ids: Those of the turn, in their order.
        why: `retry`, as it was not answered, or `regenerate`, as another answer is wanted.
        request: The request of a client that it comes of, if that had a key.

    Example:
        await session.run("What time is it in Tokyo?")
        async with session.regenerate() as turn:
            async for event in turn:
                if isinstance(event, callboard.TurnSetAside):
                    print(event.turn_id, "is set aside:", event.why)
    """

    turn_id: str
    input_ids: tuple[str, ...]
    why: RerunWay
    request: RequestKey | None = None
