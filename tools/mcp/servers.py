"""The servers of a runtime: their actors, and their tools in the registry, as the configuration in force says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

import msgspec
import trio

from ...config.mcp.settings import McpSettings, PinnedTool, ServerPrompt
from ...config.mcp.wire import McpOffer
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import (
    ActorStopped,
    ConflictError,
    NotFoundError,
    OverloadedError,
    ToolError,
    ValidationError,
)
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.kernel.supervisor import Supervisor
from ...runtime.redaction import redacting_logger
from ...runtime.text import hidden_in
from ..registry import ToolRegistry
from ..tool import ToolContext
from .definition import instructions_text, read_prompts
from .result import prompt_text
from .server import MAILBOX_CAPACITY, Answer, McpServer, ask_once, log_out, look_at
from .state import (
    LOGIN_SECONDS,
    Callee,
    ConnectionLost,
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
from .tasks.book import TaskBook
from .tool import RESOURCES, Line, McpTool, Reached, resource_tools, withheld
from .work import ServedWorkspace, work_of

START_WAIT_SECONDS = 15.0
"""How long a call waits for a start that runs; the start may go on behind it."""

IDLE_SECONDS = 300.0
"""From the end of the last session of a workspace to that of the programs that servers have there."""
LOOK_SECONDS = 30.0
"""From one look at that to the next."""
MAX_WORKSPACES = 16
"""Workspaces on which one server works at once, each with a program; the one that waits longest makes room."""
Place = tuple[str, tuple[int, int] | None] | None
"""A workspace, by its path and identity."""
ALL: Place = None
"""The place of a server that has nothing to do with workspaces."""

MAX_LOOKS = 4
"""Servers that are started at once for somebody who looks at them; others wait."""
MAX_VALUES = 100
"""Values that an argument of a prompt may have, in one list: the protocol's own bound."""
MAX_VALUE = 1000
"""Characters of one of them."""
MAX_OFFERS = 16
"""What servers offered when somebody looked at them last; what is accepted is among it."""

_ABOUT_CALLS = frozenset(
    {
        "tools",
        "offers",
        "tier",
        "tiers",
        "effects",
        "annotations",
        "instructions",
        "content",
        "timeout_seconds",
        "max_calls",
    }
)
"""Settings that concern calls alone: a change of them needs no other process."""

MakeTool = Callable[[McpSettings, PinnedTool, Line, trio.CapacityLimiter], McpTool]

logger = redacting_logger(__name__)


