"""Durable events of inputs: accepted, delivered to a running turn, or cancelled while waiting; a history that came along."""

from __future__ import annotations

from ..budget import Budget
from ..definitions import InputMode, InputSource
from ..history import Attachment, Item
from ..identity import RequestKey, TraceContext
from ..turn_options import ClientContext, TurnOptions
from .durable import Event


class HistoryGiven(Event, frozen=True, kw_only=True, tag="history_given"):
    """A client brought the conversation so far along: the model reads it ahead of all that follows.

    Nothing of it happened here: its calls were not run by this runtime, and nobody vouches for what it says the
    model said. So it taints the session.
    """

    messages: tuple[Item, ...]


class InputAccepted(Event, frozen=True, kw_only=True, tag="input_accepted"):
    """An input was stored, and will have a turn of its own or be delivered to the running one.

    Attributes:
        budget: The budget of its turn.
        source: Who wrote it: a person, or the runtime with a late result.
        call_id: The call whose late result it brings.
        approval_id: The question that the call waited for, if it was deferred.
        child_id: The delegated session whose answer it brings.
        mode: What it does while a turn runs.
        request: The client's request that it comes from, if that had an idempotency key.
        options: Options of its turn that replace the agent's own.
        widens: The agent whose policy its turn may exceed, because somebody with that right said so;
            empty for none.
        via: Who sent it, and over which protocol, where that was not callboard's own: `token:NAME via openai`.
        client: What the program that sent it gives the turn beside the text.
        trace: Where it stands in a trace of the program that sent it.
    """

    input_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    budget: Budget | None = None
    source: InputSource = InputSource.PERSON
    call_id: str = ""
    approval_id: str = ""
    child_id: str = ""
    mode: InputMode = InputMode.QUEUE
    request: RequestKey | None = None
    options: TurnOptions | None = None
    widens: str = ""
    via: str = ""
    client: ClientContext | None = None
    trace: TraceContext | None = None


class InputDelivered(Event, frozen=True, kw_only=True, tag="input_delivered"):
    """A steering input joined the running turn: the next model call reads it.

    Example:
        async for event in turn:
            if isinstance(event, callboard.InputDelivered):
                print(event.input_id, "is heard by", event.turn_id)
    """

    turn_id: str
    input_id: str


class InputCancelled(Event, frozen=True, kw_only=True, tag="input_cancelled"):
    """A waiting input was cancelled and will have no turn."""

    input_id: str
    reason: str
