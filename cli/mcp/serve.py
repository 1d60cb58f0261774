"""`callboard mcp serve`: callboard as an MCP server on stdin and stdout, for programs that start their servers.

a daemon that runs, or this command's own ──► client ──► `gateway.mcp` ◄──► the program that started it
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from ...client.client import Client, connect_here
from ...config.files import load_settings
from ...config.sections import McpServerSettings
from ...config.settings import Settings
from ...gateway.mcp.desk import ChangedSessions, HeardEvents
from ...gateway.mcp.stdio import serve_streams
from ...providers.catalog.table import mask_environment_keys
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import CallboardError
from ...runtime.identity import new_id
from ...runtime.kernel.service_nursery import open_service_nursery
from ...runtime.redaction import redacting_logger
from ...runtime.store.feeds import Topic
from ...runtime.wire.topics import TopicUpdate
from ..exit_codes import ANSWERED, FAILED, INTERRUPTED
from ..log_file import start_logging
from ..sharing.holder import holding
from ..sharing.own_runtime import OwnRuntime
from ..terminal.complaint import complain

logger = redacting_logger(__name__)

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
READ_BYTES = 64 * 1024
LEAVE_SECONDS = 5.0
"""Time for this command's daemon to let others finish, when its client has gone."""

Result = TypeVar("Result")


class RemoteDesk:
    """The desk of this user, over the websocket of a daemon.

    Args:
        client: The daemon.
        settings: What is offered.
    """

    owner = "terminal"

    def __init__(self, client: Client, settings: McpServerSettings) -> None:
        self.settings = settings
        self.changes = ChangedSessions()
        self._client = client
        self._following: dict[str, trio.Lock] = {}

    def may(self, method: str) -> bool:
        """Return whether the daemon lets this user call a method."""
        return method in self._client.welcome.methods

    async def request(self, method: str, params: msgspec.Struct, result: type[Result]) -> Result:
        """Call a method; what begins something is done once, also over a broken connection."""
        key = new_id("request") if method in {"session/new", "session/prompt"} else None
        return await self._client.request(method, params, result, key=key)

    @asynccontextmanager
    async def events(
        self, session_id: str, after_seq: int | None = None
    ) -> AsyncGenerator[HeardEvents]:
        """Follow a session. A connection does so once: a second one waits, as its turn would."""
        lock = self._following.setdefault(session_id, trio.Lock())
        try:
            async with lock:
                epoch = None if after_seq is None else self._client.welcome.epoch
                feed = self._client.events(session_id, after_seq=after_seq, epoch=epoch)
                async with feed as events:
                    yield events
        finally:
            if not lock.locked():
                self._following.pop(session_id, None)

    async def run(self) -> None:
        """Say which sessions have changed, from the first listener on: those whose turns begin or end, or that are named."""
        await self.changes.wanted.wait()
        try:
            async with self._client.topic(Topic.SESSIONS) as topic:
                async for heard in topic:
                    if isinstance(heard, TopicUpdate):
                        self.changes.note(heard.update.session_id)
        except CallboardError as error:
            logger.warning("listeners hear no more of sessions: %s", error)

    def at_work(self) -> AbstractContextManager[None]:
        """Do nothing: the rights are this user's own."""
        return nullcontext()


class StandardPipes:
    """This process' stdin and stdout."""

    def __init__(self, stdin: trio.abc.ReceiveStream, stdout: int) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self.gone = trio.Event()

    async def receive_some(self) -> bytes:
        """Return some of what the client wrote; `b""` at its end."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            return bytes(await self._stdin.receive_some(READ_BYTES))
        return b""

    async def write(self, text: bytes) -> None:
        """Write to the client; raise `BrokenPipeError` when it does not read any more."""
        await trio.to_thread.run_sync(self._write, text, abandon_on_cancel=True)

    def _write(self, text: bytes) -> None:
        view = memoryview(text)
        while view:
            try:
                view = view[os.write(self._stdout, view) :]
            except BlockingIOError:  # somebody made the shared descriptor non-blocking
                select.select([], [self._stdout], [])

    def kill(self, why: str) -> None:
        """Listen no more."""
        self.gone.set()


def serve(config: Path | None, data: Path, tools: tuple[str, ...], agents: tuple[str, ...]) -> int:
    """Serve the program that started this command, until it has gone."""
    forbid_core_dumps()
    settings = load_settings(config)
    start_logging(data, verbose=False)
    mask_environment_keys(settings, os.environ)
    own = OwnRuntime(
        data=data, settings=settings, command="mcp", workspace=Path.cwd(), config=config
    )
    return trio.run(_serve, own, offered_settings(settings, tools, agents))


def offered_settings(
    settings: Settings, tools: tuple[str, ...], agents: tuple[str, ...]
) -> McpServerSettings:
    """Return what is offered: as configured, but for what the command line says."""
    its = settings.mcp_server
    return msgspec.structs.replace(
        its, enabled=True, tools=tools or its.tools, agents=agents or its.agents
    )


async def _serve(own: OwnRuntime, offered: McpServerSettings) -> int:
    # Nothing but the protocol's own lines goes to the client: what else is printed goes to stderr.
    stdout = os.dup(1)
    os.dup2(2, 1)
    ended: list[int] = []
    raised: CallboardError | None = None
    with trio.open_signal_receiver(*HANDLED) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, signals, nursery.cancel_scope, ended, name="signals")
            try:
                await _speak(own, offered, stdout)
            except CallboardError as error:
                raised = error
            nursery.cancel_scope.cancel(reason="the client has gone")
    if raised is not None:
        complain(str(raised))
        return FAILED
    return ended[0] if ended else ANSWERED


async def _watch(signals: AsyncIterator[int], scope: trio.CancelScope, ended: list[int]) -> None:
    async for number in signals:
        ended.append(INTERRUPTED)
        scope.cancel(reason=signal.Signals(number).name)


async def _speak(own: OwnRuntime, offered: McpServerSettings, stdout: int) -> None:
    async with (
        holding(own, logger.warning) as holder,
        connect_here(own.data, holder.rules.check) as client,
        trio.lowlevel.FdStream(os.dup(0)) as stdin,
    ):
        workspace = await _workspace(client, own)
        desk = RemoteDesk(client, msgspec.structs.replace(offered, workspace=workspace))
        async with open_service_nursery("the client has gone") as nursery:
            nursery.start_soon(desk.run, name="changes of sessions")
            await serve_streams(desk, StandardPipes(stdin, stdout))
        with trio.move_on_after(LEAVE_SECONDS):
            await holder.wait_others(logger.warning)


async def _workspace(client: Client, own: OwnRuntime) -> str | None:
    """Return where sessions work: the folder that the client started this in, where that may be a workspace."""
    folder = str(own.workspace)
    try:
        await client.upkeep.add_root(folder)
    except CallboardError as error:
        logger.warning("sessions get folders of their own: %s", error)
        return None
    return folder
