"""The servers of a runtime: their actors, and their tools in the registry, as the configuration in force says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import msgspec
import trio

from ...config.mcp.settings import McpSettings, PinnedTool
from ...config.mcp.wire import McpOffer
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import ActorStopped, ConflictError, OverloadedError
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.kernel.supervisor import Supervisor
from ...runtime.redaction import redacting_logger
from ..registry import ToolRegistry
from .server import MAILBOX_CAPACITY, McpServer, log_out, look_at
from .state import (
    LOGIN_SECONDS,
    EndServer,
    LoginDesk,
    LookAtServer,
    McpPlaces,
    OpenServer,
    RestartServer,
    ServerLink,
    ServerMessage,
    ServerState,
)
from .tool import McpTool, OpenLink, withheld

START_WAIT_SECONDS = 15.0
"""How long a call waits for a start that runs; the start may go on behind it."""

MAX_LOOKS = 4
"""Servers that are started at once for somebody who looks at them; others wait."""
MAX_OFFERS = 16
"""What servers offered when somebody looked at them last; what is accepted is among it."""

_ABOUT_CALLS = frozenset(
    {"tools", "tier", "tiers", "effects", "content", "timeout_seconds", "max_calls"}
)
"""Settings that concern calls alone: a change of them needs no other process."""

MakeTool = Callable[[McpSettings, PinnedTool, OpenLink, trio.CapacityLimiter], McpTool]

logger = redacting_logger(__name__)


class McpServers:
    """All servers of a runtime; `serve` must run for them to be called.

    Args:
        registry: Gets their tools.
        places: What they are started with.
        tell: Called when the list of tools, or the state of a server, has changed; must not wait.
        make_tool: Makes a tool of a server.

    Attributes:
        places: The same.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        places: McpPlaces,
        tell: Callable[[], None] = lambda: None,
        make_tool: MakeTool = McpTool,
    ) -> None:
        self.places = places
        self._registry = registry
        self._make_tool = make_tool
        self._tell = tell
        self._servers: dict[str, _Known] = {}
        self._supervisor: Supervisor | None = None
        self._looking = trio.CapacityLimiter(MAX_LOOKS)
        self._offers: dict[str, McpOffer] = {}

    def take(self, servers: Mapping[str, McpSettings]) -> None:
        """Have the registry and the servers follow these settings; never wait or fail."""
        wanted = {name: its for name, its in servers.items() if its.enabled}
        for name in self._servers.keys() - wanted.keys():
            known = self._servers.pop(name)
            self._registry.replace(known.settings.source, (), {})
            known.end()
        for name, settings in wanted.items():
            known = self._servers.get(name) or _Known(settings)
            if known.settings == settings and name in self._servers:
                continue
            if _process_of(known.settings) != _process_of(settings):
                known.end()
                known = _Known(settings)
            known.settings = settings
            known.slots.total_tokens = settings.max_calls
            self._servers[name] = known
            self._offer(name)
            if self._supervisor is not None and not known.is_started:
                self._start(known)

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the servers until cancelled; nothing of them is left when this returns."""
        try:
            async with trio.open_nursery() as nursery:
                self._supervisor = Supervisor(nursery)
                for known in self._servers.values():
                    self._start(known)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._supervisor = None

    def states(self) -> dict[str, ServerState]:
        """Return the state of each server by name."""
        return {name: known.state for name, known in self._servers.items()}

    async def restart(self, name: str) -> None:
        """End a server, and start it again when it is needed; raise `ConflictError` when it is not used."""
        known = self._servers.get(name)
        if known is None:
            raise ConflictError(f"the server {name} is not used: `callboard mcp enable {name}`")
        await known.mailbox.ask(RestartServer())

    async def look(self, server: McpSettings) -> McpOffer:
        """Return what a server offers now, and remember it; one that is not used is started for this alone.

        Raises:
            ToolError: It can't be started, or does not list its tools.
        """
        known = self._servers.get(server.name)
        if known is not None and known.settings == server:
            offer = await known.mailbox.ask(LookAtServer())
        else:
            async with self._looking:
                offer = await look_at(self.places, server)
        self._offers.pop(server.name, None)
        if len(self._offers) >= MAX_OFFERS:
            del self._offers[next(iter(self._offers))]
        self._offers[server.name] = offer
        return offer

    async def log_in(self, server: McpSettings, desk: LoginDesk, document: str | None) -> None:
        """Reach a server with a person who may log in, and use that login from the next call on.

        `document` is the URL of one that says who callboard is. Raises `ToolError` when it can't be used.
        """
        places = msgspec.structs.replace(self.places, desk=desk, client_document=document)
        seconds = server.start_seconds + LOGIN_SECONDS
        await look_at(places, msgspec.structs.replace(server, start_seconds=seconds))
        with suppress(ConflictError, ActorStopped):
            await self.restart(server.name)

    async def log_out(self, server: McpSettings) -> str:
        """Have the issuer take the stored login back; return why that failed, or `""`. It stays stored."""
        return await log_out(self.places, server)

    def offer(self, name: str) -> McpOffer | None:
        """Return what a server offered when somebody looked at it last."""
        return self._offers.get(name)

    async def _open(self, known: _Known) -> ServerLink:
        """Return a running server; raise `ToolFailure` when it can't be had."""
        name = known.settings.name
        try:
            with trio.move_on_after(START_WAIT_SECONDS):
                return await known.mailbox.ask(OpenServer())
        except ActorStopped as stopped:
            raise ToolFailure(
                ErrorType.TOOL_NOT_AVAILABLE, f"Not run: the server {name} has been stopped."
            ) from stopped
        raise ToolFailure(
            ErrorType.TIMEOUT,
            f"Not run: the server {name} is still being started. Try again in a moment.",
        )

    def _start(self, known: _Known) -> None:
        assert self._supervisor is not None
        known.is_started = True
        make = partial(
            McpServer, known.mailbox, known.settings, self.places, partial(self._heard, known)
        )
        self._supervisor.start_soon(known.mailbox.name, make, known.mailbox, vital=False)

    def _heard(self, known: _Known, state: ServerState) -> None:
        """Take the state that an actor publishes; what it lists may withhold tools."""
        before, known.state = known.state, state
        if self._servers.get(known.settings.name) is not known:
            return  # another one has its place
        if before.listed != state.listed:
            self._offer(known.settings.name)
        elif before.state != state.state:
            self._tell()

    def _offer(self, name: str) -> None:
        """Put a server's accepted tools into the registry, without those that are others by now."""
        known = self._servers[name]
        tools, reasons = [], {}
        why = withheld(name, is_of_session=self.places.is_of_session)
        for pin in known.settings.tools:
            tool = self._make_tool(known.settings, pin, partial(self._open, known), known.slots)
            tools.append(tool)
            listed = known.state.listed
            if listed is not None and listed.get(pin.original) != pin.digest:
                reasons[tool.name] = why
        for taken in self._registry.replace(known.settings.source, tools, reasons):
            logger.warning("the server %s: there is a tool %s already; it is left out", name, taken)
        for tool_name in reasons:
            logger.warning("%s is withheld: %s", tool_name, why)
        self._tell()


class _Known:
    """A server in use: its settings, its actor's address, and what is known of it."""

    def __init__(self, settings: McpSettings) -> None:
        self.settings = settings
        self.mailbox: Mailbox[ServerMessage] = Mailbox(f"mcp {settings.name}", MAILBOX_CAPACITY)
        self.state = ServerState()
        self.slots = trio.CapacityLimiter(settings.max_calls)
        self.is_started = False

    def end(self) -> None:
        """Have its actor end; never waits."""
        if not self.is_started:
            self.mailbox.close()
            return
        try:
            self.mailbox.tell_nowait(EndServer())
        except (ActorStopped, OverloadedError):
            self.mailbox.close()


def _process_of(settings: McpSettings) -> McpSettings:
    """Return the settings without those that concern calls alone."""
    fields = {f.name: f.default for f in msgspec.structs.fields(McpSettings)}
    defaults = {name: {} if name in {"tiers", "effects"} else fields[name] for name in _ABOUT_CALLS}
    return msgspec.structs.replace(settings, **defaults)
