"""A connection to a server: the package `mcp`, with our streams under it, and our words over it.

The only module that speaks to that package, beside `streams` and `http`. Importing it takes a second of processor time: it
is imported in a thread (`server`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    suppress,
)
from functools import partial
from importlib.metadata import version
from typing import Any, Protocol, cast

import trio
from mcp.client import InputRequiredRoundsExceededError
from mcp.client.client import Client
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import (
    ListenNotSupportedError,
    ResourceUpdated,
    SubscriptionLost,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    CallToolResult,
    EmptyResult,
    Implementation,
    LoggingMessageNotification,
    PaginatedRequestParams,
    PromptListChangedNotification,
    PromptReference,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ...config.mcp.wire import ServerInfo
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.identity import TraceContext
from ...runtime.kernel.service_nursery import open_service_nursery
from ...runtime.redaction import redact, redacting_logger
from .asking.askers import Askers, DeclaringClient, lister
from .asking.questions import CallAsker
from .state import AnsweredError, CallFaults, ConnectionLost, ShowProgress, TaskNote
from .streams import MAX_LISTED
from .tasks.handle import FollowedCall, Tasks

CLOSED = "Connection closed"
"""What the package says when it has lost a server, with a code that servers use for all kinds of errors."""
MAX_PAGES = 20
"""Pages of a list of tools."""
LEAST_FRESH_SECONDS, MOST_FRESH_SECONDS = 60.0, 24 * 3600.0
"""Within which a server may say that its list holds."""
MAX_RESOURCES = 1000
"""Entries that are read of a list of resources, or of templates."""
MAX_FOLLOWED = 256
"""Resources of a connection of which the server says when they change."""
FOLLOW_SECONDS = 5.0
"""How long the reader of a resource waits until the server follows it, once it has read it."""
MAX_ERROR_CHARS = 4000
"""Kept of what a server says of an error."""
MAX_NAME_CHARS = 200

logger = redacting_logger(__name__)

# The package logs what servers write, as errors; what matters to people is said by ours.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class ServerConnection:
    """A server that has answered; made by `open_connection`.

    Attributes:
        info: What the server says of itself.
        lost: Set when it can't be spoken with any more.
        fresh_seconds: How long its list of tools holds, as it said; `inf` when it did not.
    """

    def __init__(
        self, client: Client, wire: ServerWire, changes: _Changes, askers: Askers, tasks: Tasks
    ) -> None:
        self._client = client
        self._wire = wire
        self._askers = askers
        self._tasks = tasks
        self.lost = wire.lost
        self.fresh_seconds = math.inf
        self._changes = changes
        its = client.server_info
        self.info = ServerInfo(
            name=(its.name if its is not None else "")[:MAX_NAME_CHARS],
            version=(its.version if its is not None else "")[:MAX_NAME_CHARS],
            protocol=client.protocol_version,
        )

    @property
    def instructions(self) -> str | None:
        """How to use its tools, in its words."""
        return self._client.instructions

    def next_change(self) -> trio.Event:
        """Return what is set when the server says from here on that its tools have changed."""
        self._changes.event = trio.Event()
        return self._changes.event

    async def list_tools(self) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Return the server's tools in the form of the protocol, and what is to be said of the list."""
        found, notes = await self._listed(self._client.session.list_tools, "tools")
        session, names = self._client.session, {tool["name"] for tool in found}
        # The package forgets what is not listed any more when the list has one page, and else keeps it all.
        for kept in (session._tool_output_schemas, session._x_mcp_header_maps):
            for name in kept.keys() - names:
                del kept[name]
        return found, notes

    async def has_resources(self) -> bool:
        """Whether the server has resources, or templates of such."""
        if self._client.server_capabilities.resources is None:
            return False
        session = self._client.session
        for ask, kind in (
            (session.list_resources, "resources"),
            (session.list_resource_templates, "resource_templates"),
        ):
            with suppress(MCPError):  # it has the one or the other
                if getattr(await ask(params=PaginatedRequestParams()), kind):
                    return True
        return False

    async def list_resources(self) -> dict[str, Any]:
        """Return the server's resources and templates in the form of the protocol, and what is to be said of the lists.

        Raises as `call`.
        """
        session, found = self._client.session, dict[str, Any]()
        with self._wire.calling() as faults:
            notes: list[str] = []
            for ask, kind in (
                (session.list_resources, "resources"),
                (session.list_resource_templates, "resource_templates"),
            ):
                try:
                    found[kind], said = await self._listed(ask, kind)
                    notes += said
                except MCPError as error:
                    if error.code != METHOD_NOT_FOUND:
                        raise self._lost_or_failure(error, faults) from None
                    found[kind] = []
                except ValidationError as error:
                    raise _not_protocol(error) from None
        return {**found, "notes": notes, "stale": sorted(self._changes.stale)}

    async def read(self, uri: str, ask: CallAsker | None = None) -> dict[str, Any]:
        """Return what a resource holds, in the form of the protocol; raise as `call`."""
        with self._askers.during(ask), self._wire.calling() as faults:
            found = await self._answer(self._client.read_resource(uri), faults, "resource")
            await self._follow_resource(uri)
        return found

    async def list_prompts(self) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Return the server's prompts in the form of the protocol, and what is to be said of the list; raise as `call`."""
        if self._client.server_capabilities.prompts is None:
            return [], ()
        with self._wire.calling() as faults:
            try:
                return await self._listed(self._client.session.list_prompts, "prompts")
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    return [], ()
                raise self._lost_or_failure(error, faults) from None
            except ValidationError as error:
                raise _not_protocol(error) from None

    async def prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        """Return the messages of a prompt, in the form of the protocol; raise as `call`."""
        with self._askers.during(None), self._wire.calling() as faults:
            return await self._answer(self._client.get_prompt(name, arguments), faults, "prompt")

    async def complete(
        self, prompt: str, argument: str, value: str, arguments: dict[str, str]
    ) -> list[str]:
        """Return what an argument of a prompt may be; nothing of a server that does not say so. Raises as `call`."""
        if self._client.server_capabilities.completions is None:
            return []
        asked = self._client.complete(
            PromptReference(name=prompt), {"name": argument, "value": value}, arguments or None
        )
        with self._wire.calling() as faults:
            found = await self._answer(asked, faults, "prompt")
        return [str(each) for each in found["completion"]["values"]]

    async def _follow_resource(self, uri: str) -> None:
        """Have the server say when a resource that was read is another one, where it can."""
        its = self._client.server_capabilities.resources
        self._changes.stale.discard(uri)
        is_known = uri in self._changes.read or len(self._changes.read) >= MAX_FOLLOWED
        if is_known or its is None or not its.subscribe:
            return
        self._changes.read.add(uri)
        if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            followed = self._changes.followed
            self._changes.wanted.set()
            with trio.move_on_after(FOLLOW_SECONDS):
                await followed.wait()
            return
        with suppress(MCPError):
            wanted = SubscribeRequest(params=SubscribeRequestParams(uri=uri))
            await self._client.session.send_request(wanted, EmptyResult)

    async def _listed(
        self, ask: Callable[..., Awaitable[Any]], kind: str
    ) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        found: list[dict[str, Any]] = []
        seen: set[str] = set()
        cursor: str | None = None
        most = MAX_LISTED if kind == "tools" else MAX_RESOURCES
        if kind == "tools":
            self.fresh_seconds = math.inf
        for _ in range(MAX_PAGES):
            page = await ask(params=PaginatedRequestParams(cursor=cursor))
            found += [
                each.model_dump(by_alias=True, exclude_none=True, mode="json")
                for each in getattr(page, kind)[: most - len(found)]
            ]
            if kind == "tools" and page.ttl_ms:  # 0: it says of no time that it holds so long
                fresh = min(max(LEAST_FRESH_SECONDS, page.ttl_ms / 1000), MOST_FRESH_SECONDS)
                self.fresh_seconds = min(self.fresh_seconds, fresh)
            cursor = page.next_cursor
            if cursor is None or len(found) >= most:
                return found, ()
            if cursor in seen:
                return found, ("its list leads back to a page that it had before",)
            seen.add(cursor)
        return found, (f"its list has more than {MAX_PAGES} pages; the rest is left out",)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: ShowProgress | None,
        ask: CallAsker | None = None,
        trace: TraceContext | None = None,
        note: TaskNote | None = None,
    ) -> dict[str, Any]:
        """Call a tool; return its answer in the form of the protocol.

        A task is written down with `note`, and one that is there already is asked about instead.

        Being cancelled tells the server so, and waits for no answer. `ask` puts what the server asks meanwhile
        to people; without it, it is told no.

        Raises:
            ConnectionLost: The server ended before it answered.
            ToolFailure: It answered with an error of the protocol, or can't be reached.
        """
        with self._askers.during(ask), self._wire.calling() as faults:
            task_id = None if note is None else await note.find()
            session, meta = self._client.session, None if trace is None else _meta_of(trace)
            with FollowedCall(note, progress).running():
                called: Awaitable[Any] = (
                    self._tasks.follow(session, task_id)
                    if task_id is not None
                    else self._client.call_tool(
                        name, arguments, progress_callback=progress, meta=cast("Any", meta)
                    )
                )
                return await self._answer(called, faults)

    def _lost_or_failure(
        self, error: MCPError, faults: CallFaults, what: str = "tool"
    ) -> Exception:
        """Return what is raised for an error of the protocol, or below it."""
        if faults.failure is not None:
            return faults.failure
        if error.code == CONNECTION_CLOSED and (
            self.lost.is_set() or faults.is_cut_off or error.message == CLOSED
        ):
            return ConnectionLost()
        return _failure(error, what)

    async def _answer(
        self, asked: Awaitable[Any], faults: CallFaults, what: str = "tool"
    ) -> dict[str, Any]:
        try:
            answer = await asked
        except MCPError as error:
            raise self._lost_or_failure(error, faults, what) from None
        except InputRequiredRoundsExceededError:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR, "The server asks again and again, and answers nothing."
            ) from None
        except ValidationError as error:
            raise _not_protocol(error) from None
        found: dict[str, Any] = answer.model_dump(by_alias=True, exclude_none=True, mode="json")
        return found


