"""Turns that are begun by HTTP: how many there may be at once, and what becomes of them when the client leaves.

They are counted by their events, from the input that came `via` another protocol to the end of its turn. So one
whose client has left counts as long as it runs, and nobody has to give anything back.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ..embedding.runtime import begin_session, host_of
from ..embedding.session import Session
from ..embedding.turn import Turn
from ..runtime.errors import ConflictError, NotFoundError
from ..runtime.events import (
    DurableEvent,
    HistoryGiven,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    SessionCreated,
    SessionTainted,
    Stored,
    TurnEnded,
    TurnStarted,
    TurnSuspended,
)
from ..runtime.history import Item
from ..runtime.identity import TraceContext
from ..runtime.messages import SubmitInput
from ..runtime.wire.fields import Role
from .connection.caller import Requester
from .door.http import BadHead, RequestHead
from .shared.state import DaemonState
from .shared.workspaces import chosen_workspace

CLIENT = "client"
"""What taints a session whose history a client brought."""


def trace_of(head: RequestHead) -> TraceContext | None:
    """Return where a request stands in a trace of its sender, if it says so."""
    parent = head.one("traceparent")
    if parent is None:
        return None
    return TraceContext(parent, ",".join(head.all("tracestate")))


class HttpTurns:
    """The turns of a daemon that were begun by HTTP.

    Args:
        daemon: Where they run.
    """

    def __init__(self, daemon: DaemonState) -> None:
        self._daemon = daemon
        self._beginning = 0
        self._inputs: set[str] = set()
        self._turns: dict[str, set[str]] = {}
        self._is_watching = False

    @property
    def count(self) -> int:
        """Those that run, wait for their turn, or are about to begin."""
        return len(self._inputs) + self._beginning

    @contextmanager
    def room(self) -> Generator[None]:
        """Hold the place of a turn around what begins it.

        Raises:
            BadHead: There are `max_http_turns`, or the daemon stops.
        """
        if self._daemon.is_stopping:
            raise BadHead(503, "the daemon is stopping: ask again when it is back", _AGAIN)
        most = self._daemon.settings.max_http_turns
        if self.count >= most:
            why = f"{most} turns that were begun by HTTP run already ([server] max_http_turns)"
            raise BadHead(429, why, _AGAIN)
        if not self._is_watching:
            self._is_watching = True
            host_of(self._daemon.runtime).inboxes.watch(self._take)
        self._beginning += 1
        try:
            yield
        finally:
            self._beginning -= 1

    def _take(self, events: tuple[Stored, ...]) -> None:
        for stored in events:
            event = stored.event
            if isinstance(event, InputAccepted):
                if event.via:
                    self._inputs.add(event.input_id)
            elif not self._inputs:
                continue
            elif isinstance(event, TurnStarted):
                if begun := self._inputs.intersection(event.input_ids):
                    self._turns[event.turn_id] = begun
            elif isinstance(event, TurnEnded | TurnSuspended):
                self._inputs -= self._turns.pop(event.turn_id, set())
            elif isinstance(event, InputCancelled | InputDelivered):
                self._inputs.discard(event.input_id)

    async def begin_session(
        self,
        requester: Requester,
        agent: str,
        *,
        model: str | None = None,
        given: tuple[Item, ...] = (),
        title: str = "",
    ) -> Session:
        """Create a session, with what the client says was said before.

        Raises:
            NotFoundError: There is no such agent, for this token.
            ConflictError: The token is for certain sessions.
            ValidationError: There is no such model.
        """
        requester.check_role(Role.OPERATOR)
        if requester.credential.sessions is not None:
            raise ConflictError("this token is for certain sessions: it can't begin others")
        if not requester.knows_agent(agent) or agent not in host_of(requester.runtime).agents:
            raise NotFoundError(f"there is no agent {agent!r}")
        first: tuple[DurableEvent, ...] = ()
        if given:
            first = HistoryGiven(messages=given), SessionTainted(source=CLIENT)
        created = SessionCreated(
            agent=agent, workspace="", title=title, model=model, via=requester.via
        )
        async with chosen_workspace(requester.daemon, None) as folder:
            return await begin_session(requester.runtime, created, Path(folder), first)

    def turn(self, message: SubmitInput) -> HttpTurn:
        """Return the turn of an input, which has a `via` and a subscription: enter it in `room`."""
        assert message.via
        return HttpTurn(host_of(self._daemon.runtime), message)


class HttpTurn(Turn[str]):
    """A turn that was begun by HTTP. Leaving its block cancels it, unless it was let go."""

    def let_go(self) -> None:
        """Let it go on without anybody who listens; nothing more is read of it."""
        self._subscription.close()


_AGAIN = (("retry-after", "1"),)