class McpServers:
    """All servers of a runtime; `serve` must run for them to be called.

    Args:
        registry: Gets their tools.
        places: What they are started with.
        tell: Called when the list of tools, or the state of a server, has changed; must not wait.
        is_loaded: Whether a session is; the programs of its workspace live as long.
        make_tool: Makes a tool of a server.

    Attributes:
        places: The same.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        places: McpPlaces,
        tell: Callable[[], None] = lambda: None,
        is_loaded: Callable[[str], bool] = lambda session_id: True,
        make_tool: MakeTool = McpTool,
    ) -> None:
        self.places = places
        self._registry = registry
        self._make_tool = make_tool
        self._tell = tell
        self._is_loaded = is_loaded
        self._has_resources = False
        self._servers: dict[str, _Known] = {}
        self._supervisor: Supervisor | None = None
        self._tasks = TaskBook(places.data)
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
            if settings.files == "none" and not known.runs:
                known.runs[ALL] = _Run(settings, None)
                self._start(known, known.runs[ALL])
        self._registry.instructions = {
            known.settings.source: instructions_text(name, known.settings.offers.instructions)
            for name, known in self._servers.items()
            if known.settings.instructions and known.settings.offers.instructions
        }
        self._offer_resources()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the servers until cancelled; nothing of them is left when this returns."""
        try:
            async with trio.open_nursery() as nursery:
                self._supervisor = Supervisor(nursery)
                for known in self._servers.values():
                    for run in known.runs.values():
                        self._start(known, run)
                task_status.started()
                while True:
                    await trio.sleep(LOOK_SECONDS)
                    self.end_idle()
        finally:
            self._supervisor = None

    def end_idle(self) -> None:
        """End the programs of workspaces in which no session that has called is loaded any more, after a while."""
        now = trio.current_time()
        for known in self._servers.values():
            for place, run in tuple(known.runs.items()):
                work = run.work
                if work is None or work.calls or any(map(self._is_loaded, work.sessions)):
                    run.idle_since = None
                    continue
                run.idle_since = now if run.idle_since is None else run.idle_since
                if now - run.idle_since >= IDLE_SECONDS:
                    self._end_run(known, place)

    def _end_run(self, known: _Known, place: Place) -> None:
        known.runs.pop(place).end()
        if not known.runs:
            known.state = msgspec.structs.replace(known.state, state="not started", problem="")
            self._tell()

    def states(self) -> dict[str, ServerState]:
        """Return the state of each server by name."""
        return {name: known.state for name, known in self._servers.items()}

    async def restart(self, name: str) -> None:
        """End a server, and start it again when it is needed; raise `ConflictError` when it is not used."""
        await trio.lowlevel.checkpoint()
        known = self._servers.get(name)
        if known is None:
            raise ConflictError(f"the server {name} is not used: `callboard mcp enable {name}`")
        if known.settings.files == "none":
            await known.runs[ALL].mailbox.ask(RestartServer())
        for place, run in tuple(known.runs.items()):
            if run.work is not None:
                self._end_run(known, place)

    async def look(self, server: McpSettings) -> McpOffer:
        """Return what a server offers now, and remember it; one that is not used is started for this alone.

        So is one that works on workspaces: it sees none then.

        Raises:
            ToolError: It can't be started, or does not list its tools.
        """
        known = self._servers.get(server.name)
        if known is not None and known.settings == server and server.files == "none":
            offer = await known.runs[ALL].mailbox.ask(LookAtServer())
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

    async def prompt(
        self, server: str, name: str, arguments: Mapping[str, str]
    ) -> tuple[str, tuple[str, ...]]:
        """Return the text that a server makes of one of its accepted prompts, and what is left out of it.

        Raises:
            NotFoundError: There is no such server, or prompt.
            ValidationError: These are not its arguments.
            ConflictError: It has changed since it was accepted.
            ToolError: The server can't be asked, or makes nothing of it that a person could send.
        """
        pin = self._prompt(server, name)
        names = {each.name for each in pin.arguments}
        if unknown := arguments.keys() - names:
            raise ValidationError(
                f"/{server}:{name} has no argument {min(unknown)!r:.80}. It has: "
                f"{', '.join(sorted(names)) or 'none'}.",
                field="arguments",
            )
        missing = [
            each.name for each in pin.arguments if each.required and each.name not in arguments
        ]
        if missing:
            raise ValidationError(
                f"/{server}:{name} wants to be given {', '.join(missing)}.", field="arguments"
            )

        async def ask(connection: Callee) -> dict[str, Any] | None:
            listed, _ = await connection.list_prompts()
            now = {each.name: each.digest for each in read_prompts(listed)[0]}
            return (
                await connection.prompt(name, dict(arguments))
                if now.get(name) == pin.digest
                else None
            )

        said = await self._asked(server, ask)
        if said is None:
            raise ConflictError(f"/{server}:{name} is withheld: {withheld(server)}.")
        return prompt_text(said)

    async def complete(
        self, server: str, name: str, argument: str, value: str, arguments: Mapping[str, str]
    ) -> list[str]:
        """Return what an argument of a prompt may be, as its server says; raise as `prompt`."""
        pin = self._prompt(server, name)
        if argument not in {each.name for each in pin.arguments}:
            raise ValidationError(
                f"/{server}:{name} has no argument {argument!r:.80}.", field="argument"
            )

        async def ask(connection: Callee) -> list[str]:
            return await connection.complete(name, argument, value, dict(arguments))

        found = await self._asked(server, ask)
        return [
            each for each in found[:MAX_VALUES] if len(each) <= MAX_VALUE and not hidden_in(each)
        ]

    def _prompt(self, server: str, name: str) -> ServerPrompt:
        known = self._servers.get(server)
        prompts = () if known is None else known.settings.offers.prompts
        found = next((each for each in prompts if each.name == name), None)
        if found is None:
            raise NotFoundError(
                f"There is no prompt /{server[:64]}:{name[:128]}: `callboard mcp show` says which of a server are "
                "accepted."
            )
        return found

    async def _asked(self, server: str, ask: Callable[[Callee], Awaitable[Answer]]) -> Answer:
        """Have a server asked for people; one that works on workspaces is started for this alone, and sees none."""
        known = self._servers[server]
        with trio.move_on_after(known.settings.timeout_seconds):
            try:
                if known.settings.files != "none":
                    async with self._looking:
                        return await ask_once(self.places, known.settings, ask)
                link = await self._open(known, None)
                async with known.slots:
                    return await ask(link.connection)
            except ConnectionLost:
                raise ToolError(
                    f"The server {server} ended before it answered. Try again."
                ) from None
        raise ToolError(
            f"The server {server} did not answer in {known.settings.timeout_seconds:g} s."
        )

    def offer(self, name: str) -> McpOffer | None:
        """Return what a server offered when somebody looked at it last."""
        return self._offers.get(name)

    def _work_of(self, known: _Known, context: ToolContext) -> ServedWorkspace | None:
        """Return the workspace of a call, with a program of its own there; raise `ToolFailure`."""
        if known.settings.files == "none":
            return None
        found = work_of(context, is_writable=known.settings.files == "write")
        place = found.folder, found.identity
        run = known.runs.get(place)
        if run is not None and not run.mailbox.is_closed and run.work is not None:
            known.runs[place] = known.runs.pop(place)  # the latest used is last
            return run.work
        if len(known.runs) >= MAX_WORKSPACES:
            free = (each for each, its in known.runs.items() if its.work and not its.work.calls)
            if (oldest := next(free, None)) is None:
                raise ToolFailure(
                    ErrorType.TOOL_NOT_AVAILABLE,
                    f"Not run: the server {known.settings.name} works on {MAX_WORKSPACES} workspaces at once "
                    "already. Try again when one of these calls has ended.",
                )
            self._end_run(known, oldest)
        known.runs[place] = _Run(known.settings, found)
        self._start(known, known.runs[place])
        return found

    async def _open(self, known: _Known, work: ServedWorkspace | None) -> ServerLink:
        """Return a running server; raise `ToolFailure` when it can't be had."""
        name = known.settings.name
        run = known.runs.get(ALL if work is None else (work.folder, work.identity))
        try:
            if run is None:
                raise ActorStopped(f"the server {name} has been stopped")
            # One that works on a workspace is ended when the last call there gives up, and so gets the whole time.
            seconds = START_WAIT_SECONDS if work is None else known.settings.start_seconds + 1.0
            with trio.move_on_after(seconds):
                return await run.mailbox.ask(OpenServer())
        except ActorStopped as stopped:
            raise ToolFailure(
                ErrorType.TOOL_NOT_AVAILABLE, f"Not run: the server {name} has been stopped."
            ) from stopped
        raise ToolFailure(
            ErrorType.TIMEOUT,
            f"Not run: the server {name} is still being started. Try again in a moment.",
        )

    def _start(self, known: _Known, run: _Run) -> None:
        if self._supervisor is None or run.is_started:
            return
        run.is_started = True
        make = partial(
            McpServer,
            run.mailbox,
            known.settings,
            self.places,
            partial(self._heard, known, run),
            run.work,
        )
        self._supervisor.start_soon(run.mailbox.name, make, run.mailbox, vital=False)

    def _heard(self, known: _Known, run: _Run, state: ServerState) -> None:
        """Take the state that an actor publishes; what it lists may withhold tools."""
        run.state = state
        is_used = self._servers.get(known.settings.name) is known and run in known.runs.values()
        others = (its for its in known.runs.values() if its is not run)
        if not is_used or (
            state.state != "running" and any(its.state.state == "running" for its in others)
        ):
            return  # another one has its place
        before, known.state = known.state, state
        if before.listed != state.listed:
            self._offer(known.settings.name)
        elif (before.state, before.problem, before.prompts) != (
            state.state,
            state.problem,
            state.prompts,
        ):
            self._tell()

    def _offer(self, name: str) -> None:
        """Put a server's accepted tools into the registry, without those that are others by now."""
        known = self._servers[name]
        tools, reasons = [], {}
        why = withheld(name, is_of_session=self.places.is_of_session)
        line = Line(partial(self._open, known), partial(self._work_of, known), self._tasks)
        for pin in known.settings.tools:
            tool = self._make_tool(known.settings, pin, line, known.slots)
            tools.append(tool)
            listed = known.state.listed
            if listed is not None and listed.get(pin.original) != pin.digest:
                reasons[tool.name] = why
        for taken in self._registry.replace(known.settings.source, tools, reasons):
            logger.warning("the server %s: there is a tool %s already; it is left out", name, taken)
        for tool_name in reasons:
            logger.warning("%s is withheld: %s", tool_name, why)
        self._tell()

    def _offer_resources(self) -> None:
        """Put the tools of resources into the registry, when a server had some when its tools were accepted."""
        having = {
            name: Reached(
                known.settings,
                Line(partial(self._open, known), partial(self._work_of, known)),
                known.slots,
            )
            for name, known in sorted(self._servers.items())
            if known.settings.offers.resources
        }
        if having or self._has_resources:
            self._has_resources = bool(having)
            for taken in self._registry.replace(RESOURCES, resource_tools(having), {}):
                logger.warning("there is a tool %s already; that of servers is left out", taken)
            self._tell()


