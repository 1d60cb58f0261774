"""Where a chat finds its daemon: the one that runs on the data folder, or one inside the command itself.

Either way it is spoken to over the websocket. The command's own listens on a port of loopback that
nobody knows, with a token that ends with the process; other commands of the user find it as they
find any daemon, until the chat leaves.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from ...config.daemon_file import RunningDaemon, find_daemon
from ...config.settings import DialectWord, Settings
from ...runtime.budget import Budget
from ...runtime.disk.data_lock import DataInUse
from ...runtime.errors import ConflictError, NotFoundError, StorageError
from ...runtime.history import Attachment
from ...runtime.redaction import Secret
from ...runtime.turn_options import TurnOptions

if TYPE_CHECKING:
    from ...config.sections import ServerSettings
    from ...embedding.runtime import Runtime
    from ...gateway.gateway import Gateway
    from ...gateway.shared.configuration import Configuration

AGAIN_SECONDS = 0.25
"""Time between two looks for a daemon."""
APPEAR_SECONDS = 10.0
"""Time for a process that has the data folder to say where it listens: it may be starting."""


class OwnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a daemon inside the command ends when another command stops it.

    Attributes:
        wanted: Set when it must stop.
        hurry: Set when that is asked for again: what runs is cancelled.
        seconds: The time that turns have to end.
        drain: Lets turns end, as any daemon does, or cancels them.
    """

    wanted: trio.Event
    hurry: trio.Event
    seconds: float
    drain: Callable[[], Awaitable[None]]

    def ask(self) -> bool:
        """Ask for the end, the second time at once; return whether that was new."""
        is_news = not self.hurry.is_set()
        (self.hurry if self.wanted.is_set() else self.wanted).set()
        return is_news


class ChatDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that can be connected to.

    Attributes:
        url: The URL of its websocket.
        token: Lets the commands of its user in.
        own_end: How the command's own daemon ends; `None` when it is another's.
    """

    url: str
    token: Secret
    own_end: OwnEnd | None = None

    @property
    def is_own(self) -> bool:
        """Whether sessions end with this process."""
        return self.own_end is not None


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `callboard chat`.

    Attributes:
        workspace: Where new sessions work; a root of a daemon inside the command.
        model: The one that new sessions are begun with.
        session: An id, the beginning of one, or `last`.
        config: The file that the settings were read from; `None` is the usual one.
        turn: What each prompt changes of the agent.
        budget: What each turn may use.
        session_budget: What a session may use, from now on.
        prompt: What is sent at once.
        attachments: The files that go with the first prompt.
        base_url, dialect: Where the model is, for a daemon inside the command.
    """

    workspace: Path
    agent: str = "general"
    model: str | None = None
    session: str | None = None
    config: Path | None = None
    turn: TurnOptions = TurnOptions()
    budget: Budget | None = None
    session_budget: Budget | None = None
    prompt: str | None = None
    attachments: tuple[Attachment, ...] = ()
    base_url: str | None = None
    dialect: DialectWord | None = None


def find_chat_daemon(data: Path) -> ChatDaemon | None:
    """Return the daemon that runs on a data folder, or `None`."""
    try:
        running = find_daemon(data)
    except StorageError:
        return None  # it is being written or removed just now
    return None if running is None else ChatDaemon(url=running.url, token=running.token)


@asynccontextmanager
async def open_chat_daemon(
    options: ChatOptions, settings: Settings, data: Path
) -> AsyncGenerator[ChatDaemon]:
    """Give a daemon for the block: the one that runs, or one of this process.

    Raises:
        DataInUse: Another process has the data folder, and is not a daemon.
        CallboardError: No runtime can be opened.
    """
    async with AsyncExitStack() as stack:
        daemon, held = find_chat_daemon(data), None
        if daemon is None:
            try:
                own = _open_own_daemon(options, settings, data)
                daemon = await stack.enter_async_context(own)
            except DataInUse as error:
                held = error
        if daemon is None:
            daemon = await wait_chat_daemon(data, APPEAR_SECONDS)
        if daemon is None:
            raise held or NotFoundError(f"no daemon can be reached on {data}")
        if options.base_url is not None and not daemon.is_own:
            raise ConflictError(
                "--base-url is not for a chat with a daemon that runs: name the place first, `callboard "
                "providers add NAME --base-url URL`, and then --model NAME/MODEL."
            )
        yield daemon


async def wait_chat_daemon(data: Path, seconds: float) -> ChatDaemon | None:
    """Wait for a daemon on the data folder; return `None` when there is none in time."""
    with trio.move_on_after(seconds):
        while True:
            if (found := find_chat_daemon(data)) is not None:
                return found
            await trio.sleep(AGAIN_SECONDS)
    return None


@asynccontextmanager
async def _open_own_daemon(
    options: ChatOptions, settings: Settings, data: Path
) -> AsyncGenerator[ChatDaemon]:
    # Here: with a daemon, a chat needs none of it.
    from ...config.daemon_file import DaemonFile
    from ...config.keys.tokens import local_credential
    from ...embedding.runtime import open_runtime
    from ...gateway.gateway import open_gateway
    from ...gateway.lifecycle import websocket_url
    from ...gateway.shared.clients_channel import ClientsChannel
    from ...runtime.redaction import redactor

    server = msgspec.structs.replace(
        settings.server, host="127.0.0.1", port=0, roots=(str(options.workspace),)
    )
    local, token = local_credential()
    redactor.add(token)
    async with (
        open_runtime(
            model=options.model,
            base_url=options.base_url,
            dialect=options.dialect,
            workspace=options.workspace,
            data=data,
            channel=ClientsChannel(),
            settings=settings,
        ) as runtime,
        open_gateway(runtime, server, data, local=local) as gateway,
    ):
        gateway.daemon.configuration = _configuration(options.config, data, server)
        url = websocket_url(server.host, gateway.port)
        running = RunningDaemon(
            url=url,
            pid=os.getpid(),
            token=token,
            started_at_ms=time.time_ns() // 1_000_000,
            is_chat=True,
            drain_seconds=server.drain_seconds,
        )
        with DaemonFile(data, running):
            yield ChatDaemon(url=url, token=token, own_end=_own_end(runtime, gateway, server))


def _own_end(runtime: Runtime, gateway: Gateway, server: ServerSettings) -> OwnEnd:
    from ...gateway.lifecycle import drain

    hurry = trio.Event()

    async def end() -> None:
        gateway.announce_end()
        await drain(runtime, server.drain_seconds, hurry)

    return OwnEnd(wanted=gateway.stopped, hurry=hurry, seconds=server.drain_seconds, drain=end)


def _configuration(config: Path | None, data: Path, server: ServerSettings) -> Configuration:
    """Return the configuration that other commands may change meanwhile; its socket stays as it is."""
    from ...config.files import MANAGED_NAME, config_file, load_settings
    from ...gateway.shared.configuration import Configuration
    from ...providers.catalog.book import ProviderBook

    def load() -> Settings:
        return msgspec.structs.replace(load_settings(config), server=server)

    file = config_file(config)
    book = ProviderBook(config, data, os.environ)
    return Configuration(load, (file, file.with_name(MANAGED_NAME)), book)