def _meta_of(trace: TraceContext) -> dict[str, Any]:
    """Return what tells a server where a call stands in a trace."""
    meta = {"traceparent": trace.traceparent}
    if trace.tracestate:
        meta["tracestate"] = trace.tracestate
    return meta


class ServerWire(Protocol):
    """The way to a server: `streams.LineWire` to a program, `http.HttpWire` over HTTP."""

    @property
    def lost(self) -> trio.Event:
        """Set when the server can't be spoken with any more."""
        ...

    def open(self, doubt: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
        """Give the package's pair of streams around the block.

        `doubt` is called when the server may be another one than before, since it could not be reached.
        """
        ...

    def calling(self) -> AbstractContextManager[CallFaults]:
        """Note what fails below the protocol while a call is made in the block."""
        ...


@asynccontextmanager
async def open_connection(
    wire: ServerWire, name: str, root: str | None = None, *, samples: bool = False
) -> AsyncGenerator[ServerConnection]:
    """Speak to a server around the block; return when it has said which revision it speaks.

    `root` is the folder that it is told to work on, when it asks; `samples` says to it that it may ask for answers of
    the model.

    Raises whatever the package raises; the caller takes it for a broken connection.
    """
    changes, askers = _Changes(), Askers()

    async def heard(message: IncomingMessage) -> None:
        await trio.lowlevel.checkpoint()
        if isinstance(message, ToolListChangedNotification | PromptListChangedNotification):
            changes.note()
        elif isinstance(message, ResourceUpdatedNotification):
            changes.note_resource(message.params.uri)
        elif isinstance(message, LoggingMessageNotification):
            logger.debug("%s says: %.500s", name, message.params.data)

    tasks = Tasks(partial(askers.ask, None))
    client = DeclaringClient(
        wire.open(changes.note),
        client_info=Implementation(name="callboard", version=version("callboard")),
        message_handler=heard,
        elicitation_callback=askers.ask,
        list_roots_callback=None if root is None else lister(root),
        sampling_callback=askers.sample if samples else None,
        cache=None,
        extensions=[tasks],
    )
    async with client:
        # Results are checked by our own validator, which bounds the work that a schema makes.
        client.session.validate_tool_result = _unchecked  # type: ignore[method-assign]
        async with open_service_nursery("the connection is closed") as nursery:
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                nursery.start_soon(_follow, client, changes, name=f"changes of {name}")
                resources = client.server_capabilities.resources
                if resources is not None and resources.subscribe:
                    its = f"resources of {name}"
                    nursery.start_soon(_follow_resources, client, changes, name=its)
            yield ServerConnection(client, wire, changes, askers, tasks)


async def _follow(client: Client, changes: _Changes) -> None:
    """Note changes of the server's tools and prompts as the newest revision tells them; end where it does not."""
    tools, prompts = client.server_capabilities.tools, client.server_capabilities.prompts
    has_tools = tools is not None and bool(tools.list_changed)
    has_prompts = prompts is not None and bool(prompts.list_changed)
    if not (has_tools or has_prompts):
        return
    with suppress(*_NOT_HEARD):
        async with client.listen(
            tools_list_changed=has_tools, prompts_list_changed=has_prompts
        ) as subscription:
            async for _ in subscription:
                changes.note()


async def _follow_resources(client: Client, changes: _Changes) -> None:
    """Have the server of the newest revision say when resources change that were read.

    A new stream for all of them is there before the last one ends: nothing is missed between them.
    """
    before: trio.CancelScope | None = None
    async with trio.open_nursery() as nursery:
        while True:
            await changes.wanted.wait()
            followed, changes.followed = changes.followed, trio.Event()
            changes.wanted = trio.Event()
            now = await nursery.start(_hear, client, changes, name="a stream of resources")
            followed.set()
            if before is not None:
                before.cancel(reason="another stream has them all")
            before = now


async def _hear(
    client: Client, changes: _Changes, *, task_status: trio.TaskStatus[trio.CancelScope]
) -> None:
    """Note what the server says of the resources that were read so far; started when it does, or can't."""
    uris, is_heard = frozenset(changes.read), False
    with trio.CancelScope() as scope:
        await trio.lowlevel.checkpoint()
        with suppress(*_NOT_HEARD):
            async with client.listen(resource_subscriptions=sorted(uris)) as subscription:
                is_heard = True
                task_status.started(scope)
                async for event in subscription:
                    if isinstance(event, ResourceUpdated):
                        changes.note_resource(event.uri)
        changes.read -= uris  # the server ended it: whoever reads one again asks for another stream
    if not is_heard:
        task_status.started(scope)


_NOT_HEARD = (MCPError, ListenNotSupportedError, SubscriptionLost, TimeoutError)
"""Why a server says nothing of changes; a call finds out whether it is there at all."""


class _Changes:
    """Where it is noted that the tools or prompts of a server have changed, or may have, and resources.

    Attributes:
        event: Set when tools or prompts have.
        read: Resources that were read, and of which the server says when they change.
        stale: Those of them that have changed since.
        wanted: Set when one more was read, and a server of the newest revision is to say when it changes.
        followed: Set when it does.
    """

    def __init__(self) -> None:
        self.event = trio.Event()
        self.read: set[str] = set()
        self.stale: set[str] = set()
        self.wanted = trio.Event()
        self.followed = trio.Event()

    def note(self) -> None:
        """Note that tools or prompts have changed."""
        self.event.set()

    def note_resource(self, uri: str) -> None:
        """Note that a resource has changed, or one below it."""
        self.stale.update(
            read for read in self.read if uri == read or uri.startswith(f"{read.rstrip('/')}/")
        )


async def _unchecked(name: str, result: CallToolResult) -> None:
    await trio.lowlevel.checkpoint()


def _not_protocol(error: ValidationError) -> ToolFailure:
    return ToolFailure(
        ErrorType.EXECUTION_ERROR,
        f"The server's answer is not one of the protocol ({error.error_count()} mistakes). "
        "Whether the call was done is not known.",
    )


def _failure(error: MCPError, what: str) -> AnsweredError:
    """Return what the model gets of an error of the protocol, asked for a tool, a resource or a prompt."""
    said, code = redact(error.message)[:MAX_ERROR_CHARS], error.code
    kind, details = ErrorType.EXECUTION_ERROR, {"code": code}
    match code:
        case _ if code == INVALID_PARAMS:
            kind, details = ErrorType.VALIDATION_ERROR, {}
            said = f"The server refuses the arguments: {said}"
        case _ if code == METHOD_NOT_FOUND:
            kind = ErrorType.TOOL_NOT_FOUND if what == "tool" else kind
            said = f"The server has no such {what}: {said}"
        case _ if code == REQUEST_TIMEOUT:
            kind, details = ErrorType.TIMEOUT, {}
            said = f"The server did not answer in time: {said}"
        case _:
            said = f"The server failed ({code}): {said}"
    return AnsweredError(code, kind, said, **details)
