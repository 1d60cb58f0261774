"""Durable events of what is taken out of a history: a turn that is run again, deleted messages."""

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


class MessagesDeleted(Event, frozen=True, kw_only=True, tag="messages_deleted"):
    """Messages were deleted: the model, lists, searches and exports have them no more.

    The journal keeps what they said until the session is purged. A call and its result are deleted together,
    and what the call did stays done.

    Attributes:
        message_ids: Their ids, as `MessageRow` has them; of a call, those of both its messages.

    Example:
        await session.run("My name is Ada. What time is it?")
        rows = await runtime.store.messages(session.session_id)
        async with session.follow() as events:
            await session.delete_messages([rows[0].message_id])
            async for event in events:
                if isinstance(event, callboard.MessagesDeleted):
                    print(*event.message_ids)
                    break
    """

    message_ids: tuple[str, ...]


class AnswerRejected(Event, frozen=True, kw_only=True, tag="answer_rejected"):
    """The answer does not have the form that was given for it; the model is asked again, twice at most.

    Attributes:
        message_id: The answer.
        problem: What is wrong with it, for the model and for people.
        call_id: The call that gave it, of which the model reads the result, where it was not a text.

    Example:
        async with session.prompt("Is it noon in Tokyo?", answer=bool) as turn:
            async for event in turn:
                if isinstance(event, callboard.AnswerRejected):
                    print("not taken:", event.problem)
    """

    turn_id: str
    message_id: str
    problem: str
    call_id: str = ""
