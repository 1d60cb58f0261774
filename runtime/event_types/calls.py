"""What happens to the calls of a session: each is proposed once, and has one result."""

from __future__ import annotations

from ..definitions import Artifact, CallStatus
from ..text import StoredInteger
from .durable import Event


class CallProposed(Event, frozen=True, kw_only=True, tag="call_proposed"):
    """The model asked for a tool; `index` is its place in the answer, `arguments` its own text.

    Example:
        async for event in turn:
            if isinstance(event, callboard.CallProposed):
                print(event.index, event.name, event.arguments)
    """

    turn_id: str
    message_id: str
    call_id: str
    index: StoredInteger
    name: str
    arguments: str


class CallStarted(Event, frozen=True, kw_only=True, tag="call_started"):
    """A call is about to have its effect; committed before it does, unless it only reads.

    A call that a person allowed names the approval, which the store admits once and for this
    `digest` alone.

    Example:
        async for event in turn:
            if isinstance(event, callboard.CallStarted):
                print("started:", event.call_id)
    """

    turn_id: str
    call_id: str
    approval_id: str = ""
    digest: str = ""


class CallFinished(Event, frozen=True, kw_only=True, tag="call_finished"):
    """A call has its one result.

    Attributes:
        status: A final state.
        result: The JSON text that the model gets.
        arguments: The canonical JSON of the arguments that ran, when it came so far.
        display: One line for people.
        full_output: The whole output as JSON text, when `result` had to cut it; `read_file` pages
            it as `artifact:CALL_ID`.
        duration_ms: From its start (its proposal, when it never started) to its end.
        hosts: Where it connected, redirects too.
        attempts_left: How often the model may still call the tool in this turn, when the arguments
            were wrong.

    Example:
        async for event in turn:
            if isinstance(event, callboard.CallFinished):
                print(event.name, event.status, event.display or event.result)
    """

    turn_id: str
    call_id: str
    name: str
    status: CallStatus
    result: str
    arguments: str | None = None
    display: str = ""
    artifacts: tuple[Artifact, ...] = ()
    full_output: str | None = None
    duration_ms: StoredInteger = 0
    hosts: tuple[str, ...] = ()
    attempts_left: StoredInteger | None = None


class CallDeferred(Event, frozen=True, kw_only=True, tag="call_deferred"):
    """A call waits for a person, and its turn goes on: the model was told that it is pending.

    That is all that the history holds in the place of its result. What comes of it later is a
    `CallFinished` in a turn of its own, told to the model by an input that names the call.

    Attributes:
        approval_id: The question that it waits for.
        result: The JSON text that the model gets.

    Example:
        async for event in turn:
            if isinstance(event, callboard.CallDeferred):
                print(event.name, "waits for the answer to", event.approval_id)
    """

    turn_id: str
    call_id: str
    name: str
    approval_id: str
    result: str


class ToolGivenUp(Event, frozen=True, kw_only=True, tag="tool_given_up"):
    """The model could not call a tool rightly, in as many answers of a turn as it may try.

    The model was told to stop trying; the rest of the turn goes on without the tool. It stands in
    the session itself and in its parent, which `child_id` tells.

    Attributes:
        name: The tool.
        attempts: Answers with arguments that were wrong.
        message: What was wrong with the last.
        child_id: The session it happened in, when that is not this one.

    Example:
        async for event in turn:
            if isinstance(event, callboard.ToolGivenUp):
                print(event.name, "was given up after", event.attempts, "attempts:", event.message)
    """

    turn_id: str
    name: str
    attempts: StoredInteger
    message: str
    child_id: str = ""
