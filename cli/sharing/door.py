"""Lets other commands of the user into the runtime of a command, which they find as they find any daemon.

It listens on a port of loopback that nobody knows, with a token that ends with the process. The gateway
itself is imported when somebody comes: mostly nobody does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import trio

from ...config.daemon_file import DaemonFile, RunningDaemon
from ...config.files import config_file
from ...config.keys.tokens import Credential, local_credential
from ...config.settings import Settings
from ...embedding.runtime import Runtime, host_of
from ...runtime.errors import CallboardError
from ...runtime.kernel.service_nursery import open_service_nursery
from ...runtime.redaction import redactor

if TYPE_CHECKING:
    from ...config.sections import ServerSettings
    from ...embedding.configuration import Configuration
    from ...gateway.gateway import Gateway

HOST = "127.0.0.1"
LOOK_SECONDS = 0.1
"""Time between two looks at the turns that still run."""
COMING_LOOKS = 10
"""Looks until who has just connected has begun a turn; a chat in which nothing runs takes over afterwards."""
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What asks a process for its end that nobody waits for."""
WAYS_OUT = "Ctrl-Z and `bg` give the prompt back, Ctrl-C ends them"


class Door:
    """A runtime of this process that other commands find.

    Attributes:
        gateway: Serves them, once somebody has come.
        hurry: Set when what runs is to be cancelled, as this process ends.
        seconds: The time that turns have to end by themselves.
    """

    def __init__(self, runtime: Runtime, seconds: float) -> None:
        self.runtime = runtime
        self.gateway: Gateway | None = None
        self.hurry = trio.Event()
        self.seconds = seconds

    @property
    def is_wanted_to_end(self) -> bool:
        """Whether another command, or a signal, has asked for the end."""
        return self.gateway is not None and self.gateway.stopped.is_set()

    def ask_to_end(self) -> bool:
        """Ask for the end, the second time at once; return whether that was new."""
        assert self.gateway is not None
        is_news = not self.hurry.is_set()
        (self.hurry if self.is_wanted_to_end else self.gateway.stopped).set()
        return is_news

    async def drain(self) -> None:
        """Let turns end, as any daemon does, or cancel them."""
        from ...gateway.lifecycle import drain

        assert self.gateway is not None
        self.gateway.announce_end()
        await drain(self.runtime, self.seconds, self.hurry)

    @property
    def has_clients(self) -> bool:
        """Whether any command or program is connected."""
        return self.gateway is not None and bool(self.gateway.daemon.connections)

    async def at_work(self) -> set[str]:
        """Return the sessions of others that work, or are about to; none that only waits for a person."""
        if self.gateway is None:
            return set()
        from ...gateway.lifecycle import working

        return await working(self.runtime, host_of(self.runtime).given.working)

    async def wait_free(self, session_id: str) -> None:
        """Return when no other command works in a session."""
        given = host_of(self.runtime).given
        while self.gateway is not None and session_id in given.working:  # noqa: ASYNC110  nothing tells of it
            await trio.sleep(LOOK_SECONDS)

    async def others_at_work(self) -> str:
        """Return which sessions of others work, or are about to; empty when none does."""
        for _ in range(COMING_LOOKS):
            if not self.has_clients or await self.at_work():
                break
            await trio.sleep(LOOK_SECONDS)
        return ", ".join(sorted(await self.at_work()))

    async def wait_others(self, notice: Callable[[str], None]) -> None:
        """Stay until no turn of another command works any more, and say so."""
        if sessions := await self.others_at_work():
            notice(
                "this command stays until the turns of other commands in it have ended: "
                f"{sessions} ({WAYS_OUT})"
            )
            await self.until_left()

    async def until_left(self) -> None:
        """Return when no turn of another command works any more."""
        while await self.at_work():  # noqa: ASYNC110  nothing tells of it
            await trio.sleep(LOOK_SECONDS)

    async def serve_left(self) -> None:
        """Stay until no turn of another command works any more, or a signal has asked for the end, as of any daemon.

        For a process that nobody waits for: its signals are about the turns of others.
        """
        assert self.gateway is not None
        with trio.open_signal_receiver(*ENDING) as signals:
            async with open_service_nursery("no turn of others works") as nursery:
                nursery.start_soon(self.obey, signals, name="signals")
                nursery.start_soon(self._until_left, nursery.cancel_scope, name="turns of others")
                await self.gateway.stopped.wait()
                await self.drain()

    async def _until_left(self, scope: trio.CancelScope) -> None:
        await self.until_left()
        scope.cancel(reason="no turn of others works")

    async def obey(self, signals: AsyncIterator[int]) -> None:
        """Ask for the end with each signal, until cancelled."""
        async for _ in signals:
            self.ask_to_end()


