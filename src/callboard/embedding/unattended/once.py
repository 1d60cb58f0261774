"""An input that something outside makes once: in a new session, or in one that there is.

session  committed with the key (sender, method + SESSION, key)
input    committed with the key (sender, method, key)

Killed between the two, the next try finds the session by its key and goes on there. Of two tries at the same
time the store refuses one, which then returns what the other made.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import msgspec

from ...runtime.budget import Budget
from ...runtime.definitions import GENERAL_AGENT
from ...runtime.errors import ConflictError
from ...runtime.events import InputAccepted
from ...runtime.history import Attachment
from ...runtime.identity import RequestKey, TraceContext
from ...runtime.store.feeds import DoneRequest
from ...runtime.turn_options import Unattended
from ..session import Session
from ..tools import RuntimeTools, host_of

SESSION = "+session"
"""Ends the method of the key under which the session of a new input is on record; twice for the one that takes
the place of one that was deleted before it had the input, and so on."""

Workspace = Callable[[], AbstractAsyncContextManager[Path | None]]
"""Gives the folder of a new session, around what begins it; `None` is the runtime's."""


class OutsideInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input that nobody sits in front of.

    Attributes:
        request: Its name outside. The digest is only kept.
        text: What is asked.
        attachments: Files beside it.
        agent: The agent of a new session.
        title: The title of a new session.
        budget: What its turn may use.
        unattended: Whether what needs a person is denied, or its question waits; `None` is what the agent does:
            one that defers defers, any other is denied.
        is_untrusted: Whether strangers may have written the text: it then taints the session.
        trace: Where who sent it stands in a trace.
    """

    request: RequestKey
    text: str
    attachments: tuple[Attachment, ...] = ()
    agent: str = GENERAL_AGENT
    title: str = ""
    budget: Budget | None = None
    unattended: Unattended | None = None
    is_untrusted: bool = False
    trace: TraceContext | None = None


class MadeInput(msgspec.Struct, frozen=True):
    """Where an input is on record, and since when, in Unix milliseconds; `None` if this call put it there."""

    session_id: str
    input_id: str
    seq: int
    at_ms: int | None = None

    @property
    def is_new(self) -> bool:
        """Whether this call put it on record."""
        return self.at_ms is None


async def submit_once(
    runtime: RuntimeTools,
    given: OutsideInput,
    *,
    session_id: str | None = None,
    workspace: Workspace = nullcontext,
) -> MadeInput:
    """Put an input on record, unless it is there; its turn then runs by itself.

    Cancelled or killed anywhere, it can be called again.

    Args:
        runtime: Where.
        given: The input.
        session_id: The session that it is for, which the caller may choose. Without one, or when that is deleted
            or gone, or has another agent, it gets a new one.
        workspace: Gives the folder of a new session; by default the runtime's.

    Raises:
        NotFoundError: There is no such agent.
        CallboardError: As `Runtime.create_session` and `Session.submit`; nothing of the input is on record.
    """
    if (made := await found(runtime, given.request)) is not None:
        return made
    session = await _session(runtime, given, session_id, workspace)
    unattended = given.unattended or _as_agent(runtime, given.agent)
    try:
        ticket = await session.submit(
            given.text,
            given.attachments,
            budget=given.budget,
            request=given.request,
            unattended=unattended,
            is_untrusted=given.is_untrusted,
            trace=given.trace,
        )
    except ConflictError as error:
        refusal = error
    else:
        return MadeInput(session.session_id, ticket.input_id, ticket.seq)
    if (made := await found(runtime, given.request)) is None:
        raise refusal
    return made  # somebody else's try was first


async def found(runtime: RuntimeTools, request: RequestKey) -> MadeInput | None:
    """Return the input that has this name outside, if it is on record."""
    done: DoneRequest | None = await host_of(runtime).plan.store.request(request)
    if done is None:
        return None
    events = await host_of(runtime).plan.store.events(
        done.session_id, after_seq=done.seq - 1, limit=1
    )
    if not events:  # purged meanwhile, and its name with it
        return None
    event = events[0].event
    assert isinstance(event, InputAccepted)
    return MadeInput(done.session_id, event.input_id, done.seq, events[0].at_ms)


async def is_open(runtime: RuntimeTools, session_id: str, agent: str) -> bool:
    """Return whether a session takes inputs and has this agent."""
    row = await host_of(runtime).plan.store.session(session_id)
    return row is not None and row.deleted_at_ms is None and row.agent == agent


async def _session(
    runtime: RuntimeTools, given: OutsideInput, session_id: str | None, workspace: Workspace
) -> Session:
    if session_id is not None and await is_open(runtime, session_id, given.agent):
        return await runtime.get_session(session_id)
    name = given.request
    while True:
        name = msgspec.structs.replace(name, method=name.method + SESSION)
        if (begun := await host_of(runtime).plan.store.request(name)) is None:
            break
        if await is_open(runtime, begun.session_id, given.agent):
            return await runtime.get_session(begun.session_id)
    try:
        async with workspace() as folder:
            return await runtime.create_session(
                agent=given.agent,
                workspace=folder,
                title=given.title,
                request=name,
            )
    except ConflictError as error:
        refusal = error
    if (begun := await host_of(runtime).plan.store.request(name)) is None:
        raise refusal
    return await runtime.get_session(begun.session_id)


def _as_agent(runtime: RuntimeTools, name: str) -> Unattended:
    agent = host_of(runtime).agents.get(name)
    return "defer" if agent is not None and agent.defer else "deny"
