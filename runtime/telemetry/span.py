"""A finished span, and what its maker asks: what events don't say, what was said, and what is counted."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from ..definitions import Agent, ErrorType, ToolDefinition
from ..events import CallFinished, DurableEvent, MessageCompleted, Stored
from .context import TurnTrace

AttributeValue = str | int | float | bool | tuple[str, ...]
Attributes = dict[str, AttributeValue]


class Span(msgspec.Struct, kw_only=True, gc=False):
    """A finished span.

    Attributes:
        kind: Whether it is a request to another program.
        trace: Where its turn stands.
        parent_id: The span above it; 0 for none.
        start_ms, end_ms: Unix milliseconds.
        is_error: Whether it failed; `error.type` says how.
        message: What went wrong, in words; only with content.
        size: About how many bytes it takes.
    """

    name: str
    kind: Literal["internal", "client"] = "internal"
    trace: TurnTrace
    span_id: int
    parent_id: int
    start_ms: int
    end_ms: int
    attributes: Attributes
    is_error: bool = False
    message: str = ""
    size: int = 0


class Provider(msgspec.Struct, frozen=True):
    """Where a provider is, as far as that is known."""

    address: str = ""
    port: int = 0


class Facts(Protocol):
    """What events don't say; each may block for a moment, and says nothing rather than fail."""

    def agent_of(self, session_id: str) -> str:
        """Return the name of a session's agent; empty when it is not known."""
        ...

    def record(self, session_id: str, before_seq: int) -> list[Stored]:
        """Return the latest events on record before one of them, in order."""
        ...

    def agent(self, name: str) -> Agent | None:
        """Return an agent in force."""
        ...

    def tool(self, name: str) -> ToolDefinition | None:
        """Return the definition of a tool."""
        ...

    def provider(self, name: str) -> Provider:
        """Return where a provider is."""
        ...


class ContentMaker(Protocol):
    """Makes attributes with what was said; there is none by default."""

    def fold(self, session_id: str, event: DurableEvent) -> None:
        """Keep what a model is going to read."""
        ...

    def of_answer(
        self, session_id: str, event: MessageCompleted, agent: Agent | None
    ) -> Attributes:
        """Return the attributes of a model call."""
        ...

    def of_call(self, arguments: str, event: CallFinished) -> Attributes:
        """Return the attributes of a call."""
        ...

    def of_message(self, message: str) -> str:
        """Return what went wrong, in words, as it may be sent."""
        ...


class Measure(Protocol):
    """Takes what there is to count."""

    def __call__(self, metric: str, value: float, labels: tuple[str, ...]) -> None:
        """Count a value; `labels` are the values of the metric's labels, the empty ones last, or left out."""
        ...


class _Failed(msgspec.Struct):
    error_type: str = ""


_FAILED = msgspec.json.Decoder(_Failed)
_FAILURES = frozenset(ErrorType)


def failure_of(event: CallFinished) -> str:
    """Return why a call failed, in one of our own words."""
    try:
        said = _FAILED.decode(event.result).error_type
    except msgspec.MsgspecError:
        said = ""
    return said if said in _FAILURES else str(event.status)
