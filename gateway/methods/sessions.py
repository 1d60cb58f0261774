"""`session/…`: begin, list, read, prompt, cancel, change and purge conversations."""

from __future__ import annotations

from functools import partial

from ...actors.conversation.inputs import Given
from ...actors.people.lineage import agent_named
from ...actors.upkeep.keeping import checked_title
from ...config.prices import priced
from ...embedding.options import check_turn_options
from ...embedding.runtime import begin_session, host_of
from ...embedding.session import checked_mode
from ...embedding.turn import checked_text
from ...runtime.budget import checked_budget
from ...runtime.definitions import InputMode
from ...runtime.errors import (
    ConflictError,
    OverloadedError,
    PermissionRefused,
    ValidationError,
)
from ...runtime.event_types.turns import RerunWay
from ...runtime.events import InputAccepted, SessionCreated, TurnSetAside, TurnStarted
from ...runtime.history import checked_attachments
from ...runtime.messages import InputTicket, RerunTurn, SubmitInput
from ...runtime.store.feeds import DoneRequest
from ...runtime.store.lists import SessionFilter, SessionPage, WordSearch
from ...runtime.store.rows import MessageRow, SessionRow
from ...runtime.turn_options import TurnOptions
from ...runtime.wire import sessions as wire
from ...runtime.wire.fields import Role
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..shared.pages import byte_page, page
from ..shared.workspaces import chosen_workspace

methods = MethodTable()


async def _began(caller: Caller, done: DoneRequest) -> SessionRow:
    return await caller.session(done.session_id)


@methods.add("session/new", Role.OPERATOR, recall=_began)
async def new_session(caller: Caller, params: wire.NewSession) -> SessionRow:
    """Create a session."""
    limits = caller.credential
    if limits.sessions is not None:
        raise ConflictError("this token is for certain sessions: it can't begin others")
    if limits.agents is not None and params.agent not in limits.agents:
        raise ValidationError(f"this token is not for the agent {params.agent!r}", field="agent")
    async with chosen_workspace(caller.daemon, params.workspace) as folder:
        await _check_seen(caller, params.workspace, str(folder))
        created = SessionCreated(
            agent=params.agent,
            workspace="",
            title=checked_title(params.title),
            model=params.model,
            budget=checked_budget(params.budget),
            via=caller.via,
            request=caller.request,
        )
        session = await begin_session(caller.runtime, created, folder, ())
    return await caller.session(session.session_id)


async def _check_seen(caller: Caller, wanted: str | None, folder: str) -> None:
    """Raise `ValidationError` for the own folder of a session that the caller may not know of."""
    if wanted is None or not caller.is_limited or not caller.daemon.folders.holds(folder):
        return
    seen = SessionFilter(workspace=folder, deleted="also", limit=1, within=caller.visible)
    if not (await caller.runtime.store.session_page(seen)).sessions:
        raise ValidationError(
            f"{wanted!r} is not the folder of a session that this token is for. Leave the workspace out "
            "to get a new folder.",
            field="workspace",
        )


@methods.add("session/fork", Role.OPERATOR, recall=_began)
async def fork_session(caller: Caller, params: wire.Fork) -> SessionRow:
    """Create a session that goes on from a message of another one."""
    row = await caller.session(params.session_id)
    if caller.credential.sessions is not None:
        raise ConflictError("this token is for certain sessions: it can't begin others")
    host = host_of(caller.runtime)
    await host.pruning.check()
    session_id = await host.keeping.fork(
        row.session_id, params.message_id, title=params.title, request=caller.request
    )
    return await caller.session(session_id)


@methods.add("session/get", Role.OBSERVER)
async def get_session(caller: Caller, params: wire.OneSession) -> SessionRow:
    """Return a session."""
    (row,) = await caller.runtime.store.with_waiting([await caller.session(params.session_id)])
    return row


@methods.add("session/messages", Role.OBSERVER)
async def list_messages(caller: Caller, params: wire.ListMessages) -> wire.Messages:
    """Return a page of a session's messages."""
    await caller.session(params.session_id)
    store = caller.runtime.store

    async def read(last: MessageRow | None, count: int) -> list[MessageRow]:
        after, before, latest_first = params.after, params.before, params.latest_first
        if last is not None and latest_first:
            before = last.position
        elif last is not None:
            after = last.position
        return await store.messages(
            params.session_id,
            after=after,
            before=before,
            latest_first=latest_first,
            limit=count,
            from_message=params.from_message if last is None else None,
        )

    rows, has_more = await byte_page(read, page(params.limit))
    return wire.Messages(priced(rows, host_of(caller.runtime).force.prices), has_more)


async def prompted(caller: Caller, done: DoneRequest) -> wire.Ticket:
    """Return the ticket of a request whose effect is on record: an input, or a turn run again."""
    await caller.session(done.session_id)
    stored, *behind = await caller.runtime.store.events(
        done.session_id, after_seq=done.seq - 1, limit=2
    )
    event, turn_id = stored.event, None
    assert isinstance(event, InputAccepted | TurnSetAside)
    input_id = event.input_id if isinstance(event, InputAccepted) else event.input_ids[0]
    if behind and isinstance(started := behind[0].event, TurnStarted):  # of the same commit
        turn_id = started.turn_id if input_id in started.input_ids else None
    return wire.Ticket(input_id, stored.seq, turn_id)


