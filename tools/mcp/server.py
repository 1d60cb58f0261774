"""The actor of one server: it starts it, compares what it offers with what was accepted, and starts it again."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import trio

from ...config.mcp.settings import LOGIN, MCP_KEYS, McpSettings, key_place
from ...config.mcp.wire import McpOffer
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import ToolError
from ...runtime.kernel.late_import import import_module_late
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.redaction import redact, redacting_logger
from .definition import read_instructions, read_listing, read_prompts
from .state import (
    ConnectionLost,
    EndServer,
    LookAtServer,
    McpPlaces,
    OpenServer,
    RestartServer,
    ServerLink,
    ServerMessage,
    ServerState,
)
from .work import ServedWorkspace

MAILBOX_CAPACITY = 256
"""Calls that ask for the server at once; each is answered without waiting for the others."""
MAX_WAIT_SECONDS = 60.0
"""The longest pause before a server that was started with the runtime is started again."""
MAX_FAILURES = 5
FAILURE_SECONDS = 600.0
"""So many failures in this time, and the server is not started again by itself."""
RELIST_SECONDS = 1.0
"""The least time between two lists, however often the server says that its tools have changed."""
NOT_FOUND = 127
"""The exit code when there is no such program."""
MAX_SAID = 500
"""Characters of what a program said last."""

if TYPE_CHECKING:  # imported in a thread, when the first server is started
    from ..sandbox.piped import PipedProgram
    from .connection import ServerConnection
    from .http import HttpWire

logger = redacting_logger(__name__)
Answer = TypeVar("Answer")


class McpServer:
    """The actor of one server, or of one in a workspace; at most one program of it runs.

    Receives: `OpenServer` from calls; `LookAtServer`, `RestartServer` from people; `EndServer`.
    Sends: nothing. Its state is published through `publish`, which does not wait.
    Owns: the program and its connection, the calls that wait for its start, its failures.
    Ends: with `EndServer`, or when it is cancelled; the program is gone then.
    """

    def __init__(
        self,
        mailbox: Mailbox[ServerMessage],
        server: McpSettings,
        places: McpPlaces,
        publish: Callable[[ServerState], None],
        work: ServedWorkspace | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._work = work
        self._server = server
        self._places = places
        self._publish = publish
        self._waiting: list[OpenServer | LookAtServer] = []
        self._is_wanted = trio.Event()
        self._link: ServerLink | None = None
        self._running: trio.CancelScope | None = None
        self._failures: deque[float] = deque(maxlen=MAX_FAILURES)
        self._error_type = ErrorType.EXECUTION_ERROR
        self._state = ServerState()
        self._has_prompts = bool(server.offers.prompts)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until the end; see the class."""
        try:
            with self._mailbox.open() as inbox:
                async with trio.open_nursery() as nursery:
                    if self._server.start == "eager":
                        self._begin(nursery)
                    task_status.started()
                    async for message in inbox:
                        match message:
                            case OpenServer():
                                self._open(message, nursery)
                            case LookAtServer():
                                self._look(message, nursery)
                            case RestartServer():
                                await self._restart(message)
                            case EndServer():
                                break
                    nursery.cancel_scope.cancel(reason="the server is not configured any more")
        finally:
            for request in self._waiting:
                request.abandon()

    def _open(self, request: OpenServer, nursery: trio.Nursery) -> None:
        if self._link is not None and not self._link.connection.lost.is_set():
            request.reply.send(self._link)
        elif self._state.state == "failed":
            request.reply.fail(self._unavailable())
        else:
            self._wait(request, nursery)

    def _look(self, request: LookAtServer, nursery: trio.Nursery) -> None:
        """List its tools for somebody; who asks for that has a server tried that was given up."""
        if self._state.state == "failed":
            self._failures.clear()
        self._is_wanted.set()
        self._wait(request, nursery)

    def _wait(self, request: OpenServer | LookAtServer, nursery: trio.Nursery) -> None:
        self._waiting = [each for each in self._waiting if not each.reply.is_done]
        self._waiting.append(request)
        self._begin(nursery)

    async def _restart(self, request: RestartServer) -> None:
        await trio.lowlevel.checkpoint()
        with request.reply:
            self._failures.clear()
            if self._running is not None:
                self._running.cancel(reason="it is started again")
            elif self._state.state == "failed":
                self._say(state="not started", problem="")
            request.reply.send(None)

    def _begin(self, nursery: trio.Nursery) -> None:
        """Start the server, if it is not running or being started."""
        if self._running is None:
            self._running = trio.CancelScope()
            nursery.start_soon(self._serve, nursery, name=f"mcp {self._server.name}, connection")

    async def _serve(self, nursery: trio.Nursery) -> None:
        """Start the server and serve it until it ends, however that comes about."""
        assert self._running is not None
        ended: ServerEnd | None = None
        with self._running:
            self._say(state="starting", problem="")
            ended = await run_server(self._places, self._server, self._speak, self._work)
        has_run, self._link, self._running = self._link is not None, None, None
        is_eager = self._server.start == "eager"
        if ended is None:  # it is started again
            self._say(state="not started", problem="")
        else:
            self._note_failure(ended)
        if self._waiting and (ended is None or (has_run and self._state.state == "broken")):
            self._begin(nursery)  # for who has lost it, and for who came meanwhile
            return
        self._refuse_waiting()
        if ended is None and is_eager:
            self._begin(nursery)
        elif self._state.state == "broken" and is_eager:
            nursery.start_soon(self._begin_later, nursery, name=f"mcp {self._server.name}, pause")

    def _note_failure(self, ended: ServerEnd) -> None:
        now = trio.current_time()
        self._failures.append(now)
        self._error_type = ended.error_type
        is_full = len(self._failures) == MAX_FAILURES
        # One over HTTP is not ours to start, and a network goes away and comes back: it is asked by each call.
        has_failed = (
            self._server.url is None and is_full and now - self._failures[0] <= FAILURE_SECONDS
        )
        logger.warning("the server %s is not running: %s", self._server.name, ended.problem)
        self._say(
            state="failed" if has_failed else "broken",
            problem=ended.problem,
            errors=ended.errors,
        )

    def _refuse_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            if isinstance(request, LookAtServer):
                request.reply.fail(_unusable(self._server, self._state.problem))
            else:
                request.reply.fail(self._unavailable())

    async def _begin_later(self, nursery: trio.Nursery) -> None:
        seconds = min(MAX_WAIT_SECONDS, 2.0 ** (len(self._failures) - 1))
        await trio.sleep(seconds * random.uniform(0.8, 1.2))
        self._begin(nursery)

    async def _speak(self, connection: ServerConnection, scope: trio.CancelScope) -> None:
        """List the server's tools, and again whenever it says that they have changed, until it ends."""
        while not connection.lost.is_set():
            changed = connection.next_change()
            self._is_wanted = trio.Event()
            is_whole = any(isinstance(each, LookAtServer) for each in self._waiting)
            with_prompts = is_whole or self._has_prompts
            self._has_prompts = with_prompts
            offer = await _offer_of(
                self._server, connection, is_whole=is_whole, with_prompts=with_prompts
            )
            digests = {tool.original: tool.digest for tool in offer.tools}
            self._say(state="running", info=offer.info, listed=digests, refused=offer.refused)
            if with_prompts:
                self._say(prompts={each.name: each.digest for each in offer.offers.prompts})
            for note in offer.notes:
                logger.warning("the server %s: %s", self._server.name, note)
            scope.deadline = math.inf
            self._link = ServerLink(connection, digests)
            if self._work is not None:
                self._work.ready()
            waiting, self._waiting = self._waiting, []
            for request in waiting:
                if isinstance(request, OpenServer):
                    request.reply.send(self._link)
                elif is_whole:
                    request.reply.send(offer)
                else:  # it came while the tools alone were listed
                    self._waiting.append(request)
                    self._is_wanted.set()
            with trio.move_on_after(connection.fresh_seconds):
                await _wait_any(changed, self._is_wanted, connection.lost)
            if not connection.lost.is_set():
                if changed.is_set() and not self._is_wanted.is_set():
                    await trio.sleep(RELIST_SECONDS)
                scope.deadline = trio.current_time() + self._server.start_seconds

    def _unavailable(self) -> ToolFailure:
        again = (
            f" It is not started again by itself: `callboard mcp restart {self._server.name}`."
            if self._state.state == "failed" and not self._places.is_of_session
            else ""
        )
        is_there = "is not running" if self._server.url is None else "can't be used"
        return ToolFailure(
            self._error_type,
            f"Not run: the server {self._server.name} {is_there}: {self._state.problem}.{again}",
        )

    def _say(self, **changes: Any) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)
        self._publish(self._state)


