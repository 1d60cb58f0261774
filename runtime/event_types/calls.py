"""Durable events of tool calls: each call is proposed once and has one result."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..definitions import Artifact, Attachment, CallStatus
from ..text import StoredInteger
from .durable import Event


class CallProposed(Event, frozen=True, kw_only=True, tag="call_proposed"):
    """The model called a tool; `index` is the place in its answer, `arguments` the model's own text.

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
    """A call is about to take effect; committed before it does, unless it only reads.

    A call that a person allowed names the approval, which the store accepts once and only with this
    `digest`.

    Example:
        async for event in turn:
            if isinstance(event, callboard.CallStarted):
                print("started:", event.call_id)
    """

    turn_id: str
    call_id: str
    approval_id: str = ""
    digest: str = ""


class CalledServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The server of the Model Context Protocol that a call asked.

    Attributes:
        name: Its name in the configuration.
        protocol: The revision of the protocol that it speaks.
        transport: `pipe` to a program, `tcp` to an address.
        code: The protocol's code of the error with which it answered, if it did.
    """

    name: str
    protocol: str = ""
    transport: Literal["pipe", "tcp"] = "pipe"
    code: StoredInteger | None = None


class CallFinished(Event, frozen=True, kw_only=True, tag="call_finished"):
    """A call has its result.

    Attributes:
        status: A final status.
        result: The JSON text for the model.
        arguments: The arguments with which it ran, as canonical JSON, if it got that far.
        display: One line for people.
        full_output: The whole output as JSON text, if `result` is cut; `read_file` reads it as
            `artifact:CALL_ID`.
        duration_ms: From its start (or its proposal, if it never started) to its end.
        hosts: The hosts that it connected to, including redirects.
        attempts_left: How often the model may still call the tool in this turn, if the arguments
            were wrong.
        attachments: Images and files beside the result, for a model that can be shown them.
        server: The MCP server that was asked, for a tool of one.

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
    attachments: tuple[Attachment, ...] = ()
    server: CalledServer | None = None


class CallDeferred(Event, frozen=True, kw_only=True, tag="call_deferred"):
    """A call waits for a person while its turn continues: the model gets `result`, which says so.

    The history keeps that text in the place of the result. The result comes later, as a
    `CallFinished` in a turn of its own, which begins with an input that names the call.

    Attributes:
        approval_id: The question that it waits for.
        result: The JSON text for the model.

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
    """The model called a tool with wrong arguments in as many answers of a turn as are allowed.

    The rest of the turn continues without the tool. The event is stored in the session and in its
    parent, there with a `child_id`.

    Attributes:
        name: The tool.
        attempts: The number of answers with wrong arguments.
        message: What was wrong with the last one.
        child_id: The session in which it happened, if not this one.

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