def _check_running(caller: Caller) -> None:
    if caller.daemon.is_stopping:
        raise OverloadedError(
            "the daemon is stopping: nothing new begins. Ask again when it is back.",
            kind="stopping",
        )


@methods.add("session/prompt", Role.OPERATOR, recall=prompted, about="session_id")
async def prompt(caller: Caller, params: wire.Prompt) -> wire.Ticket:
    """Prompt a session; the input is on record when this answers."""
    _check_running(caller)
    row = await caller.session(params.session_id)
    command = _command(caller, row.session_id)
    if params.options is not None or params.mode is InputMode.STEER or caller.via or command:
        ticket = await submit_with(caller, row, params)
    else:
        session = await caller.runtime.get_session(params.session_id)
        ticket = await session.submit(
            params.content,
            params.attachments,
            budget=params.budget,
            mode=params.mode,
            request=caller.request,
            is_untrusted=params.is_untrusted,
            trace=params.trace,
        )
    return wire.Ticket(ticket.input_id, ticket.seq, ticket.turn_id)


@methods.add("session/cancel", Role.OPERATOR, is_slow=True, about="session_id")
async def cancel(caller: Caller, params: wire.Cancel) -> wire.Cancelled:
    """Cancel a turn; answers when it is gone."""
    await caller.session(params.session_id)
    session = await caller.runtime.get_session(params.session_id)
    return wire.Cancelled(await session.cancel(params.reason, input_id=params.input_id))


@methods.add("session/retry", Role.OPERATOR, recall=prompted, about="session_id")
async def retry(caller: Caller, params: wire.RunAgain) -> wire.Ticket:
    """Run the last turn again, if it was not answered; on record when this answers."""
    return await _again(caller, params, "retry")


@methods.add("session/regenerate", Role.OPERATOR, recall=prompted, about="session_id")
async def regenerate(caller: Caller, params: wire.RunAgain) -> wire.Ticket:
    """Set the last answer aside and ask for another; on record when this answers."""
    return await _again(caller, params, "regenerate")


async def _again(caller: Caller, params: wire.RunAgain, why: RerunWay) -> wire.Ticket:
    _check_running(caller)
    await caller.session(params.session_id)
    ticket = await host_of(caller.runtime).directory.ask(
        RerunTurn(
            session_id=params.session_id,
            why=why,
            message_id=params.message_id,
            request=caller.request,
            command=_command(caller, params.session_id),
        )
    )
    return wire.Ticket(ticket.input_id, ticket.seq, ticket.turn_id)


async def _known(caller: Caller, session_ids: tuple[str, ...]) -> None:
    """Raise `NotFoundError` for the first one that does not exist for this caller."""
    for session_id in session_ids:
        await caller.session(session_id)


@methods.add("session/list", Role.OBSERVER)
async def list_sessions(caller: Caller, params: wire.ListSessions) -> SessionPage:
    """Return a page of stored sessions, latest activity first."""
    wanted = SessionFilter(
        limit=page(params.limit),
        before=params.before,
        agent=params.agent,
        kind=params.kind,
        via=params.via,
        workspace=params.workspace,
        words=params.query,
        deleted=params.deleted,
        include_children=params.include_children,
        within=caller.visible,
    )
    store = caller.runtime.store
    found = await store.session_page(wanted)
    return SessionPage(await store.with_waiting(found.sessions), found.next_before)


@methods.add("session/search", Role.OBSERVER, is_slow=True)
async def search_sessions(caller: Caller, params: wire.FindWords) -> wire.Hits:
    """Find sessions by words that were said, or messages of one session, with the surrounding text."""
    if params.session_id is not None:
        await caller.session(params.session_id)
    search = WordSearch(
        query=params.query,
        limit=page(params.limit),
        session_id=params.session_id,
        agent=params.agent,
        kind=params.kind,
        via=params.via,
        workspace=params.workspace,
        include_children=params.include_children,
        within=caller.visible,
    )
    return wire.Hits(await host_of(caller.runtime).keeping.search(search))


@methods.add("session/delete_messages", Role.OPERATOR, about="session_id")
async def delete_messages(caller: Caller, params: wire.DeleteMessages) -> wire.DeletedMessages:
    """Delete messages: the model, lists, search and exports have them no more."""
    await caller.session(params.session_id)
    keeping = host_of(caller.runtime).keeping
    return wire.DeletedMessages(
        await keeping.delete_messages(params.session_id, params.message_ids)
    )


@methods.add("session/rename", Role.OPERATOR, about="session_id")
async def rename_session(caller: Caller, params: wire.Rename) -> Nothing:
    """Rename a session."""
    await _known(caller, (params.session_id,))
    await host_of(caller.runtime).keeping.rename(params.session_id, params.title)
    return Nothing()


