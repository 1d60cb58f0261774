"""Which session a thread is, which input a run is, and the turn of an input as it is followed.

All of it is on record, by idempotency keys: a thread's is that of its session, and a run's that of its input.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec
import trio

from ...embedding.runtime import host_of
from ...runtime.errors import ActorStopped, CallboardError, ConflictError
from ...runtime.events import InputAccepted, LiveEvent, Stored
from ...runtime.history import Item
from ...runtime.identity import RequestKey
from ...runtime.messages import SubmitInput
from ...runtime.turn_options import NO_CLIENT, ClientContext
from ..connection.caller import Requester
from ..http_turns import HttpTurns
from ..openai.problems import ApiProblem
from ..session_events import LocalEvents

VIA = "ag-ui"
THREAD = "ag-ui thread"
RUN = "ag-ui run"
BEGIN_SECONDS = 15.0
"""For an input to be on record, which goes on although its client has left: it must be known what to cancel."""
LEAVE_SECONDS = 15.0
"""For a turn to be gone when its client has left."""
OPEN_STATES = frozenset({"waiting", "running", "suspended"})
"""Of inputs whose turns have not ended."""


class KnownInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a thread that is on record.

    Attributes:
        seq: Of its event.
        is_open: Whether its turn has not ended.
        client: What the client gave it.
    """

    session_id: str
    input_id: str
    seq: int
    is_open: bool
    client: ClientContext


class Threads:
    """The threads of AG-UI's clients.

    Args:
        turns: Where turns begin.
    """

    def __init__(self, turns: HttpTurns) -> None:
        self._turns = turns

    async def find(self, requester: Requester, agent: str, thread_id: str) -> str | None:
        """Return the session of a thread: the one that began with it, or the one that has this id.

        Raises:
            ApiProblem: A session has this id, and another agent.
            NotFoundError: The token may not know of it any more.
        """
        store = requester.runtime.store
        done = await store.request(_thread(requester, agent, thread_id))
        if done is not None:
            return (await self._turns.brought_back(requester, done.session_id)).session_id
        row = await store.session(thread_id)
        if row is None or not requester.sees(row):
            return None
        if row.agent != agent:
            why = f"the session {thread_id} has the agent {row.agent}: ask that"
            raise ApiProblem(why, "threadId", status=409, code="conflict")
        return (await self._turns.brought_back(requester, thread_id)).session_id

    async def begin(
        self, requester: Requester, agent: str, thread_id: str, given: tuple[Item, ...]
    ) -> str:
        """Return a new session for a thread; another request may have been first."""
        request = _thread(requester, agent, thread_id)
        try:
            session = await self._turns.begin_session(
                requester, agent, given=given, request=request
            )
        except ConflictError as refusal:
            error = refusal
        else:
            return session.session_id
        done = await requester.runtime.store.request(request)
        if done is None:
            raise error
        return done.session_id

    async def run(self, requester: Requester, request: RequestKey) -> KnownInput | None:
        """Return the input of a run that was begun already.

        Raises:
            ApiProblem: It was begun with another request.
        """
        done = await requester.runtime.store.request(request)
        if done is None:
            return None
        if done.digest != request.digest:
            why = f"the run {request.key!r} was begun with another request: give each an id of its own"
            raise ApiProblem(why, "runId", status=409, code="conflict")
        return await self._input(requester, done.session_id, request.key)

    async def last(self, requester: Requester, session_id: str) -> KnownInput | None:
        """Return the last input of a thread."""
        return await self._input(requester, session_id, None)

    async def _input(
        self, requester: Requester, session_id: str, run_id: str | None
    ) -> KnownInput | None:
        store = requester.runtime.store
        rows = await store.named_inputs((_sender(session_id),), 1, run_id)
        if not rows:
            return None
        stored, *_ = await store.events(session_id, after_seq=rows[0].seq - 1, limit=1)
        assert isinstance(stored.event, InputAccepted)
        return KnownInput(
            session_id=session_id,
            input_id=rows[0].input_id,
            seq=rows[0].seq,
            is_open=rows[0].state in OPEN_STATES,
            client=stored.event.client or NO_CLIENT,
        )


def _thread(requester: Requester, agent: str, thread_id: str) -> RequestKey:
    # The agent is part of the method: some front ends lead one thread through several agents.
    return RequestKey(requester.sender, f"{THREAD} {agent}", thread_id, "")


def run_key(session_id: str, run_id: str, digest: str) -> RequestKey:
    """Return the key of a run; each thread has its own runs."""
    return RequestKey(_sender(session_id), RUN, run_id, digest)


def _sender(session_id: str) -> str:
    return f"{VIA} {session_id}"


class FollowedTurn:
    """The turn of an input, as a run tells it. Leaving its block cancels it, unless it was left to go on.

    Args:
        of: The input on record, or one that entering it submits.

    Attributes:
        input_id: Of the input, once entered.
        answers: How many runs of it waited for their client.
        client_tools: The names of the tools that the client runs.
    """

    def __init__(self, requester: Requester, of: KnownInput | SubmitInput) -> None:
        self._requester = requester
        self._of = of
        self.session_id = of.session_id
        self.input_id = ""
        self.answers = 0
        self.client_tools = tuple(each.name for each in (of.client or NO_CLIENT).tools)
        after = of.seq - 1 if isinstance(of, KnownInput) else None
        # A new turn goes as fast as its client reads it.
        own = of.subscription if isinstance(of, SubmitInput) else None
        self._events = LocalEvents(requester, of.session_id, after, own)
        self._goes_on = False

    async def __aenter__(self) -> Self:
        await self._events.__aenter__()
        try:
            if isinstance(self._of, KnownInput):
                self.input_id = self._of.input_id
            else:
                await self._submit(self._of)
            await trio.lowlevel.checkpoint()
        except BaseException:
            await self.__aexit__(None, None, None)  # noqa: ASYNC102, ASYNC120  bounded inside
            raise
        return self

    async def _submit(self, message: SubmitInput) -> None:
        with trio.CancelScope(shield=True), trio.fail_after(BEGIN_SECONDS):
            ticket = await host_of(self._requester.runtime).directory.ask(message)
            self.input_id = ticket.input_id

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._events.close()
        if self._goes_on or not self.input_id:
            return
        with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(CallboardError):
            session = await self._requester.runtime.get_session(self.session_id)
            await session.cancel("its client has left", input_id=self.input_id)

    async def next(self) -> list[Stored | LiveEvent]:
        """Wait for what happens, and return all that has."""
        heard = await self._events.take()
        if not heard:
            raise ActorStopped("the session has ended without an answer")
        return heard

    @property
    def is_current(self) -> bool:
        """Whether all was returned that has happened so far."""
        return self._events.is_current

    def let_go(self) -> None:
        """Leave it to itself when the block is left: it has ended."""
        self._goes_on = True

    def pause(self) -> None:
        """Read no more of it; leaving its block still cancels it."""
        self._events.close()