class ServerEnd(NamedTuple):
    """Why a server has ended, and the end of what its program wrote to stderr."""

    problem: str
    errors: str = ""
    error_type: ErrorType = ErrorType.EXECUTION_ERROR


Speak = Callable[["ServerConnection", trio.CancelScope], Awaitable[None]]
"""(connection, the scope whose deadline is that of the start)."""


async def run_server(
    places: McpPlaces, server: McpSettings, speak: Speak, work: ServedWorkspace | None = None
) -> ServerEnd:
    """Start a server, for a workspace or not, and speak with it; return why that has ended. Nothing is left then."""
    program: PipedProgram | None = None
    over_http: HttpWire | None = None
    kind, has_answered = ErrorType.EXECUTION_ERROR, False
    try:
        await import_module_late(f"{__package__}.connection")
        from .connection import ServerWire, open_connection

        with trio.CancelScope(deadline=trio.current_time() + server.start_seconds) as scope:
            async with AsyncExitStack() as stack:
                wire: ServerWire
                if server.url is None:
                    from .launch import open_program  # with what runs programs
                    from .streams import LineWire

                    program = await stack.enter_async_context(open_program(places, server, work))
                    if work is not None:
                        work.hold(program)
                        stack.callback(work.let_go)
                    wire = LineWire(program, f"the server {server.name}")
                else:
                    from .http import reach

                    wire = over_http = await reach(places, server)
                name = f"the server {server.name}"
                root = None if work is None else work.folder
                connection = await stack.enter_async_context(
                    open_connection(wire, name, root, samples=server.sampling)
                )
                has_answered = True
                await speak(connection, scope)
        slow = f"it did not answer in {server.start_seconds:g} s"
        problem = _end_of(program, slow if scope.cancelled_caught else "")
    except ToolFailure as failure:
        problem, kind = str(failure), failure.error_type
    except ImportError as error:
        problem = f"the package {error.name} is missing: pip install 'callboard[mcp]'"
    except Exception as crash:  # a foreign package, and a foreign server behind it
        problem = _end_of(program, _words(crash))
    if over_http is not None and over_http.failure is not None:
        problem, kind = str(over_http.failure), over_http.failure.error_type
    problem = problem.rstrip(".")
    if program is not None and not has_answered:
        from .launch import advice_on_hidden

        advice = partial(advice_on_hidden, server, program.view, places.is_of_session)
        problem += await trio.to_thread.run_sync(advice)
    return ServerEnd(problem, "" if program is None else program.errors, kind)


