"""A daemon inside a command, which other commands of the user find as they find any.

It listens on a port of loopback that nobody knows, with a token that ends with the process.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from ...config.daemon_file import RunningDaemon
from ...config.settings import DialectWord, Settings
from ...runtime.budget import Budget
from ...runtime.history import Attachment
from ...runtime.turn_options import TurnOptions

if TYPE_CHECKING:
    from ...config.sections import ServerSettings
    from ...embedding.runtime import Runtime
    from ...gateway.gateway import Gateway
    from ...gateway.shared.configuration import Configuration


class OwnDaemon(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon inside the command, and how it ends when another command stops it.

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


@asynccontextmanager
async def open_own_daemon(
    options: ChatOptions, settings: Settings, data: Path
) -> AsyncGenerator[OwnDaemon]:
    """Be the daemon of a data folder around the block.

    Raises:
        DataInUse: Another process has the data folder.
        CallboardError: No runtime can be opened.
    """
    # Here: with a daemon, a command needs none of it.
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
            command="chat",
            drain_seconds=server.drain_seconds,
        )
        with DaemonFile(data, running):
            yield _own(runtime, gateway, server)


def _own(runtime: Runtime, gateway: Gateway, server: ServerSettings) -> OwnDaemon:
    from ...gateway.lifecycle import drain

    hurry = trio.Event()

    async def end() -> None:
        gateway.announce_end()
        await drain(runtime, server.drain_seconds, hurry)

    return OwnDaemon(wanted=gateway.stopped, hurry=hurry, seconds=server.drain_seconds, drain=end)


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
