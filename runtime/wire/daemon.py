"""`agent/…` on the wire."""

from __future__ import annotations

import msgspec

from ..changes.undo_report import ChangedCall
from ..definitions import Agent, CallStatus, ToolDefinition
from ..text import WireInteger
from ..turns.activity import ActorStatus, RuntimeStatus
from .fields import Line, Role, Word, Words


class OneAgent(msgspec.Struct, frozen=True):
    """An agent by its name."""

    name: Word


class Agents(msgspec.Struct, frozen=True):
    """The agents there are, by name."""

    agents: list[Agent]


class BackupMade(msgspec.Struct, frozen=True, kw_only=True):
    """A backup, in the daemon's data folder.

    Attributes:
        path: The file.
        size_bytes: How large it is.
    """

    path: str
    size_bytes: int


class ConfigState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration that holds.

    Attributes:
        revision: Counts the configurations that came to hold; 1 is the one of the start.
        since_ms: When this one did, in Unix milliseconds.
        waiting: Settings in the files that need a restart to hold.
        problem: Why what stands in the files does not hold, when it can't; the last good one does.
    """

    revision: int
    since_ms: int
    waiting: tuple[str, ...] = ()
    problem: str = ""


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """What reading it again did: which settings changed and hold, and what there is by now."""

    changed: tuple[str, ...]
    state: ConfigState


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


class ToolList(msgspec.Struct, frozen=True):
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


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to be made; `agents` and `sessions` limit what it sees."""

    name: Word
    role: Role
    agents: Words | None = None
    sessions: Words | None = None


class NamedToken(msgspec.Struct, frozen=True):
    """A token by its name."""

    name: Word


class TokenText(msgspec.Struct, frozen=True):
    """The token itself: it is told this once."""

    name: str
    token: str


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is listed."""

    name: str
    role: Role
    created_at_ms: int
    agents: tuple[str, ...] | None
    sessions: tuple[str, ...] | None


class TokenList(msgspec.Struct, frozen=True):
    """The tokens there are, the oldest first."""

    tokens: list[TokenRow]


class UndoChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What to take back: all of a session, or one call, or one undoing (`call_id`)."""

    session_id: Word
    call_id: Word | None = None
    force: bool = False
    dry_run: bool = False


class Changes(msgspec.Struct, frozen=True):
    """The calls that changed files, in their order."""

    changes: list[ChangedCall]


class WorkspaceRoot(msgspec.Struct, frozen=True):
    """A folder below which sessions may work, as an absolute path."""

    path: Line


class WorkspaceRoots(msgspec.Struct, frozen=True):
    """The folders below which sessions may work."""

    roots: list[str]