async def look_at(places: McpPlaces, server: McpSettings) -> McpOffer:
    """Start a server, list its tools and end it.

    Raises:
        ToolError: It can't be started, or does not list its tools.
    """

    async def look(connection: ServerConnection) -> McpOffer:
        return await _offer_of(server, connection, is_whole=True, with_prompts=True)

    return await ask_once(places, server, look)


async def ask_once(
    places: McpPlaces, server: McpSettings, use: Callable[[ServerConnection], Awaitable[Answer]]
) -> Answer:
    """Start a server, ask it something and end it; raise `ToolError` when it can't be started or asked."""
    found: list[Answer] = []

    async def ask(connection: ServerConnection, scope: trio.CancelScope) -> None:
        found.append(await use(connection))

    end = await run_server(places, server, ask)
    if not found:
        raise _unusable(server, end.problem)
    return found[0]


async def log_out(places: McpPlaces, server: McpSettings) -> str:
    """Have the issuer take back the stored login at a server; return why that failed, or `""`. It stays stored."""
    if server.url is None or places.logins is None:
        return ""
    place = key_place(server.name, server.url)
    stored = await trio.to_thread.run_sync(
        partial(places.logins.get, MCP_KEYS, place, LOGIN, masks=False)
    )
    if stored is None:
        return ""
    try:
        await import_module_late(f"{__package__}.login")
    except ImportError as error:
        return f"the package {error.name} is missing"
    from .login import revoke

    return await revoke(places, server)


