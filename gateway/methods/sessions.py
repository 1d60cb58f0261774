"""`session/…`: conversations are begun, listed, read, heard, prompted and cancelled."""

from __future__ import annotations

from ...embedding.runtime import directory_of
from ...runtime.definitions import InputMode
from ...runtime.errors import ConflictError, OverloadedError, ValidationError
from ...runtime.event_types.turns import RerunWay
from ...runtime.events import InputAccepted, TurnSetAside, TurnStarted
from ...runtime.messages import RerunTurn
from ...runtime.store.feeds import DoneRequest
from ...runtime.store.lists import SessionFilter
from ...runtime.store.rows import MessageRow, SessionRow
from ...runtime.wire.fields import Role
from ...runtime.wire.sessions import (
    Cancel,
    Cancelled,
    ListMessages,
    Messages,
    NewSession,
    OneSession,
    Prompt,
    RunAgain,
    Subscribe,
    Subscribed,
    Ticket,
)
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..feeds.pages import byte_page
from ..shared.workspaces import chosen_workspace
from .prompt_options import submit_with
from .topics import check_epoch

MAX_PAGE = 1000
"""Rows of one answer: with previews and texts some megabytes at most."""

methods = MethodTable()


def page(limit: int) -> int:
    """A number of rows that may be asked for; raises `ValidationError`."""
    if not 1 <= limit <= MAX_PAGE:
        raise ValidationError(f"limit is from 1 to {MAX_PAGE}", field="limit")
    return limit


async def _began(caller: Caller, done: DoneRequest) -> SessionRow:
    return await caller.session(done.session_id)


@methods.add("session/new", Role.OPERATOR, recall=_began)
async def new_session(caller: Caller, params: NewSession) -> SessionRow:
    """Begins a session."""
    limits = caller.credential
    if limits.sessions is not None:
        raise ConflictError("this token is for certain sessions: it can't begin others")
    if limits.agents is not None and params.agent not in limits.agents:
        raise ValidationError(f"this token is not for the agent {params.agent!r}", field="agent")
    async with chosen_workspace(caller.daemon, params.workspace) as folder:
        await _check_seen(caller, params.workspace, str(folder))
        session = await caller.runtime.create_session(
            agent=params.agent,
            workspace=folder,
            model=params.model,
            title=params.title,
            budget=params.budget,
            request=caller.request,
        )
    return await caller.session(session.session_id)


async def _check_seen(caller: Caller, wanted: str | None, folder: str) -> None:
    """Raises `ValidationError` for the folder that was made for a session which the caller can't see."""
    if wanted is None or not caller.is_limited or not caller.daemon.folders.holds(folder):
        return
    seen = SessionFilter(
        workspace=folder,
        deleted="also",
        limit=1,
        within=caller.visible,
    )
    if not (await caller.runtime.store.session_page(seen)).sessions:
        raise ValidationError(
            f"{wanted!r} is no folder of a session that this token is for. Leave the workspace out "
            "to get a new folder.",
            field="workspace",
        )


@methods.add("session/get", Role.OBSERVER)
async def get_session(caller: Caller, params: OneSession) -> SessionRow:
    """One session."""
    return await caller.session(params.session_id)


@methods.add("session/messages", Role.OBSERVER)
async def list_messages(caller: Caller, params: ListMessages) -> Messages:
    """Messages of a session, by page."""
    await caller.session(params.session_id)
    store = caller.runtime.store

    async def read(last: MessageRow | None, count: int) -> list[MessageRow]:
        after = params.after if last is None else last.position
        return await store.messages(params.session_id, after=after, limit=count)

    rows, has_more = await byte_page(read, page(params.limit))
    return Messages(rows, has_more)


async def prompted(caller: Caller, done: DoneRequest) -> Ticket:
    """The ticket of a request that has its effect on record: an input, or a turn run again."""
    await caller.session(done.session_id)
    stored, *behind = await caller.runtime.store.events(
        done.session_id, after_seq=done.seq - 1, limit=2
    )
    event, turn_id = stored.event, None
    assert isinstance(event, InputAccepted | TurnSetAside)
    input_id = event.input_id if isinstance(event, InputAccepted) else event.input_ids[0]
    if behind and isinstance(started := behind[0].event, TurnStarted):  # of the same commit
        turn_id = started.turn_id if input_id in started.input_ids else None
    return Ticket(input_id, stored.seq, turn_id)


@methods.add("session/prompt", Role.OPERATOR, recall=prompted)
async def prompt(caller: Caller, params: Prompt) -> Ticket:
    """Gives a session an input; on record when this answers."""
    if caller.daemon.is_stopping:
        raise OverloadedError(
            "the daemon is stopping: nothing new begins. Ask again when it is back.",
            kind="stopping",
        )
    row = await caller.session(params.session_id)
    if params.options is not None or params.mode is InputMode.STEER:
        ticket = await submit_with(caller, row, params)
        return Ticket(ticket.input_id, ticket.seq, ticket.turn_id)
    session = await caller.runtime.get_session(params.session_id)
    ticket = await session.submit(
        params.content,
        params.attachments,
        budget=params.budget,
        mode=params.mode,
        request=caller.request,
    )
    return Ticket(ticket.input_id, ticket.seq, ticket.turn_id)


@methods.add("session/cancel", Role.OPERATOR, is_slow=True)
async def cancel(caller: Caller, params: Cancel) -> Cancelled:
    """Cancels a turn; answers when everything of it is gone."""
    await caller.session(params.session_id)
    session = await caller.runtime.get_session(params.session_id)
    return Cancelled(await session.cancel(params.reason, input_id=params.input_id))


@methods.add("session/subscribe", Role.OBSERVER)
async def subscribe(caller: Caller, params: Subscribe) -> Subscribed:
    """Hears a session, behind an event or from now on."""
    check_epoch(caller, params.epoch)
    row = await caller.session(params.session_id)
    position = row.head_seq if params.after_seq is None else params.after_seq
    if not 0 <= position <= row.head_seq:
        raise ConflictError(
            f"{params.session_id} has {row.head_seq} events; after_seq={position} is of another "
            "store. Start over with after_seq=0.",
            kind="seq",
        )
    begin = caller.subscriptions.subscribe(params.session_id, position)
    caller.afterwards(begin)
    return Subscribed(row.head_seq)


@methods.add("session/unsubscribe", Role.OBSERVER)
def unsubscribe(caller: Caller, params: OneSession) -> Nothing:
    """Hears a session no more."""
    caller.subscriptions.unsubscribe(params.session_id)
    return Nothing()


@methods.add("session/retry", Role.OPERATOR, recall=prompted)
async def retry(caller: Caller, params: RunAgain) -> Ticket:
    """Runs the last turn again, which was not answered; on record when this answers."""
    return await _again(caller, params, "retry")


@methods.add("session/regenerate", Role.OPERATOR, recall=prompted)
async def regenerate(caller: Caller, params: RunAgain) -> Ticket:
    """Sets the last answer aside and asks for another; on record when this answers."""
    return await _again(caller, params, "regenerate")


async def _again(caller: Caller, params: RunAgain, why: RerunWay) -> Ticket:
    if caller.daemon.is_stopping:
        raise OverloadedError(
            "the daemon is stopping: nothing new begins. Ask again when it is back.",
            kind="stopping",
        )
    await caller.session(params.session_id)
    ticket = await directory_of(caller.runtime).ask(
        RerunTurn(
            session_id=params.session_id,
            why=why,
            message_id=params.message_id,
            request=caller.request,
        )
    )
    return Ticket(ticket.input_id, ticket.seq, ticket.turn_id)
