"""`runtime/…` and `tool/…` on the wire."""

from __future__ import annotations

import msgspec

from ..definitions import CallStatus, ToolDefinition
from ..integers import WireInteger
from ..runtime_status import ActorStatus, RuntimeStatus
from .configuration import ConfigState
from .sizes import Word


class LoopState(msgspec.Struct, frozen=True, kw_only=True):
    """How the event loop is.

    Attributes:
        lag_seconds: By how much the latest timer came late.
        blocked: How often one step of a task held up all others.
        longest_seconds: The longest of these.
    """

    lag_seconds: float
    blocked: int
    longest_seconds: float


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How the daemon is.

    Attributes:
        work: Loaded sessions, running turns and calls: those that the token may know of.
        actors: Those that all sessions share, then of loaded sessions at most a hundred, the worst
            off and the busiest; for a token without limits.
        journal_seconds: What the latest round trip through the journal took.
        config: The configuration that holds.
    """

    uptime_seconds: float
    model: str
    model_reason: str
    connections: int
    is_stopping: bool
    version: str = ""
    pid: int = 0
    work: RuntimeStatus | None = None
    actors: tuple[ActorStatus, ...] = ()
    journal_seconds: float | None = None
    loop: LoopState | None = None
    config: ConfigState | None = None


class Tools(msgspec.Struct, frozen=True):
    """All tools, in the order in which models see them."""

    tools: list[ToolDefinition]


class ListCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls: of a session, of a tool, of a status, proposed since and before a time in ms.

    `before` is the `next_before` of the page before.
    """

    session_id: Word | None = None
    name: Word | None = None
    status: CallStatus | None = None
    since_ms: WireInteger | None = None
    until_ms: WireInteger | None = None
    before: WireInteger | None = None
    limit: WireInteger = 100
