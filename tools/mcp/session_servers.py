"""Servers that a client brings for one session: an editor has some of its own, and hands them over with a session.

Nobody has looked at them before, so they get less than those of `[mcp]`: a sandbox without network or a home that
stays, or addresses that tools may reach; every call of theirs asks a person, and what they offer at their start counts
until they end. Nothing of them is written down.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import trio

from ...config.mcp.settings import McpSettings, PinnedTool, is_secret_name, prefix_of
from ...config.mcp.wire import SessionServer, SessionServerRow
from ...runtime.definitions import ToolResult
from ...runtime.errors import ActorStopped, CallboardError, OverloadedError
from ...runtime.redaction import Secret, redact, redacting_logger
from ..registry import SessionRegistry, ToolRegistry
from ..tool import Arguments, ToolContext
from .servers import McpServers
from .state import McpPlaces
from .tool import Line, McpTool

MAX_SESSIONS = 64
"""Sessions with servers of their own at once: more than anybody has open in editors."""
PREFIX = "session-"
"""Before their names, so that no rule about the tools of a server of `[mcp]` is one about theirs."""
MAX_OWN_NAME = 20
"""Characters of a name behind that; there is room for a number."""

_OTHER = re.compile(r"[^a-z0-9]+")

logger = redacting_logger(__name__)


class SessionServers:
    """The servers of single sessions.

    Args:
        registry: Gets their tools, for their sessions.
        places: What servers of `[mcp]` are started with.
        configured: Returns those, whose names are not given twice.
        nursery: Where they run.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        places: McpPlaces,
        configured: Callable[[], Mapping[str, McpSettings]],
        nursery: trio.Nursery,
    ) -> None:
        self._registry = registry
        self._places = places
        self._configured = configured
        self._nursery = nursery
        self._sessions: dict[str, _Brought] = {}

    def use(self, session_id: str, servers: Sequence[SessionServer]) -> Callable[[], None]:
        """Have a session use these, in place of others; never wait. Return what ends them, if they are still its own.

        Raises:
            OverloadedError: Too many sessions have some.
        """
        brought = self._sessions.get(session_id)
        is_ending = brought is not None and brought.scope.cancel_called
        if brought is None or is_ending or brought.given != tuple(servers):
            if brought is None and len(self._sessions) >= MAX_SESSIONS:
                raise OverloadedError(f"{MAX_SESSIONS} sessions have servers of their own already")
            if brought is not None:
                brought.scope.cancel(reason="the session has other servers")
            registry = self._registry.bring(session_id)
            brought = _Brought(servers, registry, self._places, self._configured())
            self._sessions[session_id] = brought
            name = f"servers of {session_id}"
            self._nursery.start_soon(self._run, session_id, brought, name=name)
        brought.users = users = object()

        def end() -> None:
            if brought.users is users:
                brought.scope.cancel(reason="who brought them has left")

        return end

    async def end(self, session_id: str) -> None:
        """End the servers of a session; return when nothing of them is left."""
        await trio.lowlevel.checkpoint()
        if (brought := self._sessions.get(session_id)) is not None:
            brought.scope.cancel(reason="the session is closed")
            await brought.gone.wait()

    async def rows(self, session_id: str, wait_seconds: float = 0.0) -> list[SessionServerRow]:
        """Return the servers of a session when all have listed their tools or failed, or the time is over."""
        brought = self._sessions.get(session_id)
        if brought is None:
            return []
        with trio.move_on_after(wait_seconds):
            await brought.is_listed.wait()
        return brought.rows()

    async def _run(self, session_id: str, brought: _Brought) -> None:
        try:
            with brought.scope:
                await brought.run()
        except Exception:  # a fault of one session's servers ends nothing else
            logger.exception("the servers of %s crashed", session_id)
        finally:
            self._registry.take_away(session_id, brought.registry)
            if self._sessions.get(session_id) is brought:
                del self._sessions[session_id]
            brought.is_listed.set()
            brought.gone.set()


