"""Servers of the Model Context Protocol on the wire: their state, what they offer, and what is accepted of it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ...runtime.definitions import Tier
from ...runtime.wire.fields import Line, Secret, Word
from .settings import McpDraft, McpSettings, PinnedTool, PromptArgument, ServerOffers

StateWord = Literal["off", "not started", "starting", "running", "broken", "failed", "unknown"]
"""`failed` is one that is not started again by itself, `unknown` that of one which no runtime uses."""
McpSource = Literal["callboard.toml", "managed", "program"]
"""Where a server stands, and so where it is changed: managed ones by commands and clients."""

MAX_TOOLS = 128
"""Tools of a server; no model chooses well among more."""

MAX_NAMED = 5
"""Tools and prompts that are named in one line for people."""

Digests = Annotated[dict[Word, Word], msgspec.Meta(max_length=MAX_TOOLS)]


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself; shown, and never trusted."""

    name: str = ""
    version: str = ""
    protocol: str = ""


class McpRow(msgspec.Struct, frozen=True, kw_only=True):
    """A server in a list.

    Attributes:
        name: Its name.
        source: Where it stands.
        state: What it does now.
        problem: Why it is not running, when it should.
        tier: How dangerous its tools are, unless single ones are said to be otherwise.
        tools: Its accepted tools, as models call them.
        withheld: Those of them that are not offered, since its definition of them has changed.
        new: Tools that it offers and nobody accepted, by its own names.
        refused: Why other tools of it can't be used, by its own names.
        resources: Whether it had resources when its tools were accepted.
        prompts: Its accepted prompts.
        withheld_prompts: Those of them that are not offered, since its definition of them has changed.
        info: What it says of itself, once it was asked.
        place: Its command, or the host of its URL; empty for who may not begin sessions.
    """

    name: str
    source: McpSource
    state: StateWord
    problem: str = ""
    tier: Tier
    tools: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    resources: bool = False
    prompts: tuple[str, ...] = ()
    withheld_prompts: tuple[str, ...] = ()
    info: ServerInfo = ServerInfo()
    place: str = ""

    @property
    def to_review(self) -> str:
        """What of it is withheld until a person has looked at it, in words of ours; empty when nothing is."""
        prompts = tuple(f"/{self.name}:{each}" for each in self.withheld_prompts)
        waiting = (*self.withheld, *prompts)
        if not waiting:  # what is new alone may have been left out on purpose
            return ""
        named = (
            ", ".join(waiting) if len(waiting) <= MAX_NAMED else f"{len(waiting)} of what it has"
        )
        return (
            f"The server {self.name} is not as it was accepted: {named} {'is' if len(waiting) == 1 else 'are'} "
            f"withheld. `callboard mcp review {self.name}` shows what has changed."
        )


class McpRows(msgspec.Struct, frozen=True):
    """The servers, sorted by name."""

    servers: list[McpRow]


class McpServerState(msgspec.Struct, frozen=True, kw_only=True):
    """A server with all that is known of it.

    Attributes:
        row: As in the list.
        settings: Its settings, with references in place of secrets, and its accepted tools.
        errors: The end of what its program wrote to stderr, when it ended.
    """

    row: McpRow
    settings: McpSettings
    errors: str = ""


class OneMcpServer(msgspec.Struct, frozen=True):
    """A server by its name."""

    name: Word


class LookAtMcpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server to ask what it offers: one by its name, or a new one that is started for it once."""

    name: Word
    server: McpDraft | None = None


class McpOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offers now.

    Attributes:
        info: What it says of itself.
        tools: The tools that can be accepted, in its order.
        offers: What it has besides tools.
        refused: Why others can't be, by its own names.
        notes: What else is to be said of its list.
        digests: The SHA-256 of each tool, by the server's own names, with which it is accepted.
        offers_digest: The same of `offers`.
    """

    info: ServerInfo
    tools: tuple[PinnedTool, ...] = ()
    offers: ServerOffers = ServerOffers()
    refused: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    digests: dict[str, str] = {}
    offers_digest: str = ""


class McpLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login that was begun.

    Attributes:
        url: Where a person logs in, with a browser; empty when the server wants no login.
        login: Its name, for `mcp/finish_login`.
    """

    url: str = ""
    login: str = ""


class OneMcpLogin(msgspec.Struct, frozen=True):
    """A login that was begun, by its name."""

    login: Word


class AcceptTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a person accepts, in place of those that were accepted before.

    Attributes:
        name: The server's.
        tools: The SHA-256 of each definition, by the server's own names, as `mcp/look` returned them.
        offers: The SHA-256 of what the server has besides tools, as `mcp/look` returned it; without it, the prompts
            stay that were accepted before.
    """

    name: Word
    tools: Digests
    offers: Word | None = None


class NewMcpServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server to add, with the tools that a person accepts of it; see `AcceptTools`."""

    server: McpDraft
    tools: Digests
    offers: Word | None = None


class McpPromptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a server in a list.

    Attributes:
        server: Whose it is.
        name: Its name there; people type `/SERVER:NAME`.
        title, description: What the server says of it.
        arguments: What it wants to be given.
        problem: Why it can't be used now.
    """

    server: str
    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    problem: str = ""


class McpPromptRows(msgspec.Struct, frozen=True):
    """The accepted prompts of the servers that are used, sorted by server."""

    prompts: list[McpPromptRow]


MAX_ARGUMENTS = 20
"""Arguments of a prompt: more than a person gives."""
Arguments = Annotated[dict[Word, Line], msgspec.Meta(max_length=MAX_ARGUMENTS)]


class GetMcpPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a server, with what it is given, by the names of its arguments."""

    server: Word
    name: Word
    arguments: Arguments = {}


class McpPromptText(msgspec.Struct, frozen=True, kw_only=True):
    """What a server made of a prompt.

    Attributes:
        text: For a person to look at and send.
        is_untrusted: Whether strangers may have written it: who sends it says so.
        notes: What was left out of it.
    """

    text: str
    is_untrusted: bool = True
    notes: tuple[str, ...] = ()


class CompleteMcpArgument(msgspec.Struct, frozen=True):
    """An argument of a prompt of a server, begun.

    Attributes:
        server, prompt, argument: Which.
        value: What was typed so far.
        arguments: The values of other arguments.
    """

    server: Word
    prompt: Word
    argument: Word
    value: Line = ""
    arguments: Arguments = {}


class McpValues(msgspec.Struct, frozen=True):
    """What an argument may be, as its server says."""

    values: list[str]


class ChangedMcpServer(msgspec.Struct, frozen=True):
    """What a server becomes; its name says which. Its accepted tools stay."""

    server: McpDraft


MAX_SESSION_SERVERS = 16
"""Servers that a client brings for one session: each may be a process."""
MAX_VALUES = 100
"""Words of a command, variables, headers."""
LONGEST_WAIT_SECONDS = 30.0
"""Seconds for which a client waits until the servers that it brought have listed their tools."""

Values = Annotated[dict[Word, Secret], msgspec.Meta(max_length=MAX_VALUES)]


class SessionServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server that a client brings for one session; its values may be secrets, and are kept nowhere.

    Attributes:
        name: What the client calls it.
        command: The program that is the server, with its arguments; it runs in the sandbox.
        env: Environment variables of the program.
        url: Where a server is reached over HTTP, in place of `command`.
        headers: What is sent to it with each request.
    """

    name: Word
    command: Annotated[tuple[Line, ...], msgspec.Meta(max_length=MAX_VALUES)] = ()
    env: Values = {}
    url: Line | None = None
    headers: Values = {}


class UseServers(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that a session has for itself, in place of those that it was given before.

    Attributes:
        session_id: The session.
        servers: Its servers; `()` ends those it has.
        wait_seconds: How long to wait until they have listed their tools, or failed.
    """

    session_id: Word
    servers: Annotated[tuple[SessionServer, ...], msgspec.Meta(max_length=MAX_SESSION_SERVERS)] = ()
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT_SECONDS)] = 0.0


class SessionServerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A server of one session.

    Attributes:
        name: What the client calls it.
        state: What it does now.
        problem: Why it is not used.
        tools: Its tools, as models call them.
        refused: Why others can't be used, by its own names.
    """

    name: str
    state: StateWord
    problem: str = ""
    tools: tuple[str, ...] = ()
    refused: dict[str, str] = {}


class SessionServerRows(msgspec.Struct, frozen=True):
    """The servers of a session, as the client named them."""

    servers: list[SessionServerRow]


def draft_of(server: McpSettings) -> McpDraft:
    """Return a server as a client sends it."""
    return McpDraft(**{name: getattr(server, name) for name in McpDraft.__struct_fields__})
