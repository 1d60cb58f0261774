"""The daemon on the wire: status, configuration, agents, tools, calls, tokens, backups, undo, roots."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from ..changes.undo_report import ChangedCall
from ..definitions import CallStatus, ToolDefinition
from ..text import WireInteger
from ..turns.activity import ActorStatus, RuntimeStatus
from .fields import Line, Role, Word, Words

MAX_NUMBER = 2**53
"""Of a setting: beyond it, JSON keeps no whole number whole."""
Number = Annotated[float, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]


class OneSetting(msgspec.Struct, frozen=True):
    """A setting and its new value; without a value, what was set is taken back."""

    name: Word
    value: bool | WireInteger | Number | Line | None = None


class BackupMade(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was written to the daemon's data folder."""

    path: str
    size_bytes: int


class ConfigState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration in force.

    Attributes:
        revision: Counts the configurations that were in force; 1 is the one of the start.
        since_ms: Since when this one is in force, in Unix milliseconds.
        waiting: Settings in the files that take effect after a restart.
        problem: Why the files can't be used; the last good configuration stays in force.
    """

    revision: int
    since_ms: int
    waiting: tuple[str, ...] = ()
    problem: str = ""


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading the configuration again: the settings that changed, and the new state."""

    changed: tuple[str, ...]
    state: ConfigState


class LoopState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the event loop.

    Attributes:
        lag_seconds: The delay of the latest timer.
        blocked: How often one step of a task held up all others.
        longest_seconds: The longest of these steps.
    """

    lag_seconds: float
    blocked: int
    longest_seconds: float


class SandboxState(msgspec.Struct, frozen=True, kw_only=True):
    """What programs of models run in.

    Attributes:
        strength: How much it holds: `full`, `partial` or `none`; empty while that is not known yet.
        reason: What is missing, and what to do; empty when it is full.
        bounds: What bounds memory and the number of processes, for people.
    """

    strength: str = ""
    reason: str = ""
    bounds: str = ""


class ClusterNodeRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node of the cluster, as the database has it.

    Attributes:
        name: The node's name, which it keeps when it is started again.
        term: How often a node of this name has joined.
        state: `live`, `draining`, `fenced` (others have its sessions) or `ended`.
        url: Where it is reached.
        version: Its callboard.
        sessions: How many it owns; absent while the database does not answer.
        lease_ms: What is left of its lease by the database's clock, negative when it has run out; absent while the
            database does not answer.
        lag_ms: How long ago it renewed its lease; absent when its term is over.
        roots: The names of its roots.
    """

    name: str
    term: int
    state: str
    url: str
    version: str
    sessions: int | None = None
    lease_ms: int | None = None
    lag_ms: int | None = None
    roots: tuple[str, ...] = ()


class ClusterState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cluster, as this node sees it.

    Attributes:
        node: The name of this node.
        is_held: Whether it may act: its lease has time left.
        nodes: All of them, by name.
        problems: What is wrong, for people.
        waiting: How many sessions wait for a node, by the root that no node has; `@NODE` are that node's own folders.
        away_since_ms: Since when the database does not answer this node, in Unix milliseconds; absent while it does.
    """

    node: str
    is_held: bool
    nodes: tuple[ClusterNodeRow, ...] = ()
    problems: tuple[str, ...] = ()
    waiting: dict[str, int] = {}
    away_since_ms: int | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status of the daemon.

    Attributes:
        work: Loaded sessions, running turns and calls that the token may see.
        actors: The shared actors, then at most a hundred of loaded sessions, crashed and busy ones
            first. Only for a token without limits.
        journal_seconds: The time of the latest round trip through the journal, or of the present one if
            that takes longer.
        config: The configuration in force.
        sandbox: What programs run in, where any may. Only for a token without limits.
        cluster: The nodes that share the store, where there are several. Only for a token without limits.
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
    sandbox: SandboxState | None = None
    cluster: ClusterState | None = None


class ToolList(msgspec.Struct, frozen=True):
    """All tools, in the order that models get them; of those that can't be used now, why, by their names."""

    tools: list[ToolDefinition]
    not_offered: dict[str, str] = {}


class AskDefinitions(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of which agent to define, and for which wire format."""

    format: Literal["openai", "responses", "openai_chat", "openai_responses", "anthropic", "gemini"]
    agent: Word = "general"


class Definitions(msgspec.Struct, frozen=True):
    """The tools of an agent's main session, as a request in a wire format has them."""

    definitions: list[dict[str, Any]]


class ListCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls to list: of a session, tool or status, proposed from `since_ms` to `until_ms`.

    `before` is the `next_before` of the previous page.
    """

    session_id: Word | None = None
    name: Word | None = None
    status: CallStatus | None = None
    since_ms: WireInteger | None = None
    until_ms: WireInteger | None = None
    before: WireInteger | None = None
    limit: WireInteger = 100


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to create; `agents` and `sessions` limit what it sees."""

    name: Word
    role: Role
    agents: Words | None = None
    sessions: Words | None = None


class NamedToken(msgspec.Struct, frozen=True):
    """A token by its name."""

    name: Word


class TokenText(msgspec.Struct, frozen=True):
    """The token itself, which is sent only this once."""

    name: str
    token: str


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token in a list, without its text."""

    name: str
    role: Role
    created_at_ms: int
    agents: tuple[str, ...] | None
    sessions: tuple[str, ...] | None


class WantedTicket(msgspec.Struct, frozen=True):
    """As what a browser logs in with a ticket: no `role` is that of the token that asks."""

    role: Role | None = None


class ConsoleTicket(msgspec.Struct, frozen=True):
    """With it a browser logs in at the console, once and within so many seconds; in an address as `/#ticket=…`."""

    ticket: str
    seconds: int


class TokenList(msgspec.Struct, frozen=True):
    """All tokens, the oldest first."""

    tokens: list[TokenRow]


class UndoChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What to undo: all changes of a session and those below it, or those of one call or undoing (`call_id`)."""

    session_id: Word
    call_id: Word | None = None
    force: bool = False
    dry_run: bool = False


class Changes(msgspec.Struct, frozen=True):
    """The calls that changed files, in order."""

    changes: list[ChangedCall]


class WorkspaceRoot(msgspec.Struct, frozen=True):
    """A folder below which sessions may work, as an absolute path."""

    path: Line


class WorkspaceRoots(msgspec.Struct, frozen=True):
    """The folders below which sessions may work.

    `given` are those of them that the daemon's start or its configuration named; the others were added while it runs.
    """

    roots: list[str]
    given: list[str] = []