class _Brought:
    """The servers that one session has."""

    def __init__(
        self,
        given: Sequence[SessionServer],
        registry: SessionRegistry,
        places: McpPlaces,
        configured: Iterable[str],
    ) -> None:
        self.given = tuple(given)
        self.registry = registry
        self.users = object()
        self.scope = trio.CancelScope()
        self.is_listed = trio.Event()
        self.gone = trio.Event()
        self._secrets: dict[str, dict[str, Secret]] = {}
        self._problems: dict[str, str] = {}
        self._settings: dict[str, McpSettings] = {}
        self._names: list[str] = []
        self._refused: dict[str, dict[str, str]] = {}
        self._called: set[str] = set()
        prefixes = set(map(prefix_of, configured))
        for server in self.given:
            name = _name_of(server.name, prefixes)
            prefixes.add(prefix_of(name))
            self._names.append(name)
            self._take(name, server)
        own = msgspec.structs.replace(
            places,
            environ={},
            stored=self._secret,
            logins=None,
            desk=None,
            client_document=None,
            is_of_session=True,
        )
        self._servers = McpServers(registry, own, make_tool=self._tool)

    async def run(self) -> None:
        """Run them until cancelled."""
        self._servers.take(self._settings)
        async with trio.open_nursery() as nursery:
            await nursery.start(self._servers.serve)
            async with trio.open_nursery() as starting:
                for name in tuple(self._settings):
                    starting.start_soon(self._accept, name, name=f"look at {name}")
            self.is_listed.set()

    def rows(self) -> list[SessionServerRow]:
        """Return what became of each, in the order in which they were given."""
        states, rows = self._servers.states(), []
        for name, server in zip(self._names, self.given, strict=True):
            state, settings = states.get(name), self._settings.get(name)
            problem = self._problems.get(name) or (state.problem if state is not None else "")
            rows.append(
                SessionServerRow(
                    name=server.name,
                    state="failed" if state is None or name in self._problems else state.state,
                    problem=redact(problem),
                    tools=() if settings is None else tuple(tool.name for tool in settings.tools),
                    refused=self._refused.get(name, {}),
                )
            )
        return rows

    def _take(self, name: str, server: SessionServer) -> None:
        secrets = self._secrets[name] = {}
        try:
            for value in server.env.values():
                if "\0" in value:
                    raise ValueError("env: a value has a character that no variable can have")
            for value in server.headers.values():
                if not value.isprintable():
                    raise ValueError("headers: a value has control characters")
            self._settings[name] = McpSettings(
                name=name,
                command=server.command,
                url=server.url,
                env=_kept(server.env, secrets),
                headers=_kept(server.headers, secrets),
            )
        except ValueError as error:
            self._problems[name] = str(error)

    def _secret(self, server: str, key: str) -> Secret | None:
        return self._secrets[server].get(key)

    async def _accept(self, name: str) -> None:
        """Offer the tools of a server as it lists them now; what it lists later has to be the same."""
        try:
            offer = await self._servers.look(self._settings[name])
        except (CallboardError, ActorStopped) as error:
            self._problems[name] = str(error)
            logger.warning("a server that was brought for a session is not used: %s", error)
            return
        self._refused[name] = dict(offer.refused)
        self._settings[name] = msgspec.structs.replace(self._settings[name], tools=offer.tools)
        self._servers.take(self._settings)

    def _tool(
        self, server: McpSettings, pin: PinnedTool, line: Line, slots: trio.CapacityLimiter
    ) -> McpTool:
        return _SessionTool(server, pin, line, slots, self._called)


class _SessionTool(McpTool):
    """A tool of such a server: until one of them was called, its question says what its server is."""

    def __init__(
        self,
        server: McpSettings,
        pin: PinnedTool,
        line: Line,
        slots: trio.CapacityLimiter,
        called: set[str],
    ) -> None:
        super().__init__(server, pin, line, slots)
        self._called = called
        self._place = server.place if server.url is not None else shlex.join(server.command)

    async def preview(self, arguments: Arguments, context: ToolContext) -> str | None:
        """See `Tool`."""
        await trio.lowlevel.checkpoint()
        if self._server in self._called:
            return None
        return (
            f"A tool of a server that was brought for this session, and that nobody has reviewed:\n"
            f"{redact(self._place)}"
        )

    async def execute(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        """See `Tool`."""
        self._called.add(self._server)
        return await super().execute(arguments, context)


def _name_of(given: str, prefixes: Iterable[str]) -> str:
    """Return a server's name for what a client calls it."""
    own = _OTHER.sub("-", given.lower()).strip("-")[:MAX_OWN_NAME].strip("-") or "server"
    taken, name, number = set(prefixes), f"{PREFIX}{own}", 2
    while prefix_of(name) in taken:
        name, number = f"{PREFIX}{own}-{number}", number + 1
    return name


def _kept(values: Mapping[str, str], secrets: dict[str, Secret]) -> dict[str, str]:
    """Return variables or headers with references in place of what may be a secret, which is put aside."""
    found = {}
    for name, value in values.items():
        if (
            is_secret_name(name)
            or redact(value) != value
            or "${" in value
            or not value.isprintable()
        ):
            key = f"v{len(secrets)}"
            secrets[key] = Secret(value)
            value = f"${{key:{key}}}"
        found[name] = value
    return found
