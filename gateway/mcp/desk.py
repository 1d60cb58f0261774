"""Where a client of MCP has its requests done: the methods of callboard's own protocol, with the client's rights."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from typing import Protocol, Self, TypeVar, cast

import msgspec
import trio

from ...config.keys.tokens import Credential
from ...config.sections import McpServerSettings
from ...embedding.runtime import host_of
from ...runtime.errors import AuthError, OverloadedError, PermissionRefused
from ...runtime.events import LiveEvent, Stored
from ...runtime.wire.topics import Snapshot
from ..connection.caller import Caller
from ..connection.method_table import MethodTable
from ..door.http import BadHead
from ..http_turns import HttpTurns
from ..session_events import LocalEvents
from ..shared.state import DaemonState

Result = TypeVar("Result")
Heard = Stored | LiveEvent | Snapshot
"""What is heard of a session."""

VIA = "mcp"
"""Stands on record with the name of who asked."""


class ChangedSessions:
    """Which sessions have changed, for all who listen to some of them.

    Attributes:
        wanted: Set when somebody listens.
    """

    def __init__(self) -> None:
        self.wanted = trio.Event()
        self._listeners: dict[str, set[Callable[[str], None]]] = {}

    def note(self, session_id: str) -> None:
        """Tell who listens to a session; never wait."""
        for listener in self._listeners.get(session_id, ()):
            listener(session_id)

    def take(self, events: tuple[Stored, ...]) -> None:
        """Note events of the record; never wait."""
        if self._listeners:
            for session_id in {each.session_id for each in events}:
                self.note(session_id)

    def add(self, session_id: str, listener: Callable[[str], None]) -> None:
        """Have a function called when a session changes; it must not wait and must not fail."""
        self._listeners.setdefault(session_id, set()).add(listener)
        self.wanted.set()

    def remove(self, session_id: str, listener: Callable[[str], None]) -> None:
        """Undo `add`. Idempotent."""
        listeners = self._listeners.get(session_id, set())
        listeners.discard(listener)
        if not listeners:
            self._listeners.pop(session_id, None)


class HeardEvents(Protocol):
    """What happens in a session, in order."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Heard: ...


class Desk(Protocol):
    """What a client acts through."""

    @property
    def owner(self) -> str:
        """Whose rights they are: the same text for the same token, and no other."""
        ...

    @property
    def settings(self) -> McpServerSettings:
        """What clients are offered, as the configuration says just now."""
        ...

    @property
    def changes(self) -> ChangedSessions:
        """Where it is said which sessions have changed."""
        ...

    def may(self, method: str) -> bool:
        """Return whether the client's rights are enough for a method."""
        ...

    async def request(self, method: str, params: msgspec.Struct, result: type[Result]) -> Result:
        """Call a method; raise `CallboardError` as it says."""
        ...

    def events(
        self, session_id: str, after_seq: int | None = None
    ) -> AbstractAsyncContextManager[HeardEvents]:
        """Follow a session, behind an event or from now on."""
        ...

    def at_work(self) -> AbstractContextManager[None]:
        """Raise `AuthError` in the block when its rights end."""
        ...


class LocalDesk:
    """The desk of a token, in the daemon.

    Args:
        daemon: Where requests are done.
        table: Its methods.
        turns: Those that were begun by HTTP.
        credential: Whose rights hold.
        changes: Where it is said which sessions have changed.
    """

    def __init__(
        self,
        daemon: DaemonState,
        table: MethodTable,
        turns: HttpTurns,
        credential: Credential,
        changes: ChangedSessions,
    ) -> None:
        self._daemon = daemon
        self._table = table
        self._turns = turns
        self._credential = credential
        self.changes = changes

    @property
    def owner(self) -> str:
        """Whose rights they are."""
        return self._credential.digest

    @property
    def settings(self) -> McpServerSettings:
        """What clients are offered just now."""
        return host_of(self._daemon.runtime).settings.mcp_server

    def may(self, method: str) -> bool:
        """Return whether the token's rights are enough for a method."""
        known = self._table.get(method)
        return known is not None and known.refusal(self._credential) is None

    async def request(self, method: str, params: msgspec.Struct, result: type[Result]) -> Result:
        """Call a method as a connection of this token would."""
        known = self._table.get(method)
        assert known is not None, method
        if (reason := known.refusal(self._credential)) is not None:
            raise PermissionRefused(reason)
        caller = self._caller()
        # A session is begun for a turn: where there is no room for that, none is left behind.
        with self._room(caller) if method in {"session/new", "session/prompt"} else nullcontext():
            answer = await known.call(caller, params)
        caller.answered()
        return cast("Result", answer)

    @contextmanager
    def _room(self, caller: Caller) -> Generator[None]:
        try:
            with self._turns.room(caller):
                yield
        except BadHead as error:
            raise OverloadedError(str(error)) from None

    def events(self, session_id: str, after_seq: int | None = None) -> LocalEvents:
        """Follow a session that the token may see."""
        return LocalEvents(self._caller(), session_id, after_seq)

    @contextmanager
    def at_work(self) -> Generator[None]:
        """End the block when the token is revoked, rotated or given other rights."""
        with trio.CancelScope() as scope:
            self._daemon.exchanges[scope] = self._credential
            try:
                yield
            finally:
                self._daemon.exchanges.pop(scope, None)
        if scope.cancelled_caught:
            raise AuthError("the token is no longer valid")

    def _caller(self) -> Caller:
        return Caller(self._daemon, self._credential, None, via=VIA)
