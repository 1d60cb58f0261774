"""Where a client of MCP has its requests done: the methods of callboard's own protocol, with the client's rights."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from types import TracebackType
from typing import Protocol, Self, TypeVar, cast

import msgspec
import trio

from ...config.keys.tokens import Credential
from ...config.sections import McpServerSettings
from ...embedding.runtime import host_of
from ...runtime.errors import AuthError, OverloadedError, PermissionRefused
from ...runtime.events import LiveEvent, Stored
from ...runtime.kernel.delivery import Subscription
from ...runtime.messages import FollowSession
from ...runtime.wire.topics import Snapshot
from ..connection.caller import Caller
from ..connection.method_table import MethodTable
from ..door.http import BadHead
from ..http_turns import HttpTurns
from ..shared.state import DaemonState

Result = TypeVar("Result")
Heard = Stored | LiveEvent | Snapshot
"""What is heard of a session."""

PAGE_EVENTS = 256
"""Read of the record at a time."""
VIA = "mcp"
"""Stands on record with the name of who asked."""


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
    """

    def __init__(
        self, daemon: DaemonState, table: MethodTable, turns: HttpTurns, credential: Credential
    ) -> None:
        self._daemon = daemon
        self._table = table
        self._turns = turns
        self._credential = credential

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
        with self._room() if method == "session/prompt" else nullcontext():
            answer = await known.call(caller, params)
        caller.answered()
        return cast("Result", answer)

    @contextmanager
    def _room(self) -> Generator[None]:
        try:
            with self._turns.room():
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


class LocalEvents:
    """What happens in a session of this daemon, each stored event once; enter it, then iterate."""

    def __init__(self, caller: Caller, session_id: str, after_seq: int | None) -> None:
        self._caller = caller
        self._session_id = session_id
        self._seq = 0 if after_seq is None else after_seq
        self._reads_record = after_seq is not None
        self._subscription = Subscription()
        self._heard: deque[Heard] = deque()

    async def __aenter__(self) -> Self:
        await self._caller.session(self._session_id)
        directory = host_of(self._caller.runtime).directory
        await directory.ask(
            FollowSession(session_id=self._session_id, subscription=self._subscription)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._subscription.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Heard:
        while (heard := self._next()) is None:
            if self._reads_record:
                await self._read_record()
                continue
            updates = await self._subscription.take()
            if not updates:
                raise StopAsyncIteration
            self._heard.extend(updates)
        return heard

    def _next(self) -> Heard | None:
        """Return what was heard next; stored events may have come twice, from the record and as they were stored."""
        while self._heard:
            heard = self._heard.popleft()
            if not isinstance(heard, Stored):
                return heard
            if heard.seq > self._seq:
                self._seq = heard.seq
                return heard
        return None

    async def _read_record(self) -> None:
        """Take the next page of what was stored before the subscription began."""
        store = self._caller.runtime.store
        page = await store.events(self._session_id, after_seq=self._seq, limit=PAGE_EVENTS)
        self._heard.extend(page)
        self._reads_record = len(page) == PAGE_EVENTS
