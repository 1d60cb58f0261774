"""Durable events of inputs: accepted, told to a turn that runs, or cancelled before they had one."""

from __future__ import annotations

from ..budget import Budget
from ..definitions import InputMode, InputSource
from ..history import Attachment
from ..identity import RequestKey
from ..turn_options import TurnOptions
from .durable import Event


class InputAccepted(Event, frozen=True, kw_only=True, tag="input_accepted"):
    """An input was stored, and will have its turn, or be told to the one that runs.

    Attributes:
        budget: What its turn may use.
        source: Who says it: a person, or the runtime with a late result.
        call_id: The call whose late result it brings.
        approval_id: The question that the call waited for, when it was deferred.
        child_id: The session whose answer it brings, when that was delegated.
        mode: What it is to a turn that runs.
        request: The request of a client that it comes of, if that had a key.
        options: What its turn has in the place of the agent's own.
        widens: The agent under whose name more may run without asking than that has it, as somebody
            wants who may decide it; empty for none.
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


class InputDelivered(Event, frozen=True, kw_only=True, tag="input_delivered"):
    """A steering input is part of the running turn from here on: the next model call reads it.

    Example:
        async for event in turn:
            if isinstance(event, callboard.InputDelivered):
                print(event.input_id, "is heard by", event.turn_id)
    """

    turn_id: str
    input_id: str


class InputCancelled(Event, frozen=True, kw_only=True, tag="input_cancelled"):
    """An input that waited for its turn will have none: it was cancelled before."""

    input_id: str
    reason: str
