"""A tool of a server, as the dispatcher calls it: the accepted definition, and a call over the server's connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, nullcontext
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec
import trio

from ...config.mcp.settings import McpSettings, PinnedTool
from ...runtime.definitions import Effect, ErrorType, Resource, Tier, ToolFailure, ToolResult
from ...runtime.errors import ValidationError
from ...runtime.event_types.calls import CalledServer
from ...runtime.taint.tracked_network import TrackedNetwork
from ...runtime.text import hidden_in
from ..foreign_tool import ForeignTool
from ..tool import Arguments, Tool, ToolContext, tool
from .asking.questions import CallAsker
from .definition import READ_RESOURCE, definition_of, needs_of, texts_in
from .result import resource_rows, result_of_answer
from .state import AnsweredError, Callee, ConnectionLost, ServerLink, ShowProgress
from .tasks.book import NotedTask, TaskBook
from .work import ServedWorkspace

RESOURCES = "mcp resources"
"""What the definitions of the tools of resources name as their source."""
MAX_URI_CHARS = 2048
Answer = TypeVar("Answer")

PROGRESS_SECONDS = 0.1
"""The least time between two lines of progress of one call."""
MAX_PROGRESS_CHARS = 500
MAX_CODE = 2**31
"""The protocol's codes of errors are within 32 bits; a server may write a number of any size."""


class Line(NamedTuple):
    """The way to a server, which may have a program for each workspace.

    Attributes:
        open: Returns the running server; raises `ToolFailure` when it can't be had.
        work_of: Returns what the server has to do with the workspace of a call; `None` where that is nothing.
        tasks: Where it is noted which tasks calls wait for.
    """

    open: Callable[[ServedWorkspace | None], Awaitable[ServerLink]]
    work_of: Callable[[ToolContext], ServedWorkspace | None] = lambda context: None
    tasks: TaskBook | None = None