@methods.add("session/set_agent", Role.OPERATOR, about="session_ids")
async def set_agent(caller: Caller, params: wire.SetAgent) -> Nothing:
    """Give sessions another agent, from their next turns on."""
    await _known(caller, params.session_ids)
    agents = caller.credential.agents
    if agents is not None and params.agent not in agents:
        raise ConflictError(f"this token is not for the agent {params.agent!r}")
    await host_of(caller.runtime).keeping.set_agent(params.session_ids, params.agent)
    return Nothing()


@methods.add("session/delete", Role.OPERATOR, is_slow=True, about="session_ids")
async def delete_sessions(caller: Caller, params: wire.NamedSessions) -> wire.SomeSessions:
    """Hide sessions with their children, and end their turns; `session/restore` undoes it."""
    await _known(caller, params.session_ids)
    return wire.SomeSessions(
        tuple(await host_of(caller.runtime).keeping.delete(params.session_ids))
    )


@methods.add("session/restore", Role.OPERATOR, about="session_ids")
async def restore_sessions(caller: Caller, params: wire.NamedSessions) -> wire.SomeSessions:
    """Undo the deletion of sessions."""
    await _known(caller, params.session_ids)
    return wire.SomeSessions(
        tuple(await host_of(caller.runtime).keeping.restore(params.session_ids))
    )


@methods.add("session/purge", Role.ADMIN, is_slow=True, about="session_ids")
async def purge_sessions(caller: Caller, params: wire.NamedSessions) -> wire.SomeSessions:
    """Remove deleted sessions and their records for good."""
    await _known(caller, params.session_ids)
    return wire.SomeSessions(tuple(await host_of(caller.runtime).keeping.purge(params.session_ids)))


@methods.add("session/give_options", Role.ADMIN)
async def give_options(caller: Caller, params: wire.GiveOptions) -> Nothing:
    """Give what a connection sends to a session options, for commands of the daemon's own user.

    They are those of its inputs, and of what comes of these, also when the connection is gone: the command may come back,
    and what goes on meanwhile must not run by laxer ones. As long as one command works in a session, no other gives it
    options.
    """
    daemon, session_id = caller.daemon, params.session_id
    if not daemon.is_local(caller.credential):
        raise PermissionRefused("only commands of the daemon's own user give a session options")
    await caller.session(session_id)
    if params.options.calls:
        raise ValidationError(
            "calls are of one input: give them with session/prompt", field="options"
        )
    await caller.check_here(session_id)
    host = host_of(caller.runtime)
    check_turn_options(host, params.options)
    given, before = host.given, _command(caller, session_id)
    if given.at_work(session_id) and not before:
        raise OverloadedError(f"another command works in {session_id}", kind="taken")
    channel = host.channels.channel if params.has_people else None
    command = given.begin(session_id, Given(params.options, channel))
    others = Given(params.options, channel, may_widen=False)
    theirs = command if params.is_for_left else given.add(others)
    await given.take_up(host.plan.store, session_id, params.left, theirs)
    caller.subscriptions.at_end(session_id, partial(given.end_work, session_id, command))
    return Nothing()


def _command(caller: Caller, session_id: str) -> str:
    """Return the command by which inputs of this connection have options, if it gave any."""
    is_own = caller.has_at_end(session_id)
    return host_of(caller.runtime).given.at_work(session_id) if is_own else ""


async def submit_with(caller: Caller, row: SessionRow, params: wire.Prompt) -> InputTicket:
    """Store an input with options for its turn, or one that steers a turn, as `Session.submit`.

    Raises:
        ValidationError: It steers, and has no turn of its own to have options or a budget.
        NotFoundError: There is no such provider.
        PermissionRefused: More would run without asking, and the caller may not decide that.
    """
    options = params.options
    if options is None:
        widens = row.agent if _may_widen(caller) else ""
    else:
        check_turn_options(host_of(caller.runtime), options, params.mode)
        widens = _widens(caller, row, options)
    return await host_of(caller.runtime).directory.ask(
        SubmitInput(
            session_id=params.session_id,
            text=checked_text(params.content),
            attachments=checked_attachments(params.attachments),
            budget=checked_budget(params.budget),
            mode=checked_mode(params.mode, params.budget),
            request=caller.request,
            options=options,
            widens=widens,
            is_untrusted=params.is_untrusted,
            trace=params.trace,
            via=caller.name if caller.via else "",
            command=_command(caller, params.session_id),
        )
    )


def _widens(caller: Caller, row: SessionRow, options: TurnOptions) -> str:
    """Return the name of the session's agent if the turn lets more run than it does, else nothing.

    Raises:
        PermissionRefused: It lets more run, and the caller may not decide that.
    """
    agent = agent_named(host_of(caller.runtime).agents, row.agent)  # as its turn will have it
    if not options.widens(agent):
        return ""
    if not _may_widen(caller):
        raise PermissionRefused(
            f"the policy {options.policy} lets more run without asking than the agent "
            f"{agent.name!r}, which has {agent.policy}: only an administrator gives a turn that"
        )
    return agent.name


def _may_widen(caller: Caller) -> bool:
    return caller.credential.role is Role.ADMIN and not caller.is_limited
