"""The events of a model's stream, the same for every provider.

A decoder turns a provider's bytes into these events; rehearsal and scripted models emit them directly.
The order within one model call: any mix of deltas and parts, `Usage` anywhere (the last one
counts), then exactly one terminal event: `Done` or `StreamError`. A stream without one was cut off.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from .text import StoredInteger

MAX_ARGUMENT_BYTES = 1024 * 1024
"""The limit on the arguments of one call, in UTF-8. A decoder passes on at most one character more and
drops the rest: such a call is recognised by its length and refused, while the others of its answer run."""


class StopReason(enum.StrEnum):
    """Why a model stopped, in one word for every provider."""

    END = "end"
    """The answer is complete."""
    TOOL_CALLS = "tool_calls"
    """It calls tools."""
    MAX_TOKENS = "max_tokens"
    """It reached its token limit; the calls of such an answer never run."""
    REFUSED = "refused"
    """The model, or a filter of the provider, refused."""


class StreamEvent(msgspec.Struct, frozen=True, tag_field="type", gc=False):
    """The base of all stream events."""


class TextDelta(StreamEvent, frozen=True, tag="text_delta", gc=False):
    """A piece of the answer's text.

    Example:
        async for event in turn:
            if isinstance(event, callboard.TextDelta):
                print(event.text, end="")
    """

    text: str


class ThinkingDelta(StreamEvent, frozen=True, tag="thinking_delta", gc=False):
    """A piece of the model's visible reasoning.

    Example:
        async for event in turn:
            if isinstance(event, callboard.ThinkingDelta):
                print(event.text, end="")
    """

    text: str


class ThinkingEnd(StreamEvent, frozen=True, tag="thinking_end", gc=False):
    """The end of one block of reasoning.

    `signature` is the provider's proof, kept and sent back to that provider only.
    """

    signature: str | None = None


class RefusalDelta(StreamEvent, frozen=True, tag="refusal_delta", gc=False):
    """A piece of the text of a refusal."""

    text: str


class OpaquePart(StreamEvent, frozen=True, tag="opaque_part"):
    """A part that only its own provider understands (redacted thinking, encrypted reasoning,
    a server-side tool, citations); kept, and sent back to that wire format only.
    """

    dialect: str
    kind: str
    data: msgspec.Raw


class ToolCallStart(StreamEvent, frozen=True, tag="tool_call_start", gc=False):
    """The beginning of a tool call.

    `index` numbers the calls of one answer from 0; `call_id` is the provider's, and may be empty.
    """

    index: int
    call_id: str
    name: str


class ToolCallDelta(StreamEvent, frozen=True, tag="tool_call_delta", gc=False):
    """A piece of the JSON text of a call's arguments."""

    index: int
    arguments: str


class ToolCallEnd(StreamEvent, frozen=True, tag="tool_call_end", gc=False):
    """The arguments of a call are complete."""

    index: int


class Usage(StreamEvent, frozen=True, tag="usage", gc=False):
    """The tokens of one model call as the provider counts them; `None` is unknown, never zero.

    `cached_tokens` (read from the provider's cache) and `cache_write_tokens` (put into it) are part
    of `input_tokens`, `reasoning_tokens` part of `output_tokens`.
    """

    input_tokens: StoredInteger | None = None
    output_tokens: StoredInteger | None = None
    cached_tokens: StoredInteger | None = None
    reasoning_tokens: StoredInteger | None = None
    cache_write_tokens: StoredInteger | None = None


class StreamError(StreamEvent, frozen=True, tag="error", kw_only=True):
    """The model call failed. Terminal.

    Attributes:
        error_type: One of the types of `runtime.errors`.
        message: What happened, for a person; holds no secret.
        status: The HTTP status, if there was one.
        retryable: Whether the same request may succeed later.
        retry_after_seconds: How long the provider asked to wait, if it did.
        advice: What a person can do, if callboard can do nothing by itself; may be empty.
    """

    error_type: str
    message: str
    status: int | None = None
    retryable: bool = False
    retry_after_seconds: float | None = None
    advice: str = ""

    @property
    def text(self) -> str:
        """The message with the advice."""
        return f"{self.message} {self.advice}" if self.advice else self.message


class Done(StreamEvent, frozen=True, tag="done", gc=False):
    """The provider ended its stream; the answer is complete. Terminal.

    `detail` is the provider's word for `stop_reason`.
    """

    stop_reason: StopReason
    detail: str = ""


AnyStreamEvent = (
    TextDelta
    | ThinkingDelta
    | ThinkingEnd
    | RefusalDelta
    | OpaquePart
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Usage
    | StreamError
    | Done
)

_TEXT_ALONE = frozenset({TextDelta})
_text = attrgetter("text")


def text_alone(events: Sequence[AnyStreamEvent]) -> str:
    """Return the text of events that are all pieces of the answer's text; empty if one is not.

    A burst brings hundreds of them at once, and nothing here calls a Python function for each.
    """
    return "".join(map(_text, events)) if _TEXT_ALONE.issuperset(map(type, events)) else ""
