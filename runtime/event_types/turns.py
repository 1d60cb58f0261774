"""The durable event of a turn that is run again, and the words for outcomes of turns."""

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
    """The last turn is run again: the model no longer reads its answers and calls.

    Its inputs get another turn: `TurnStarted` follows in the same commit. The journal keeps the old
    turn, and nothing that its tools did is undone.

    Attributes:
        why: `retry` if it was not answered, `regenerate` if another answer is wanted.
        request: The client's request that it comes from, if that had an idempotency key.

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
