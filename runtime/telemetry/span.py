"""A finished span, and what its maker asks: what events don't say, what was said, and what is counted."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from ..definitions import Agent, ToolDefinition
from ..events import CallFinished, MessageCompleted, Stored
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

    def fold(self, session: Any, event: Any) -> None:
        """Keep what a model is going to read."""
        ...

    def of_answer(self, session: Any, event: MessageCompleted, agent: Agent | None) -> Attributes:
        """Return the attributes of a model call."""
        ...

    def of_call(self, arguments: str, event: CallFinished) -> Attributes:
        """Return the attributes of a call."""
        ...


class Measure(Protocol):
    """Takes what there is to count."""

    def __call__(self, metric: str, value: float, labels: dict[str, str]) -> None:
        """Count a value."""
        ...