class McpTool(Tool):
    """A tool that a person has accepted; its schemas are compiled when it is called for the first time.

    Args:
        server: Its server's settings.
        pin: Its definition, as it was accepted.
        line: Starts the server, if need be.
        slots: Bounds the calls that the server gets at once.
    """

    def __init__(
        self,
        server: McpSettings,
        pin: PinnedTool,
        line: Line,
        slots: trio.CapacityLimiter,
    ) -> None:
        self.definition = definition_of(server, pin)
        self.is_trusted = server.content == "trusted"
        self.may_ask = True
        self.may_ask_model = server.sampling
        self._server = server.name
        self._host = server.host
        self._pin = pin
        self._digest = pin.digest
        self._line = line
        self._is_writer = server.files == "write"
        self._slots = slots

    @cached_property
    def _checked(self) -> ForeignTool:
        try:
            return ForeignTool(self.definition, self._run)
        except ValidationError as error:  # the extra is missing, or a bound is another one by now
            raise ToolFailure(ErrorType.TOOL_NOT_AVAILABLE, str(error)) from error

    def decode(self, arguments: str) -> Arguments:
        """See `Tool`."""
        return self._checked.decode(arguments)

    def resources(self, arguments: Arguments) -> tuple[Resource, ...]:
        """See `Tool`; a program that may write in the workspace is alone in it."""
        return (Resource(""),) if self._is_writer else ()

    async def execute(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        """See `Tool`."""
        return await self._checked.execute(arguments, context)

    async def _run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Call the server, and once more when it ended and the call may be made twice, or waits for a task."""
        may_repeat = self.definition.effect is not Effect.ONCE
        book = self._line.tasks
        note = (
            None
            if book is None
            else book.note(context.session_id, self._server, self._digest, arguments)
        )
        async with self._slots:
            with note or nullcontext():
                return await self._twice(arguments, context, note, may_repeat=may_repeat)

    async def _twice(
        self,
        arguments: dict[str, Any],
        context: ToolContext,
        note: NotedTask | None,
        *,
        may_repeat: bool,
    ) -> ToolResult:
        try:
            return await self._call(arguments, context, note)
        except ConnectionLost as error:
            lost = error
        has_task = note is not None and await note.find() is not None
        if lost.may_have_run and not may_repeat and not has_task:
            raise self._interrupted()
        try:
            return await self._call(arguments, context, note)
        except ConnectionLost:
            raise self._interrupted() from None

    async def _call(
        self, arguments: dict[str, Any], context: ToolContext, note: NotedTask | None
    ) -> ToolResult:
        work = self._line.work_of(context)
        if work is None:
            return await self._ask(None, arguments, context, note)
        async with work.serving(context, texts_in(arguments)):
            return await self._ask(work, arguments, context, note)

    async def _ask(
        self,
        work: ServedWorkspace | None,
        arguments: dict[str, Any],
        context: ToolContext,
        note: NotedTask | None,
    ) -> ToolResult:
        link = await self._line.open(work)
        if link.listed.get(self._pin.original) != self._digest:
            raise ToolFailure(ErrorType.TOOL_NOT_AVAILABLE, f"Not run: {withheld(self._server)}")
        if self._host and isinstance(context.network, TrackedNetwork):
            context.network.note(self._host)
        context.server = called = _called(self._server, self._host, link)
        try:
            answer = await link.connection.call(
                self._pin.original,
                arguments,
                _progress(context),
                CallAsker(self._server, context),
                context.trace,
                note,
            )
        except AnsweredError as failure:
            if abs(failure.code) <= MAX_CODE:
                context.server = msgspec.structs.replace(called, code=failure.code)
            raise
        return result_of_answer(self.name, answer, context.call_id)

    def _interrupted(self) -> ToolFailure:
        return ToolFailure(
            ErrorType.INTERRUPTED,
            f"The server {self._server} ended while {self.name} ran; whether it was done is not known. Check "
            "before you try again.",
        )


class Reached(NamedTuple):
    """A server that has resources, and the way to it."""

    settings: McpSettings
    line: Line
    slots: trio.CapacityLimiter

    async def ask(
        self, context: ToolContext, texts: Iterable[str], use: Callable[[Callee], Awaitable[Answer]]
    ) -> Answer:
        """Have the running server asked; raise `ToolFailure` when it can't be."""
        async with self.slots, AsyncExitStack() as stack:
            work = self.line.work_of(context)
            if work is not None:
                await stack.enter_async_context(work.serving(context, texts))
            link = await self.line.open(work)
            context.server = _called(self.settings.name, self.settings.host, link)
            if self.settings.host and isinstance(context.network, TrackedNetwork):
                context.network.note(self.settings.host)
            try:
                return await use(link.connection)
            except ConnectionLost:
                raise ToolFailure(
                    ErrorType.INTERRUPTED,
                    f"The server {self.settings.name} ended before it answered. Try again.",
                ) from None


def resource_tools(servers: Mapping[str, Reached]) -> tuple[Tool, ...]:
    """Return the tools that list and read the resources of servers; without servers there are none."""

    def found(name: str) -> Reached:
        if name not in servers:
            raise ToolFailure(
                ErrorType.VALIDATION_ERROR,
                f"server: there is no server {name[:64]!r} with resources. There are: {', '.join(servers)}.",
                field="server",
            )
        return servers[name]

    async def listing(connection: Callee) -> dict[str, Any]:
        return await connection.list_resources()

    async def mcp_resources(context: ToolContext, server: str = "") -> ToolResult:
        """Lists the resources of servers: files, records and other content that mcp_read reads by its URI.

        The texts are the servers' own.

        Args:
            server: One of the servers; all, by default.
        """
        listed: dict[str, Any] = {}
        for name, its in {server: found(server)}.items() if server else servers.items():
            try:
                said = await its.ask(context, (), listing)
                listed[name] = resource_rows(said)
            except ToolFailure as failure:
                if server:
                    raise
                listed[name] = {"problem": str(failure)}
        context.server = context.server if server else None  # else they are several
        return ToolResult(output=listed)

    async def mcp_read(server: str, uri: str, context: ToolContext) -> ToolResult:
        """Reads a resource of a server; mcp_resources lists what there is.

        Args:
            server: The server that has it.
            uri: Its URI, as listed, or made by one of the listed templates.
        """
        _check_uri(uri)

        async def read(connection: Callee) -> dict[str, Any]:
            return await connection.read(uri, CallAsker(server, context))

        said = await found(server).ask(context, (uri,), read)
        parts = [{"type": "resource", "resource": each} for each in said.get("contents") or ()]
        return result_of_answer(READ_RESOURCE, {"content": parts}, context.call_id)

    if not servers:
        return ()
    its = [each.settings for each in servers.values()]
    needs = tuple(dict.fromkeys(need for each in its for need in needs_of(each)))
    seconds = max(each.timeout_seconds for each in its)
    alone = [Resource("")] if any(each.files == "write" for each in its) else []
    made = []
    for function in (mcp_resources, mcp_read):
        its_tool = tool(
            tier=Tier.READ_ONLY,
            effect=Effect.READ,
            needs=needs,
            timeout_seconds=seconds,
            resources=lambda arguments: alone,
        )(function)
        its_tool.is_trusted, its_tool.may_ask = False, True
        its_tool.is_ours = False  # what they answer is a server's
        its_tool.definition = msgspec.structs.replace(its_tool.definition, source=RESOURCES)
        made.append(its_tool)
    return tuple(made)


def _called(name: str, host: str | None, link: ServerLink) -> CalledServer:
    """Return what is on record of a server that a call asks."""
    protocol = link.connection.info.protocol
    return CalledServer(name=name, protocol=protocol, transport="tcp" if host else "pipe")


def _check_uri(uri: str) -> None:
    if len(uri) > MAX_URI_CHARS or hidden_in(uri):
        raise ToolFailure(
            ErrorType.VALIDATION_ERROR,
            f"uri: it is longer than {MAX_URI_CHARS} characters, or has some that people don't see.",
            field="uri",
        )


def accepted_tools(servers: Mapping[str, McpSettings]) -> tuple[Tool, ...]:
    """Return the accepted tools of the servers that are used, for lists; none of them can be called."""

    async def nowhere(work: ServedWorkspace | None) -> ServerLink:
        await trio.lowlevel.checkpoint()
        raise ToolFailure(ErrorType.TOOL_NOT_AVAILABLE, "nothing is called here")

    return tuple(
        McpTool(server, pin, Line(nowhere), trio.CapacityLimiter(1))
        for server in servers.values()
        if server.enabled
        for pin in server.tools
    ) + resource_tools(
        {
            name: Reached(server, Line(nowhere), trio.CapacityLimiter(1))
            for name, server in servers.items()
            if server.enabled and server.offers.resources
        }
    )


def withheld(server: str, *, is_of_session: bool = False) -> str:
    """Return why a tool is withheld whose definition is not the one that was accepted."""
    if is_of_session:
        return "its definition has changed since its server was brought; a person opens the session again"
    return (
        "its definition has changed since a person accepted it; a person looks at it with "
        f'"callboard mcp review {server}"'
    )


def _progress(context: ToolContext) -> ShowProgress:
    shown_at = -PROGRESS_SECONDS

    async def show(progress: float, total: float | None, message: str | None) -> None:
        nonlocal shown_at
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        if now - shown_at < PROGRESS_SECONDS:
            return
        shown_at = now
        line = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        context.progress(f"{line} {message or ''}".strip()[:MAX_PROGRESS_CHARS])

    return show
