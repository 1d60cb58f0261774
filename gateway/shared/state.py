"""The state that all connections of a daemon share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import trio

from ...config.keys.console_logins import ConsoleLogin
from ...config.keys.tokens import Credential, Credentials, is_token_of
from ...config.mcp.settings import McpSettings
from ...config.mcp.wire import McpLogin
from ...config.sections import ServerSettings
from ...embedding.configuration import Configuration
from ...embedding.list_changes import StatusWatch
from ...embedding.runtime import Runtime, configuration_of, give_configuration, host_of
from ...runtime.disk.own_folders import OwnFolders
from ...runtime.errors import OverloadedError
from ...runtime.wire.daemon import ConsoleTicket
from ...runtime.wire.fields import Role
from ...runtime.wire.hello import WireNode
from ...runtime.wire.topics import StoreAway
from ..feeds.session_feed import SessionFeeds
from ..feeds.topic_feed import TopicFeed
from ..feeds.webhooks import Webhooks
from ..quotas import Quotas
from .event_counts import EventCounts
from .heartbeat import Heartbeat
from .idempotency import IdempotentRequests
from .log_end import LogEnd
from .stall_watch import StallWatch
from .uploads import Uploads

MAX_ADDED_ROOTS = 1000
"""Roots that commands may add while the daemon runs."""


class OpenConnection(Protocol):
    """What other parts of the daemon need of a connection."""

    credential: Credential
    login: ConsoleLogin | None

    @property
    def waiting_size(self) -> int:
        """Bytes that wait to be sent."""
        ...

    def close(self, code: int, reason: str, *, at_once: bool = False) -> None:
        """End it: nothing more is read, and `at_once` leaves out what was not sent; never wait."""
        ...

    def tell(self, method: str, params: object) -> None:
        """Send a notification, as far as there is room."""
        ...


class Logins(Protocol):
    """What methods need of the logins at servers of MCP; see `gateway.logins`."""

    async def begin(self, server: McpSettings) -> McpLogin:
        """Return where a person logs in."""
        ...

    async def finish(self, ident: str) -> None:
        """Wait until a login is over."""
        ...


class Console(Protocol):
    """What other parts of the daemon need of its web console; see `gateway.console`."""

    def ticket(self, credential: Credential, role: Role | None) -> ConsoleTicket:
        """Return a ticket with which a browser logs in once."""
        ...

    def link(self, url: str) -> str:
        """Return an address at which this user's browser logs in; empty without a console."""
        ...

    async def admitted(
        self, key: str, cookies: tuple[str, ...], origin: str | None, host: str | None
    ) -> tuple[Credential, ConsoleLogin] | None:
        """Return as whom a page acts that shows both halves of its login."""
        ...

    async def keep(self, login: ConsoleLogin, connection: OpenConnection) -> None:
        """Note that a login is used, as long as its page is open."""
        ...

    async def list(self) -> tuple[ConsoleLogin, ...]:
        """Return the logins that hold."""
        ...

    async def end(self, is_meant: Callable[[ConsoleLogin], bool]) -> int:
        """Log out all that are meant; return how many."""
        ...


class OtherNodes(Protocol):
    """What other parts of the daemon need of the relays to other nodes of its cluster; see `gateway.relays`.

    Attributes:
        accepted: The connections of nodes that ask here.
    """

    accepted: set[OpenConnection]

    async def call(self, method: Any, caller: Any, params: msgspec.Struct) -> Any:
        """Have a request done by the node that owns the session that it is about."""
        ...

    def nodes(self) -> tuple[WireNode, ...]:
        """Return the nodes that are up, as clients are told of them."""
        ...

    async def admit(self, ticket: str) -> tuple[Any, str]:
        """Return which node shows a ticket, and the proof for it; raise `AuthError` or `StorageError`."""
        ...

    def connection(self, life: Any, proof: str, socket: Any, stream: Any, quota: Any) -> Any:
        """Return the connection of a node that was admitted."""
        ...