async def _offer_of(
    server: McpSettings, connection: ServerConnection, *, is_whole: bool, with_prompts: bool
) -> McpOffer:
    """Return what a server offers; without `is_whole` its tools, and `with_prompts` its prompts."""
    listed, notes = await connection.list_tools()
    listing = read_listing(server, listed)
    offers = server.offers
    if is_whole:
        its, left_out = read_instructions(connection.instructions)
        has_resources = await connection.has_resources()
        offers = msgspec.structs.replace(offers, resources=has_resources, instructions=its)
        notes = (*notes, *left_out)
    if with_prompts:
        try:
            listed, said = await connection.list_prompts()
        except ToolFailure as failure:  # its tools can be used all the same
            listed, said = [], (f"its prompts can't be listed: {failure}",)
        prompts, left_out = read_prompts(listed)
        offers = msgspec.structs.replace(offers, prompts=prompts)
        notes = (*notes, *said, *left_out)
    return McpOffer(
        info=connection.info,
        tools=listing.tools,
        offers=offers,
        refused=dict(listing.refused),
        notes=(*notes, *listing.notes),
    )


def _unusable(server: McpSettings, problem: str) -> ToolError:
    return ToolError(f"the server {server.name} can't be used: {problem}")


async def _wait_any(*events: trio.Event) -> None:
    async def wait(event: trio.Event) -> None:
        await event.wait()
        nursery.cancel_scope.cancel(reason="one of them has happened")

    async with trio.open_nursery() as nursery:
        for event in events:
            nursery.start_soon(wait, event)


def _end_of(program: PipedProgram | None, why: str) -> str:
    """Return why a server has ended, with what its program said last."""
    if program is None:
        return why or "it has ended the connection"
    ran = program.result()
    if not why:
        why = f"its program was ended: {ran.killed_by}" if ran.killed_by else ""
        why = why or f"its program has ended with code {ran.exit_code}"
        if ran.exit_code == NOT_FOUND:
            why = (
                "there is no such program in the sandbox, which sees the folders of PATH, and those of its "
                "own read_only and that of [sandbox]"
            )
    lines = program.errors.strip().splitlines()
    said = redact(lines[-1])[:MAX_SAID] if lines else ""
    return f"{why}; it said: {said}" if said else why


def _is_closed(crash: BaseException) -> bool:
    """Whether it says no more than that the other side is gone."""
    return str(crash) == "Connection closed"


def _words(crash: BaseException) -> str:
    while isinstance(crash, BaseExceptionGroup):
        crash = crash.exceptions[0]
    if isinstance(crash, ConnectionLost):
        return str(crash)
    if _is_closed(crash):
        return ""
    if isinstance(crash, ValueError) and hasattr(crash, "error_count"):  # pydantic's
        return "what it answers is not of the protocol"
    text = redact(" ".join(str(crash).split()))[:MAX_SAID]
    return f"it can't be spoken with ({type(crash).__name__}: {text})"
