"""What came of a delegated task, read from the record of the session that had it."""

from __future__ import annotations

from collections.abc import Iterable

from ..runtime.events import (
    DurableEvent,
    InputCancelled,
    MessageCompleted,
    Stored,
    TurnEnded,
)
from ..runtime.history import Refusal, Text
from ..runtime.subscription import Subscription


class ChildAnswer:
    """The last turn of a session: how it ended, and its last answer.

    Attributes:
        outcome: The turn's; `interrupted` as long as it has none.
        text: The last answer's.
        message: What happened, when it was not answered.
    """

    def __init__(self) -> None:
        self.outcome = "interrupted"
        self.text = ""
        self.message = "Its process ended before it began."

    @classmethod
    def of(cls, events: Iterable[Stored]) -> ChildAnswer:
        """What the whole record says."""
        answer = cls()
        for stored in events:
            answer.fold(stored.event)
        return answer

    async def listen(self, subscription: Subscription) -> None:
        """Hears a turn to its end; raises what the session hung up with."""
        while updates := await subscription.take():
            for update in updates:
                if isinstance(update, Stored):
                    self.fold(update.event)

    def fold(self, event: DurableEvent) -> None:
        """Takes the next event into account."""
        match event:
            case MessageCompleted():
                self.text = "".join(p.text for p in event.parts if isinstance(p, Text | Refusal))
            case TurnEnded():
                self.outcome, self.message = event.outcome, event.message
            case InputCancelled():
                self.outcome, self.message = "cancelled", event.reason


def told(session_id: str, answer: ChildAnswer) -> str:
    """The late answer of a session that nobody waited for, as its parent's model reads it."""
    if answer.outcome == "answered":
        return f"The session {session_id}, which you gave a task, has answered:\n\n{answer.text}"
    why = f": {answer.message}" if answer.message else "."
    so_far = f"\n\nIts last words:\n\n{answer.text}" if answer.text else ""
    return (
        f"The session {session_id}, which you gave a task, did not finish it "
        f"({answer.outcome}){why}{so_far}"
    )
