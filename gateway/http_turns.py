"""Turns that are begun by HTTP: how many there may be at once, and what becomes of them when the client leaves.

They are counted by their events, from the input that came `via` another protocol to the end of its turn. So one
whose client has left counts as long as it runs, and nobody has to give anything back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import msgspec
import trio

from ..config.keys.tokens import Credential
from ..embedding.host import Host
from ..embedding.runtime import begin_session, host_of
from ..embedding.session import Session
from ..embedding.turn import Turn, TurnEvent
from ..runtime.definitions import InputMode
from ..runtime.errors import CallboardError, ConflictError, NotFoundError, ValidationError
from ..runtime.events import (
    DurableEvent,
    HistoryGiven,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    SessionCreated,
    SessionTainted,
    Stored,
    StreamBatch,
    TurnEnded,
    TurnStarted,
    TurnSuspended,
)
from ..runtime.history import Item
from ..runtime.identity import RequestKey
from ..runtime.messages import SubmitInput
from ..runtime.redaction import redacting_logger
from ..runtime.store.rows import SessionRow
from ..runtime.turn_options import NO_CLIENT
from ..runtime.wire.fields import Role
from .connection.caller import Requester
from .door.http import BadHead
from .shared.state import DaemonState
from .shared.workspaces import chosen_workspace
from .used_below import is_delegation, with_used_below

logger = redacting_logger(__name__)

CLIENT = "client"
"""What taints a session whose history a client brought."""
PUT_AWAY_SECONDS = 5.0
"""For deleting the session of a turn."""
MAX_OWN_TURNS = 4
"""Which a token may have whatever others have, or a quarter of `max_http_turns` if that is fewer: one whose turns wait for
its own tools, for ten minutes each, keeps nobody else out."""
CLIENT_SECONDS = 590.0
"""For which a turn waits for the results of its client's tools: a little less than their calls do."""


