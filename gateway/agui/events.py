"""The events of AG-UI 1.0 that are sent, with the names of its schema; what has no value is left out."""

from __future__ import annotations

from typing import Any

import msgspec

VERSION = "1.0"
"""The protocol that is spoken here, as each run declares it."""


class AgUiEvent(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", omit_defaults=True
):
    """An event of a run."""


class RunStarted(AgUiEvent, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """Opens a run."""

    thread_id: str
    run_id: str
    protocol_version: str | None = None


class TokensUsed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The tokens of the calls of one model."""

    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    total_tokens: int
    reasoning_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int


class Succeeded(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    tag="success",
    rename="camel",
    omit_defaults=True,
):
    """The run is over; the calls that it names are the client's to make."""

    pending_tool_call_ids: tuple[str, ...] = ()


class CancelledRun(msgspec.Struct, frozen=True, tag_field="type", tag="cancelled"):
    """Somebody ended the run."""


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A question to a person, answered by its id in the next run."""

    id: str
    reason: str
    message: str
    response_schema: dict[str, Any]
    tool_call_id: str | None = None
    expires_at: str | None = None
    subagent_run_id: str | None = None
    metadata: dict[str, Any] | None = None


class Interrupted(msgspec.Struct, frozen=True, tag_field="type", tag="interrupt"):
    """The turn waits for people."""

    interrupts: tuple[Interrupt, ...]


class RunFinished(AgUiEvent, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """Ends a run that did not fail."""

    thread_id: str
    run_id: str
    outcome: Succeeded | CancelledRun | Interrupted
    usage: tuple[TokensUsed, ...] = ()


class RunError(AgUiEvent, frozen=True, kw_only=True, tag="RUN_ERROR"):
    """Ends a run that failed."""

    message: str
    code: str
    usage: tuple[TokensUsed, ...] = ()


class TextStart(AgUiEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_START"):
    """Opens a message of the model."""

    message_id: str
    role: str


class TextContent(AgUiEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """A piece of it."""

    message_id: str
    delta: str


class TextEnd(AgUiEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_END"):
    """Closes it."""

    message_id: str


class ReasoningStart(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_START"):
    """Opens what the model thinks aloud."""

    message_id: str


class ReasoningMessageStart(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_START"):
    """Opens the one message of it."""

    message_id: str
    role: str


class ReasoningContent(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CONTENT"):
    """A piece of it."""

    message_id: str
    delta: str


class ReasoningMessageEnd(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_END"):
    """Closes that message."""

    message_id: str


class ReasoningEnd(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_END"):
    """Closes what the model thought."""

    message_id: str


class ToolStart(AgUiEvent, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """Opens a call."""

    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


class ToolArgs(AgUiEvent, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """Its arguments."""

    tool_call_id: str
    delta: str


class ToolEnd(AgUiEvent, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """Closes it: it is proposed, and may wait for a person or for the client."""

    tool_call_id: str


class ToolCallResult(AgUiEvent, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """What came of a call that was made here."""

    message_id: str
    tool_call_id: str
    content: str
    role: str


class StateSnapshot(AgUiEvent, frozen=True, kw_only=True, tag="STATE_SNAPSHOT"):
    """The whole state, which is the client's with the plan of the agent in it."""

    snapshot: dict[str, msgspec.Raw]


class SubagentStarted(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_STARTED"):
    """A task was given to a session of its own."""

    subagent_run_id: str
    name: str
    description: str
    parent_tool_call_id: str


class Suspended(
    msgspec.Struct,
    frozen=True,
    tag_field="type",
    tag="suspended",
    rename="camel",
    omit_defaults=True,
):
    """It goes on in a later run."""

    interrupt_ids: tuple[str, ...] = ()


class SubagentFinished(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_FINISHED"):
    """It has ended, or is suspended."""

    subagent_run_id: str
    outcome: Suspended | None = None


class SubagentError(AgUiEvent, frozen=True, kw_only=True, tag="SUBAGENT_ERROR"):
    """It did not do what it was to do."""

    subagent_run_id: str
    message: str
    code: str
