"""What asks a session for turns that follow from its record; see `messages`, which has the others."""

from __future__ import annotations

import msgspec

from .mailbox import Request
from .request_key import RequestKey
from .subscription import Subscription
from .turn_events import RerunWay


class InputTicket(msgspec.Struct, frozen=True):
    """An input is stored under this id, with this `seq`; `turn_id` is the turn that it began at once."""

    input_id: str
    seq: int
    turn_id: str | None = None


class RerunTurn(Request[InputTicket], frozen=True, kw_only=True, tag="rerun_turn"):
    """Set the last turn aside and give its inputs another; answered when that has begun on record.

    With `message_id`, only when that is a message of the turn. Fails with `ConflictError` or
    `NotFoundError`, and nothing is changed.
    """

    session_id: str
    why: RerunWay
    message_id: str | None = None
    subscription: Subscription | None = None
    request: RequestKey | None = None

    def abandon(self) -> None:
        """Ends the subscription too: nothing will come."""
        if self.subscription is not None:
            self.subscription.close()
        self.reply.abandon()


class ResumeTurn(Request[InputTicket], frozen=True, kw_only=True, tag="resume_turn"):
    """Load the session, whose suspended turn goes on by that, and listen to it.

    Answered with the ticket of the turn's input; `ConflictError` when no turn of it was suspended.
    """

    session_id: str
    subscription: Subscription

    def abandon(self) -> None:
        """Ends the subscription too: nothing will come."""
        self.subscription.close()
        self.reply.abandon()
