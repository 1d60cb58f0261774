"""A finished span, and what its maker asks: what events don't say, and what was said."""

from __future__ import annotations

from itertools import zip_longest
from typing import Literal, Protocol

import msgspec

from ..definitions import Agent, ErrorType, ToolDefinition
from ..events import CallFinished, DurableEvent, MessageCompleted, Stored
from .context import TurnTrace
from .metrics import Series

AttributeValue = str | int | float | bool | tuple[str, ...]
Attributes = dict[str, AttributeValue]


class Template(msgspec.Struct, kw_only=True, eq=False):
    """What all spans of one sort in a turn have in common: it is made, and written, once.

    Attributes:
        trace: Where the turn stands.
        parent_id: The span above them; 0 for none.
        attributes: Those that all of them have.
        since_ms: When the turn began; none of them begins before.
        kind: Whether it is a request to another program.
        is_error: Whether they failed; `error.type` says how.
        series: Where their durations are counted, and then what else they measure.
        measured: What they measured since it was counted, in the order of the series; `None` for nothing.
        written: What `SpanWriter` has made of it.
    """

    name: str
    trace: TurnTrace
    parent_id: int
    attributes: Attributes
    since_ms: int = 0
    kind: Literal["internal", "client"] = "internal"
    is_error: bool = False
    series: tuple[Series, ...]
    measured: list[tuple[float | None, ...]] = []
    written: bytes = b""

    def count(self) -> None:
        """Count what they measured: those of a batch at once, for a fraction of one by one."""
        for series, values in zip(self.series, zip_longest(*self.measured), strict=False):
            series.add([each for each in values if each is not None])
        self.measured.clear()


class Span(msgspec.Struct, gc=False):
    """A finished span.

    Attributes:
        template: What it has in common with others.
        start_ms, end_ms: Unix milliseconds.
        own: The attributes that it has beside those; those of one name are of one type.
        message: What went wrong, in words; only with content.
    """

    template: Template
    span_id: bytes
    start_ms: int
    end_ms: int
    own: Attributes
    message: str = ""

    @property
    def attributes(self) -> Attributes:
        """All of its attributes."""
        return {**self.template.attributes, **self.own}


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

    def tool(self, name: str, session_id: str) -> ToolDefinition | None:
        """Return the definition of a tool; a session may have some for itself."""
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
