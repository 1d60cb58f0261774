"""How a session cancels what it does not run: an input that waits, and a turn that waits on record.

A turn that waits for a person may be unable to go on: its agent is gone, or its model. Nothing of them is
needed to end it, so it is ended from the record alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from ...runtime.errors import CallboardError
from ...runtime.events import DurableEvent, InputCancelled, TurnEnded
from ...runtime.history import Call
from ...runtime.identity import now_ms
from ...runtime.kernel.mailbox import Reply
from ...runtime.store.rows import OpenTurn
from ..calls.outcome import cancelled_call
from ..conversation.conversation import Conversation


@contextmanager
def answering(reply: Reply[bool]) -> Generator[None]:
    """Answer a cancel when the block has ended: that it was done, or with the error that it raised."""
    with reply:
        try:
            yield
        except CallboardError as error:
            reply.fail(error)
        else:
            reply.send(True)


def cancelled_input(conversation: Conversation, input_id: str, reason: str) -> list[DurableEvent]:
    """Return the end of an input that waits, and of the deferred call that it is about, if it is about one."""
    calls = [
        cancelled_call(each.turn_id, Call(each.call_id, each.name, ""), reason)
        for each in conversation.pending.due((input_id,)).values()
    ]
    return [*calls, InputCancelled(input_id=input_id, reason=reason)]


async def end_suspended(
    left: OpenTurn,
    reason: str,
    end_below: Callable[[str, str, str], Awaitable[None]],
    append_end: Callable[..., Awaitable[object]],
) -> None:
    """End a suspended turn: first what it delegated, then its open calls, in order; raises `StorageError`.

    Args:
        left: The turn.
        reason: Why, for the record and the model.
        end_below: Cancels what the turn has delegated.
        append_end: Stores the end.
    """
    await end_below(left.session_id, left.turn_id, reason)
    calls = [
        cancelled_call(left.turn_id, Call(each.call_id, each.name, ""), reason)
        for each in left.calls
    ]
    took = max(now_ms() - left.started_at_ms, 0)
    ended = TurnEnded(turn_id=left.turn_id, outcome="cancelled", message=reason, duration_ms=took)
    await append_end(*calls, ended)