async def end_below(runtime: Runtime, session_id: str, reason: str) -> None:
    """End what runs below a session though no turn of it does; results are dropped, and wake nobody."""
    await host_of(runtime).tree.detached.cancel_below(session_id, session_id, reason)


@asynccontextmanager
async def open_door(
    runtime: Runtime,
    settings: Settings,
    data: Path,
    command: Literal["chat", "run", "acp", "mcp"],
    *,
    config: Path | None = None,
    roots: tuple[str, ...] = (),
    is_at_once: bool = False,
) -> AsyncGenerator[Door]:
    """Let other commands in around the block; with `is_at_once`, the gateway is there from the beginning.

    Raises:
        StorageError: The file by which they find it can't be written.
    """
    host = host_of(runtime)
    server = msgspec.structs.replace(settings.server, host=HOST, port=0, roots=roots)
    host.force.settings = msgspec.structs.replace(host.settings, server=server)
    local, token = local_credential()
    redactor.add(token)
    listeners = await trio.open_tcp_listeners(0, host=HOST)
    port = listeners[0].socket.getsockname()[1]
    if (guard := host.guard) is not None:
        guard.refuse_also([(HOST, port), ("localhost", port)])  # no tool comes in
    running = RunningDaemon(
        url=f"ws://{HOST}:{port}/ws",
        pid=os.getpid(),
        token=token,
        started_at_ms=time.time_ns() // 1_000_000,
        command=command,
        drain_seconds=server.drain_seconds,
        configuration=str(config_file(config).resolve()),
    )
    door = Door(runtime, server.drain_seconds)
    with ExitStack() as sockets:
        for listener in listeners:
            sockets.callback(listener.socket.close)
        async with open_service_nursery("the command is over") as nursery:
            serve = partial(_serve, door, runtime, server, data, local, listeners, config)
            if is_at_once:
                await nursery.start(serve, _nobody, name="door")
            else:
                come = partial(trio.lowlevel.wait_readable, listeners[0].socket)
                nursery.start_soon(serve, come, name="door")  # noqa: ASYNC113  it begins when somebody comes
            with DaemonFile(data, running):
                yield door


async def _nobody() -> None:
    await trio.lowlevel.checkpoint()


async def _serve(
    door: Door,
    runtime: Runtime,
    server: ServerSettings,
    data: Path,
    local: Credential,
    listeners: list[trio.SocketListener],
    config: Path | None,
    come: Callable[[], Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    await come()
    from ...gateway.gateway import open_gateway
    from ...gateway.restart import restart_on_crash

    async with open_gateway(runtime, server, data, local=local, listeners=listeners) as gateway:
        daemon = gateway.daemon
        daemon.configuration = configuration = _configuration(config, data, server)
        with suppress(CallboardError):  # logged, and the last good one holds
            # It may have changed since this command read it, which may have been long ago.
            await configuration.reload(host_of(runtime))
            await runtime.agents.finish_deletions()
        door.gateway = gateway
        task_status.started()
        watch = partial(configuration.watch, host_of(runtime))
        await restart_on_crash("configuration files", watch)


def _configuration(config: Path | None, data: Path, server: ServerSettings) -> Configuration:
    """Return the configuration as its files have it from now on; its socket stays as it is."""
    from ...config.files import load_settings, watched_files
    from ...embedding.configuration import Configuration
    from ...providers.catalog.book import ProviderBook

    def load() -> Settings:
        return msgspec.structs.replace(load_settings(config), server=server)

    file = config_file(config)
    book = ProviderBook(config, data, os.environ)
    return Configuration(load, watched_files(file), book)