class HttpTurns:
    """The turns of a daemon that were begun by HTTP.

    Args:
        daemon: Where they run.
        nursery: Where those that wait for their client are timed.
    """

    def __init__(self, daemon: DaemonState, nursery: trio.Nursery) -> None:
        self._daemon = daemon
        self._nursery = nursery
        self._parked: dict[str, ParkedTurn] = {}
        self._beginning: list[BeginningTurn] = []
        self._inputs: dict[str, str] = {}
        self._turns: dict[str, set[str]] = {}
        self._is_watching = False

    @property
    def count(self) -> int:
        """Those that run, wait for their turn, or are about to begin; each counts once."""
        return len(self._inputs) + len(self._beginning)

    @contextmanager
    def room(self, requester: Requester) -> Generator[None]:
        """Hold the place of a turn around what begins it; from when its input is stored, that has the place.

        Raises:
            BadHead: There are `max_http_turns`, and the token has its own part of them; or the daemon stops.
        """
        if self._daemon.is_stopping:
            raise BadHead(503, "the daemon is stopping: ask again when it is back", _AGAIN)
        most = self._daemon.settings.max_http_turns
        owner = _owner(requester.name)
        own = sum(_owner(each.name) == owner for each in self._beginning)
        own += sum(each == owner for each in self._inputs.values())
        if self.count >= most and own >= min(MAX_OWN_TURNS, most // 4):
            why = f"{most} turns that were begun by HTTP run already ([server] max_http_turns)"
            raise BadHead(429, why, _AGAIN)
        if not self._is_watching:
            self._is_watching = True
            host_of(self._daemon.runtime).inboxes.watch(self._take)
        self._beginning.append(beginning := BeginningTurn(requester.name))
        try:
            yield
        finally:
            if beginning in self._beginning:
                self._beginning.remove(beginning)

    def _take(self, events: tuple[Stored, ...]) -> None:
        for stored in events:
            event = stored.event
            if isinstance(event, InputAccepted):
                if event.via:
                    self._inputs[event.input_id] = _owner(event.via)
                    if event.mode is not InputMode.STEER:  # what a turn reads meanwhile has no room
                        self._has_begun(event.via)
            elif not self._inputs:
                continue
            elif isinstance(event, TurnStarted):
                if begun := self._inputs.keys() & event.input_ids:
                    self._turns[event.turn_id] = begun
            elif isinstance(event, TurnEnded | TurnSuspended):
                self._over(self._turns.pop(event.turn_id, set()))
            elif isinstance(event, InputCancelled | InputDelivered):
                self._inputs.pop(event.input_id, None)

    def _has_begun(self, name: str) -> None:
        """Note that the input of one that was beginning is stored: it counts there."""
        found = next((each for each in self._beginning if each.name == name), None)
        if found is not None:
            self._beginning.remove(found)

    def _over(self, input_ids: set[str]) -> None:
        """Note that the turns of inputs are over; nobody waits for the clients of these any more."""
        for input_id in input_ids:
            self._inputs.pop(input_id, None)
        for parked in self._parked.values():
            if parked.turn.input_id in input_ids:
                parked.over.set()

    async def begin_session(
        self,
        requester: Requester,
        agent: str,
        *,
        model: str | None = None,
        given: tuple[Item, ...] = (),
        title: str = "",
        request: RequestKey | None = None,
    ) -> Session:
        """Create a session, with what the client says was said before.

        Raises:
            NotFoundError: There is no such agent, for this token.
            ConflictError: The token is for certain sessions, or the request was done already.
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
            agent=agent,
            workspace="",
            title=title,
            model=model,
            via=requester.via,
            request=request,
        )
        async with chosen_workspace(requester.daemon, None) as folder:
            return await begin_session(requester.runtime, created, Path(folder), first)

    def turn(self, message: SubmitInput) -> HttpTurn:
        """Return the turn of an input, which has a `via` and a subscription: enter it in `room`."""
        assert message.via
        return HttpTurn(host_of(self._daemon.runtime), message)

    async def brought_back(self, requester: Requester, session_id: str) -> SessionRow:
        """Return a session that a request names; one that was begun by this protocol and deleted is restored."""
        row = await requester.session(session_id)
        if row.deleted_at_ms is not None:
            first, *_ = await requester.runtime.store.events(session_id, limit=1)
            if isinstance(first.event, SessionCreated) and first.event.via == requester.via:
                await host_of(requester.runtime).keeping.restore([session_id])
        return row

    # ── turns that wait for the results of their client's tools ──────────────────────────────────

    def park(
        self,
        turn: WaitingTurn,
        requester: Requester,
        calls: Iterable[str],
        *,
        goes_on: bool = False,
    ) -> None:
        """Keep a turn, whose block is not left, until its client brings the results of these calls.

        Questions about calls are named among them, by their own ids. When the client does not come, the turn is
        cancelled: nobody would hear its answer. One that `goes_on` does so without it.
        """
        turn.answers += 1
        parked = ParkedTurn(turn, requester.credential, frozenset(calls), goes_on)
        if self._daemon.is_stopping:
            parked.over.set()  # it is as late as those of `announce_end`
        self._parked |= dict.fromkeys(parked.calls, parked)
        self._nursery.start_soon(self._hold, parked, name=f"parked turn of {turn.input_id}")

    def keep(
        self,
        turn: HttpTurn,
        requester: Requester,
        take: Callable[[list[TurnEvent]], Collection[str]],
        *,
        goes_on: bool = False,
    ) -> None:
        """Read a turn, whose block is not left, to its end: its client has left, and may come back.

        `take` gets its events, and returns what it waits for then; with that it is parked.
        """
        name = f"turn of {turn.input_id} without its client"
        self._nursery.start_soon(self._keep, turn, requester, take, goes_on, name=name)

    async def _keep(
        self,
        turn: HttpTurn,
        requester: Requester,
        take: Callable[[list[TurnEvent]], Collection[str]],
        goes_on: bool,
    ) -> None:
        with suppress(CallboardError):  # the session has ended, and the turn with it
            while turn.ended is None and (events := await turn.next_events()):
                if (waits := take(events)) and turn.ended is None:
                    self.park(turn, requester, waits, goes_on=goes_on)
                    return
        await turn.put_away()

    def take(self, requester: Requester, results: Collection[str]) -> ParkedTurn | None:
        """Return the turn that waits for the results of these calls: `answer` it, and leave its block.

        `None` when no turn of this token waits for any of them.

        Raises:
            ValidationError: It waits for more of them.
        """
        found = (self._parked.get(each) for each in results)
        owner = requester.credential  # as it is now: one that has other rights goes on with nothing
        parked = next((each for each in found if each and each.owner == owner), None)
        if parked is None or not isinstance(parked.turn, HttpTurn):
            return None
        if missing := parked.calls.difference(results):
            raise ValidationError(f"the results of {', '.join(sorted(missing))} are missing")
        self._take_out(parked)
        return parked

    def come_back(self, session_id: str) -> None:
        """Cancel the turn of a session no more that waits for its client: that is here, and follows it by itself."""
        for parked in {*self._parked.values()}:
            if parked.turn.session_id == session_id and not isinstance(parked.turn, HttpTurn):
                self._take_out(parked)

    def _take_out(self, parked: ParkedTurn) -> None:
        self._forget(parked)
        parked.is_taken = True
        parked.over.set()

    def answer(self, parked: ParkedTurn, results: Mapping[str, str]) -> None:
        """Give a turn that was taken what it waits for."""
        for call_id in parked.calls & results.keys():
            host_of(self._daemon.runtime).client_calls.answer(call_id, results[call_id])

    def waits_for(self, session_id: str) -> frozenset[str]:
        """Return what the turn of a session waits for from its client."""
        found = (
            each
            for each in self._parked.values()
            if each.turn.session_id == session_id and not each.over.is_set()
        )
        return next((each.calls for each in found), frozenset())

    def announce_end(self) -> None:
        """Cancel the turns that wait for their clients: the daemon stops, and takes no results."""
        for parked in [*self._parked.values()]:
            parked.over.set()

    async def _hold(self, parked: ParkedTurn) -> None:
        with trio.move_on_after(CLIENT_SECONDS):
            await parked.over.wait()
        if not parked.is_taken:
            self._forget(parked)
            if parked.goes_on:
                parked.turn.let_go()
            await parked.turn.__aexit__(None, None, None)

    def _forget(self, parked: ParkedTurn) -> None:
        for call_id in parked.calls:
            self._parked.pop(call_id, None)


class HttpTurn(Turn[str]):
    """A turn that was begun by HTTP. Leaving its block cancels it, unless it was let go.

    Attributes:
        client_tools: The names of the tools that its client runs.
        client: What the client gave it.
        is_alone: Whether its session was begun for it alone, and is deleted when it is over.
        is_private: Whether that session is then removed for good.
        answers: How many answers it was given in: one more than it waited for its client.
    """

    def __init__(self, host: Host, message: SubmitInput) -> None:
        super().__init__(host, message)
        self.client = message.client or NO_CLIENT
        self.client_tools = tuple(each.name for each in self.client.tools)
        self.is_alone = self.is_private = False
        self.answers = 0

    @property
    def session_id(self) -> str:
        """Its session."""
        return self._session_id

    async def next_events(self) -> list[TurnEvent]:
        """Wait for events and return all that have come; empty at the end.

        Each open stream waits here: the calls of `Turn.next_events` below each other are one.
        """
        found: list[TurnEvent] = []
        has_delegated = False
        while not found and (updates := await self._subscription.take()):
            for update in updates:
                if isinstance(update, Stored):
                    self._note(update)
                    found.append(update.event)
                    has_delegated = has_delegated or is_delegation(update.event)
                elif isinstance(update, StreamBatch):
                    found += update.events
                else:
                    found.append(update)
        if has_delegated:
            return await with_used_below(self._host.plan.store, self.session_id, found)
        return found

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, traceback)  # noqa: ASYNC102  bounded inside
        await self.put_away()  # noqa: ASYNC102  bounded inside

    async def put_away(self) -> None:
        """Delete the session of a turn that is over, if that has it alone; a failure is logged. Idempotent.

        One whose client wants nothing stored is removed for good.
        """
        if not self.is_alone:
            return
        self.is_alone = False
        with trio.move_on_after(PUT_AWAY_SECONDS, shield=True):  # noqa: ASYNC912  delete waits
            try:
                await self._host.keeping.delete([self.session_id])
                if self.is_private:
                    await self._host.keeping.purge([self.session_id])
            except CallboardError as problem:
                logger.warning("%s stays in the list of sessions: %s", self.session_id, problem)

    def let_go(self) -> None:
        """Let it go on without anybody who listens; nothing more is read of it."""
        self._subscription.close()


class WaitingTurn(Protocol):
    """A turn that can be kept while it waits for its client; leaving its block cancels it.

    Attributes:
        input_id: Its input.
        answers: How many answers it was given in.
    """

    input_id: str
    answers: int

    @property
    def session_id(self) -> str:
        """Its session."""
        ...

    def let_go(self) -> None:
        """Let it go on without anybody who listens."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave its block."""
        ...


class HeldTurn:
    """The block in which a request has a turn: leaving it leaves the turn, unless somebody else keeps that.

    An `AsyncExitStack` would do, and take a kilobyte of each open stream.

    Attributes:
        goes_on: Whether the turn goes on without anybody who listens.
    """

    __slots__ = ("_turn", "goes_on")

    def __init__(self) -> None:
        self._turn: WaitingTurn | None = None
        self.goes_on = False

    def take(self, turn: WaitingTurn) -> None:
        """Leave this turn, which was entered, at the end of the block."""
        self._turn = turn

    def give(self) -> None:
        """Leave it to somebody else."""
        self._turn = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._turn is not None:
            if self.goes_on:
                self._turn.let_go()
            await self._turn.__aexit__(kind, error, traceback)  # noqa: ASYNC102  bounded inside


class ParkedTurn:
    """A turn that waits for its client.

    Attributes:
        turn: Entered, and not left.
        owner: The token whose turn it is, with the rights that it had.
        calls: What it waits for.
        goes_on: Whether it goes on when the client does not come.
        over: Set when the waiting is.
        is_taken: Whether the client has come.
    """

    def __init__(
        self, turn: WaitingTurn, owner: Credential, calls: frozenset[str], goes_on: bool
    ) -> None:
        self.turn = turn
        self.owner = owner
        self.calls = calls
        self.goes_on = goes_on
        self.over = trio.Event()
        self.is_taken = False


class BeginningTurn(msgspec.Struct, frozen=True, eq=False):
    """A turn of which nothing is stored yet; one is like no other.

    Attributes:
        name: Who begins it, and by which protocol.
    """

    name: str


def _owner(name: str) -> str:
    """Return who sends, by whatever protocol."""
    return name.rpartition(" via ")[0]


_AGAIN = (("retry-after", "1"),)
