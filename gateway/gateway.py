"""Serve a runtime to clients: listen, accept connections, and end in order.

acceptor        ends first: nobody new is accepted
connections     are told, and still get the events of turns that end
feeds           end last
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import trio

from ..config.keys.tokens import Credential, Credentials
from ..config.sections import ServerSettings
from ..config.setting_rows import SettingsChange
from ..config.validation import checked
from ..embedding.runtime import Runtime, host_of
from ..runtime.disk.own_folders import OwnFolders
from ..runtime.errors import ConflictError, ValidationError
from .agui.routes import agui_routes
from .connection.method_table import MethodTable
from .console.logins import ConsoleAccess
from .console.pages import ConsolePages
from .door.authentication import state_of, watch_credentials
from .door.exchange import Route
from .door.monitoring import plain_routes
from .door.rules import LOCAL_NAMES, DoorRules, door_rules
from .door.server import Server
from .feeds.session_feed import SessionFeeds
from .feeds.topic_feed import TopicFeed
from .hooks.deliveries import Hooks
from .http_turns import HttpTurns
from .logins import McpLogins
from .mcp.endpoint import McpEndpoint
from .methods.all import all_methods
from .openai.routes import openai_routes
from .restart import restart_on_crash
from .shared.state import DaemonState
from .shared.workspaces import chosen_workspace

BACKLOG = 256
"""Connections that the kernel queues until they are accepted."""
FAREWELL_SECONDS = 2.0
"""The time to send outboxes and close connections."""


class Gateway:
    """A runtime that is served to clients; made by `open_gateway`.

    Attributes:
        port: The port that it listens on.
        stopped: Set when a client or a signal asked for the end.
    """

    def __init__(
        self, daemon: DaemonState, turns: HttpTurns, port: int, stopped: trio.Event
    ) -> None:
        self.daemon = daemon
        self.turns = turns
        self.port = port
        self.stopped = stopped

    def announce_end(self) -> None:
        """Tell all clients that the daemon stops; they still get the events of turns that end."""
        self.daemon.is_stopping = True
        self.turns.announce_end()
        for connection in list(self.daemon.connections):
            connection.tell("runtime/stopping", {"seconds": self.daemon.settings.drain_seconds})


@asynccontextmanager
async def open_gateway(
    runtime: Runtime,
    settings: ServerSettings,
    data: Path,
    *,
    local: Credential | None = None,
    listeners: list[trio.SocketListener] | None = None,
) -> AsyncGenerator[Gateway]:
    """Serve clients around the block.

    Args:
        runtime: The runtime; the caller closes it.
        settings: Address, limits and timeouts.
        data: The folder with the file of tokens.
        local: The credential of this user's own commands, which is in no file of tokens.
        listeners: The result of `listen`, if it was called already; closed at the end.

    Raises:
        ConflictError: The port is taken.
        ValidationError: A setting is not what it may be, or the address is not this machine's.
    """
    settings = checked(settings, "settings")
    host, stopped = host_of(runtime), trio.Event()
    listeners = await listen(settings) if listeners is None else listeners
    port = listeners[0].socket.getsockname()[1]
    raised: BaseException | None = None
    async with trio.open_nursery() as feeds:
        daemon = DaemonState(
            runtime,
            settings,
            Credentials(data),
            SessionFeeds(host.directory, feeds),
            TopicFeed(runtime.store, host.inboxes, feeds),
            OwnFolders(data),
            stopped.set,
            local,
            await runtime.store.epoch(),
        )
        runtime.schedules.choose_folder = partial(chosen_workspace, daemon)
        table = all_methods()
        turns = HttpTurns(daemon, feeds)
        mcp = McpEndpoint(daemon, table, turns)
        daemon.logins = logins = McpLogins(runtime, lambda: daemon.settings, port)
        console = ConsoleAccess(daemon, data, port, ConsolePages(daemon))
        daemon.console = console
        also = openai_routes(daemon, turns) | agui_routes(daemon, table, turns)
        also |= mcp.routes | logins.routes | console.routes
        server = _server(daemon, table, settings, port, also)
        forget = host.force.watch(partial(_follow, daemon))
        feeds.start_soon(_count, daemon, name="counts of events, and the log")
        feeds.start_soon(restart_on_crash, "webhooks", daemon.webhooks.run, name="webhooks")
        feeds.start_soon(restart_on_crash, "MCP", mcp.run, name="MCP")
        comments = server.comments.run
        feeds.start_soon(restart_on_crash, "comments", comments, name="comments of streams")
        feeds.start_soon(restart_on_crash, "logins", logins.run, name="logins")
        if host.settings.sessions.titles is None:
            titles = partial(host.titles.serve, asks_local=False)
            feeds.start_soon(restart_on_crash, "titles", titles, name="titles")
        async with trio.open_nursery() as connections:
            watch = partial(watch_credentials, daemon)
            feeds.start_soon(
                restart_on_crash, "the watch of the tokens", watch, name="watch of the tokens"
            )
            if (node := host.plan.node) is not None:
                from .relays.relays import Relays

                daemon.relays = relays = Relays(daemon, node, host.directory, table)
                daemon.feeds.follow = relays.follow
                feeds.start_soon(restart_on_crash, "relays", relays.run, name="relays")
                from .door.shared_tokens import SharedTokens  # here: most daemons are alone
                from .store_notices import tell_of_store

                tokens = SharedTokens(
                    node, daemon.credentials, state_of, lambda: daemon.tokens_changed.set()
                )
                feeds.start_soon(
                    restart_on_crash, "the tokens of the cluster", tokens.run, name="shared tokens"
                )
                tell = partial(tell_of_store, daemon, node)
                feeds.start_soon(restart_on_crash, "notices of the store", tell, name="store")
            acceptor = await connections.start(_accept, server, listeners, connections)
            try:
                yield Gateway(daemon, turns, port, stopped)
            except BaseException as error:  # noqa: ASYNC103  raised again below
                raised = error
            finally:
                acceptor.cancel(reason="the gateway closes")
                server.farewell()
                connections.cancel_scope.deadline = trio.current_time() + FAREWELL_SECONDS
        forget()
        feeds.cancel_scope.cancel(reason="the gateway closes")
    if raised is not None:
        raise raised


async def _count(daemon: DaemonState) -> None:
    forget = host_of(daemon.runtime).inboxes.watch(daemon.counts.take)
    try:
        with daemon.log_end.kept():
            await trio.sleep_forever()
    finally:
        forget()


def _server(
    daemon: DaemonState,
    table: MethodTable,
    settings: ServerSettings,
    port: int,
    also: dict[str, Route],
) -> Server:
    routes = plain_routes(daemon) | Hooks(daemon).routes | also
    server = Server(daemon, table, _rules(settings, port, _own_url(daemon)), routes)
    daemon.take_settings = partial(_take_settings, daemon, server, settings.host, port)
    if (guard := host_of(daemon.runtime).guard) is not None:
        # No tool may connect to the daemon itself, whatever the operator allows.
        guard.refuse_also((name, port) for name in {settings.host, *LOCAL_NAMES})
    return server


def _rules(settings: ServerSettings, port: int, own_url: str) -> DoorRules:
    public = () if settings.public_url is None else (settings.public_url,)
    reached = (*public, own_url) if own_url else public
    names = (*settings.allowed_hosts, *(urlsplit(url).netloc for url in reached))
    return door_rules(settings.host, port, names, (*settings.allowed_origins, *public))


def _take_settings(
    daemon: DaemonState, server: Server, host: str, port: int, new: ServerSettings
) -> None:
    """Apply new settings, but for the address and port, which stay."""
    daemon.settings = daemon.quotas.settings = new
    rules = _rules(msgspec.structs.replace(new, host=host), port, _own_url(daemon))
    server.take_settings(new, rules)


def _own_url(daemon: DaemonState) -> str:
    """Return where the other nodes of the cluster reach this daemon."""
    cluster = host_of(daemon.runtime).settings.cluster
    return cluster.url if cluster.node else ""


def _follow(daemon: DaemonState, change: SettingsChange) -> None:
    """Have the door and the log follow the configuration in force."""
    daemon.take_settings(change.settings.server)
    set_log_level(change.settings.server)


def set_log_level(settings: ServerSettings) -> None:
    """Set the level of callboard's own loggers."""
    logging.getLogger("callboard").setLevel(settings.log_level.upper())


async def _accept(
    server: Server,
    listeners: list[trio.SocketListener],
    connections: trio.Nursery,
    *,
    task_status: trio.TaskStatus[trio.CancelScope],
) -> None:
    with trio.CancelScope() as scope:
        task_status.started(scope)
        await trio.serve_listeners(server.handle, listeners, handler_nursery=connections)


async def listen(settings: ServerSettings) -> list[trio.SocketListener]:
    """Bind the port; raise `ConflictError` if it is taken, `ValidationError` if it cannot be."""
    where = f"{settings.host}:{settings.port}"
    try:
        return await trio.open_tcp_listeners(settings.port, host=settings.host, backlog=BACKLOG)
    except OSError as error:
        if error.errno in {98, 48}:
            raise ConflictError(
                f"{where} is taken: another program listens there, maybe a callboard with another data folder. "
                "Choose another port with --port."
            ) from error
        raise ValidationError(
            f"cannot listen on {where}: {error.strerror or error}. Choose another address with --host."
        ) from error