class DaemonState:
    """A runtime with a door.

    Attributes:
        runtime: What clients control.
        settings: How the door is kept.
        credentials: Who may come in.
        tokens_changed: Set when the file of the credentials was changed just now: it is looked at again at once.
        feeds: Events of single sessions, for subscribers.
        topics: Events of all sessions by topic, for subscribers.
        webhooks: What tells other systems of events.
        logins: Logins at servers of MCP that clients begin; the gateway gives it.
        console: The web console, and who is logged in there; the gateway gives it.
        relays: To the other nodes of its cluster; `None` where it is alone.
        local: The credential of this user's own commands; `None` where there are none.
        epoch: Of the store.
        repeats: Requests that may come twice.
        uploads: Files that clients send in parts.
        connections: Those that are open.
        exchanges: Requests of HTTP that are being answered, by what ends them.
        quotas: What the connections of each token use.
        folders: Where sessions get a folder of their own, when no workspace was named.
        is_stopping: Whether new connections and inputs are refused.
        known_seq: The last one of all topics that a connection has read.
        store_unavailable: Said to clients since the database of the cluster does not answer; `None` while it does.
        counts: What has happened since.
        log_end: What was logged last.
        status_watch: Finds what has changed of the status, for those who follow it.
        heartbeat, stall_watch: Whether it lives, where it is a process of its own.
        take_settings: Has other settings of the door hold; the door itself gives it.
        started_at: When it began, on the monotonic clock.
    """

    logins: Logins
    console: Console
    relays: OtherNodes | None = None

    def __init__(
        self,
        runtime: Runtime,
        settings: ServerSettings,
        credentials: Credentials,
        feeds: SessionFeeds,
        topics: TopicFeed,
        folders: OwnFolders,
        stop: Callable[[], None],
        local: Credential | None = None,
        epoch: str = "",
    ) -> None:
        self.runtime = runtime
        self.settings = settings
        self.credentials = credentials
        self.tokens_changed = trio.Event()
        self.feeds = feeds
        self.topics = topics
        self.folders = folders
        self.connections: set[OpenConnection] = set()
        self.exchanges: dict[trio.CancelScope, Credential] = {}
        self.quotas = Quotas(settings)
        self.webhooks = Webhooks(runtime)
        self.is_stopping = False
        self.known_seq = 0
        self.store_unavailable: StoreAway | None = None
        self.started_at = time.monotonic()
        self.idempotency = IdempotentRequests()
        self.uploads = Uploads()
        self.epoch = epoch
        self._added_roots: list[str] = []
        self.counts = EventCounts()
        self.log_end = LogEnd()
        self.status_watch = StatusWatch(host_of(runtime), self._own_status)
        self.heartbeat: Heartbeat | None = None
        self.stall_watch: StallWatch | None = None
        self.take_settings: Callable[[ServerSettings], None] = lambda _: None
        self._stop = stop
        self.local = local

    @property
    def configuration(self) -> Configuration | None:
        """The files that are read again; `None` where a program opened the door, and has its own."""
        return configuration_of(self.runtime)

    @configuration.setter
    def configuration(self, configuration: Configuration | None) -> None:
        """Let the runtime have these files."""
        give_configuration(self.runtime, configuration)

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders below which clients may choose workspaces."""
        return (*self.given_roots, *self._added_roots)

    @property
    def given_roots(self) -> tuple[str, ...]:
        """Those of them that the start or the configuration named."""
        named = host_of(self.runtime).settings.named_roots.values()
        return (*self.settings.roots, *(root.path for root in named))

    def add_root(self, path: str) -> None:
        """Add a root, until the daemon ends. Idempotent.

        Raises:
            OverloadedError: There are `MAX_ADDED_ROOTS` already.
        """
        if path in self.roots:
            return
        if len(self._added_roots) >= MAX_ADDED_ROOTS:
            raise OverloadedError(
                f"{MAX_ADDED_ROOTS} roots were added already: name folders above them in [server] "
                "roots"
            )
        self._added_roots.append(path)

    def _own_status(self) -> object:
        """Return what a status has beyond the runtime's: times to a hundredth of a second, as they are shown."""
        heart, loop, configuration = self.heartbeat, self.stall_watch, self.configuration
        journal = None if heart is None else heart.journal_seconds
        return (
            len(self.connections),
            self.is_stopping,
            None if journal is None else round(journal, 2),
            None if loop is None else (loop.blocked, round(loop.lag_seconds, 2)),
            None if configuration is None else configuration.state,
        )

    def stop(self) -> None:
        """Begin the orderly end; never wait."""
        self.is_stopping = True
        self._stop()

    def is_local(self, credential: Credential) -> bool:
        """Return whether it is the credential of this user's own commands."""
        return credential is self.local

    async def credential_of(self, token: str) -> Credential | None:
        """Return the credential of a token, as the file has it now; raise `StorageError`."""
        if self.local is not None and is_token_of(self.local, token):
            await trio.lowlevel.checkpoint()
            return self.local
        return await trio.to_thread.run_sync(self.credentials.find, token)

    async def credential_behind(self, login: ConsoleLogin) -> Credential | None:
        """Return as whom a login of the console acts; `None` when its token is gone or another one now."""
        listed: tuple[Credential, ...] = await trio.to_thread.run_sync(self.credentials.list)
        for credential in listed if self.local is None else (self.local, *listed):
            if (acting := login.acts_as(credential)) is not None:
                return acting
        return None

    def end_connections(self, digest: str, reason: str, *, at_once: bool) -> None:
        """End all connections that use a token."""
        for connection in list(self.connections):
            if connection.credential.digest == digest:
                connection.close(1008, reason, at_once=at_once)
        for scope, credential in list(self.exchanges.items()):
            if credential.digest == digest:
                scope.cancel(reason=reason)