class _Known:
    """A server in use: its settings, what is known of it, and its actors: one, or one for each workspace."""

    def __init__(self, settings: McpSettings) -> None:
        self.settings = settings
        self.state = ServerState()
        self.slots = trio.CapacityLimiter(settings.max_calls)
        self.runs: dict[Place, _Run] = {}

    def end(self) -> None:
        """Have its actors end; never waits."""
        while self.runs:
            self.runs.popitem()[1].end()


class _Run:
    """The address of a server's actor, and what it has said last."""

    def __init__(self, settings: McpSettings, work: ServedWorkspace | None) -> None:
        self.mailbox: Mailbox[ServerMessage] = Mailbox(f"mcp {settings.name}", MAILBOX_CAPACITY)
        self.work = work
        self.state = ServerState()
        self.is_started = False
        self.idle_since: float | None = None

    def end(self) -> None:
        """Have it end; never waits."""
        if not self.is_started:
            self.mailbox.close()
            return
        try:
            self.mailbox.tell_nowait(EndServer())
        except (ActorStopped, OverloadedError):
            self.mailbox.close()


def _process_of(settings: McpSettings) -> McpSettings:
    """Return the settings without those that concern calls alone."""
    return msgspec.structs.replace(settings, **_defaults())


@cache
def _defaults() -> dict[str, Any]:
    """Return what the settings that concern calls alone are by default; msgspec takes a millisecond to say it."""
    fields = {each.name: each.default for each in msgspec.structs.fields(McpSettings)}
    return {name: {} if name in {"tiers", "effects"} else fields[name] for name in _ABOUT_CALLS}
