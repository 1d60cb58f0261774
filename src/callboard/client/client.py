"""The client of a daemon: its requests as methods, and `connect`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import trio

from ..runtime.approval import ApprovalAnswer, ApprovalRequest
from ..runtime.budget import Budget
from ..runtime.changes.undo_report import ChangedCall, UndoReport
from ..runtime.channel import UserQuestion
from ..runtime.definitions import Attachment, SessionKind
from ..runtime.errors import CallboardError, ShortTracebacks, ValidationError, shorten
from ..runtime.identity import new_id
from ..runtime.kernel.live_lists import lists_named
from ..runtime.kernel.user_code import check_trio
from ..runtime.store.feeds import Topic
from ..runtime.store.lists import Hit, SessionPage
from ..runtime.store.rows import ApprovalRow, GrantRow, MessageRow, SessionRow
from ..runtime.wire import sessions as wire
from ..runtime.wire.approvals import (
    AnswerQuestion,
    CheckPolicy,
    Grants,
    ListApprovals,
    ListQuestions,
    OneApproval,
    OneGrant,
    PolicyAnswer,
    Remember,
    Resolve,
)
from ..runtime.wire.daemon import Changes, Status, UndoChanges
from ..runtime.wire.fields import Nothing
from ..runtime.wire.hello import Welcome
from ..runtime.wire.lists import KnownLists, ListRevisions
from ..runtime.wire.topics import StoreAway
from ..runtime.wire.turns import OneTurn, TurnRecord
from .address import OWN_SECONDS, NodeAddresses, find_address, wait_own
from .administration import (
    ClientAgents,
    ClientHooks,
    ClientKeys,
    ClientMemories,
    ClientModels,
    ClientProviders,
    ClientSchedules,
    ClientSettings,
    ClientSkills,
    ClientTokens,
    ClientUpkeep,
)
from .files import fetch_file, send_file
from .link import ConnectionBroke, Link, Place
from .pages import read_approvals, read_attachment, read_messages, read_questions
from .prompts import ClientPrompts
from .subscriptions import ClientSubscriptions, RemoteTopic
from .tools import ToolRequests

if TYPE_CHECKING:  # what a request needs of it is imported when it is made
    from ..config.daemon_file import RunningDaemon
    from ..config.usage_sums import UsageReport
    from .servers import ClientMcp

MAX_APPROVALS = 100
"""Questions listed at most."""


class Client(ClientPrompts, ToolRequests):
    """A connection to a daemon, made by `connect`.

    Attributes:
        agents, hooks, mcp, schedules, memories, providers, models, keys, settings, skills, tokens, upkeep: Its requests
            about these.

    A connection that breaks is made again. Prompts and new sessions are then asked for again, and
    done once; other requests that waited for an answer fail with a `NetworkError`. Events go on
    where they were.

    Example:
        session = await client.create_session()
        print(await client.ask(session.session_id, "What time is it in Tokyo?"))
        await client.rename(session.session_id, "The clock")
        print([row.title for row in await client.sessions()])
    """

    def __init__(self, place: Place, *, is_own: bool = False) -> None:
        super().__init__(ClientSubscriptions(place, is_own))
        self.agents = ClientAgents(self)
        self.schedules = ClientSchedules(self)
        self.settings = ClientSettings(self)
        self.skills = ClientSkills(self)
        self.hooks = ClientHooks(self)
        self.memories = ClientMemories(self)
        self.providers = ClientProviders(self)
        self.models = ClientModels(self)
        self.keys = ClientKeys(self)
        self.tokens = ClientTokens(self)
        self.upkeep = ClientUpkeep(self)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC128
        """Keep the connection until cancelled; `connect` runs this."""
        await self._link.run(task_status=task_status)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the daemon right now."""
        return self._link.is_connected

    @property
    def stops_in(self) -> float | None:
        """The seconds that turns have to end, once the daemon has announced that it stops."""
        return self._subscriptions.stops_in

    @property
    def store_unavailable(self) -> StoreAway | None:
        """Since when the daemon's database does not answer, and why nothing goes on; `None` while it does."""
        return self._subscriptions.store_unavailable

    @property
    def welcome(self) -> Welcome:
        """The daemon's answer to the hello: its version, the token's role, its methods."""
        assert self._link.welcome is not None
        return self._link.welcome

    @property
    def mcp(self) -> ClientMcp:
        """Requests about servers of the Model Context Protocol."""
        from .servers import ClientMcp  # few programs have any

        return ClientMcp(self)

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    async def create_session(
        self,
        *,
        agent: str = "general",
        workspace: str | None = None,
        model: str | None = None,
        title: str = "",
        budget: Budget | None = None,
    ) -> SessionRow:
        """Create a session, once even if the connection breaks; see `Runtime.create_session`."""
        params = wire.NewSession(
            agent=agent, workspace=workspace, model=model, title=title, budget=budget
        )
        return await self.request("session/new", params, SessionRow, key=new_id("request"))

    async def sessions(self, *, limit: int = 100) -> list[SessionRow]:
        """Return stored sessions, latest activity first."""
        wanted = wire.ListSessions(limit=limit)
        return (await self.request("session/list", wanted, SessionPage)).sessions

    async def session(self, session_id: str) -> SessionRow:
        """Return a session; raise `NotFoundError`."""
        return await self.request("session/get", wire.OneSession(session_id), SessionRow)

    async def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        latest_first: bool = False,
        limit: int = 100,
        from_message: str | None = None,
    ) -> list[MessageRow]:
        """Return messages between two positions, in order or the latest first; see `Session.messages`.

        With `from_message`, the first one is that message; `NotFoundError` if the session has none.
        """
        wanted = wire.ListMessages(session_id, after, before, latest_first, limit, from_message)
        return await read_messages(self, wanted)

    async def attachment(self, session_id: str, message_id: str, number: int = 0) -> Attachment:
        """Return a file that came with a message, by its place among `MessageRow.files`."""
        wanted = wire.GetAttachment(session_id=session_id, message_id=message_id, number=number)
        return await read_attachment(self, wanted)

    async def cancel(
        self,
        session_id: str,
        reason: str = "cancelled by a client",
        *,
        input_id: str | None = None,
    ) -> bool:
        """Cancel the running turn and wait until it is gone; return whether one ran.

        With `input_id`, only the turn of that input, running or waiting: a request that waits for a daemon
        that is away then reaches no later turn.
        """
        params = wire.Cancel(session_id=session_id, reason=reason, input_id=input_id)
        return (await self.request("session/cancel", params, wire.Cancelled)).was_running

    async def wait_lists(self, known: Mapping[str, int]) -> dict[str, int]:
        """Wait until one of these lists has changed; return the revisions of all of them.

        As `Runtime.wait_lists`: nothing is missed, nor over a lost connection. A revision of 0 returns at once.
        """
        wanted = KnownLists(lists_named(known))
        while True:
            await trio.lowlevel.checkpoint()
            with suppress(ConnectionBroke):  # asked again over the next connection
                found = await self.request("list/wait", wanted, ListRevisions)
                if found.revisions != wanted.known:
                    return {str(name): its for name, its in found.revisions.items()}

    def topic(
        self,
        topic: Topic | Literal["approvals", "sessions", "runtime"],
        *,
        after_seq: int | None = None,
        epoch: str | None = None,
    ) -> RemoteTopic:
        """Subscribe to events of all sessions on a topic: enter it, then iterate.

        Like `events`, it continues by itself; `after_seq` counts in all topics, and in its `epoch`.

        Example:
            async with client.topic("approvals") as topic:
                for question in await client.approvals():
                    print("waits already:", question.approval_id)
                async for event in topic:
                    print(event)
        """
        return RemoteTopic(self._subscriptions, Topic(topic), after_seq, epoch)

    async def find_sessions(
        self,
        query: str = "",
        *,
        agent: str | None = None,
        kind: Literal["main", "branch", "worker"] | None = None,
        workspace: str | None = None,
        deleted: Literal["no", "also", "only"] = "no",
        include_children: bool = True,
        before: int | None = None,
        limit: int = 100,
    ) -> SessionPage:
        """Return a page of sessions, latest activity first; its `next_before` begins the next page.

        Args:
            query: Text in their title, preview or id.
            agent: Only sessions of this agent.
            kind: Only sessions of this kind: begun by people, or delegated.
            workspace: Only sessions that work in this folder: its absolute path, links resolved.
            deleted: Leave deleted sessions out, return them also, or return only them.
            include_children: Also delegated sessions.
            before: The `next_before` of the page before.
            limit: How many at most.
        """
        params = wire.ListSessions(
            query=query,
            agent=agent,
            kind=None if kind is None else SessionKind(kind),
            workspace=workspace,
            deleted=deleted,
            include_children=include_children,
            before=before,
            limit=limit,
        )
        return await self.request("session/list", params, SessionPage)

    async def search(
        self,
        query: str,
        *,
        session_id: str | None = None,
        agent: str | None = None,
        kind: SessionKind | None = None,
        workspace: str | None = None,
        include_children: bool = True,
        limit: int = 20,
    ) -> Sequence[Hit]:
        """Return sessions with a message that has all these words, with the surrounding text.

        In the session `session_id` every message with the words is a hit, the latest first. Which sessions are
        looked through is said as to `sessions`.
        """
        wanted = wire.FindWords(
            query=query,
            session_id=session_id,
            agent=agent,
            kind=kind,
            workspace=workspace,
            include_children=include_children,
            limit=limit,
        )
        return (await self.request("session/search", wanted, wire.Hits)).hits

    async def rename(self, session_id: str, title: str) -> None:
        """Rename a session; no model replaces this title."""
        await self.request("session/rename", wire.Rename(session_id, title), Nothing)

    async def set_agent(self, session_ids: Iterable[str], agent: str) -> None:
        """Give sessions another agent, from their next turns on."""
        await self.request("session/set_agent", wire.SetAgent(tuple(session_ids), agent), Nothing)

    async def fork(
        self, session_id: str, message_id: str | None = None, *, title: str = ""
    ) -> SessionRow:
        """Return a new session that goes on from a message of another; see `Session.fork`."""
        params = wire.Fork(session_id=session_id, message_id=message_id, title=title)
        return await self.request("session/fork", params, SessionRow, key=new_id("request"))

    async def delete_messages(self, session_id: str, message_ids: Iterable[str]) -> tuple[str, ...]:
        """Delete messages of a session; see `Session.delete_messages`."""
        which = wire.DeleteMessages(session_id=session_id, message_ids=tuple(message_ids))
        gone = await self.request("session/delete_messages", which, wire.DeletedMessages)
        return gone.message_ids

    async def delete_sessions(self, session_ids: Iterable[str]) -> tuple[str, ...]:
        """Hide sessions with their children, and end their turns; return those that it hid."""
        return await self._batch("session/delete", session_ids)

    async def restore_sessions(self, session_ids: Iterable[str]) -> tuple[str, ...]:
        """Undo the deletion of sessions; return the restored ones."""
        return await self._batch("session/restore", session_ids)

    async def purge_sessions(self, session_ids: Iterable[str]) -> tuple[str, ...]:
        """Remove deleted sessions and their records for good; needs the role admin."""
        return await self._batch("session/purge", session_ids)

    async def _batch(self, method: str, session_ids: Iterable[str]) -> tuple[str, ...]:
        which = wire.NamedSessions(tuple(session_ids))
        return (await self.request(method, which, wire.SomeSessions)).session_ids

    async def export_session(self, session_id: str) -> bytes:
        """Return a session and its children as a file of JSON Lines."""
        return await fetch_file(self, session_id)

    async def import_session(self, file: bytes, *, workspace: str | None = None) -> str:
        """Import an exported file as new sessions; return the id of the first.

        They work in `workspace`, below one of the daemon's roots, or in a folder of their own.
        """
        return await send_file(self, file, workspace)

    # ── the last turn once more ──────────────────────────────────────────────────────────────────

    async def retry(self, session_id: str, *, message_id: str | None = None) -> wire.Ticket:
        """Run the last turn again, if it was not answered; see `Session.retry`."""
        return await self._again("session/retry", session_id, message_id)

    async def regenerate(self, session_id: str, *, message_id: str | None = None) -> wire.Ticket:
        """Ask for another answer of the last turn; see `Session.regenerate`."""
        return await self._again("session/regenerate", session_id, message_id)

    async def _again(self, method: str, session_id: str, message_id: str | None) -> wire.Ticket:
        params = wire.RunAgain(session_id=session_id, message_id=message_id)
        return await self.request(method, params, wire.Ticket, key=new_id("request"))

    # ── what happened in one, and what may ───────────────────────────────────────────────────────

    async def undo(
        self,
        session_id: str,
        *,
        call_id: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> UndoReport:
        """Undo what calls changed in files, the latest change first; see `Session.undo`.

        Args:
            session_id: The session whose calls are undone.
            call_id: One call, or the id of one undoing; all by default.
            force: Also what was changed since.
            dry_run: Only say what would be done.
        """
        params = UndoChanges(session_id=session_id, call_id=call_id, force=force, dry_run=dry_run)
        return await self.request("session/undo", params, UndoReport)

    async def changes(self, session_id: str) -> Sequence[ChangedCall]:
        """Return the calls whose changes of files can be undone or were, in their order."""
        return (await self.request("session/changes", wire.OneSession(session_id), Changes)).changes

    async def turn(
        self,
        session_id: str,
        turn_id: str | None = None,
        *,
        after_seq: int = 0,
        texts: bool = True,
    ) -> TurnRecord:
        """Return a page of the events of a turn, by default the session's latest, with their times.

        Args:
            session_id: Its session.
            turn_id: The turn.
            after_seq: Only events behind this one: of a page with `has_more`, its last.
            texts: Whether what was said is whole, or cut to its beginning.
        """
        params = OneTurn(session_id=session_id, turn_id=turn_id, after_seq=after_seq, texts=texts)
        return await self.request("turn/get", params, TurnRecord)

    async def cancel_call(self, session_id: str, call_id: str) -> bool:
        """Cancel one running call; its turn goes on. Return whether it ran."""
        params = wire.CancelCall(session_id=session_id, call_id=call_id)
        return (await self.request("call/cancel", params, wire.Cancelled)).was_running

    async def check_policy(self, session_id: str, tool: str, arguments: str) -> PolicyAnswer:
        """Return whether a call of a session would run, ask or be denied, and why; nothing runs.

        `arguments` is the text of a JSON object.
        """
        params = CheckPolicy(session_id=session_id, tool=tool, arguments=arguments)
        return await self.request("policy/check", params, PolicyAnswer)

    async def questions(self, *, session_id: str | None = None) -> Sequence[UserQuestion]:
        """Return all models' questions that wait for an answer, the first to expire first."""
        return await read_questions(self, ListQuestions(session_id=session_id))

    async def set_budget(self, session_id: str, budget: Budget | None) -> None:
        """Set a session's budget from its next turn on; `None` removes it."""
        params = wire.SetBudget(session_id=session_id, budget=budget)
        await self.request("session/set_budget", params, Nothing)

    async def usage(
        self,
        *,
        by: Literal["call", "turn", "session", "agent", "model", "day"] = "session",
        session_id: str | None = None,
        since_ms: int = 0,
    ) -> UsageReport:
        """Return tokens and cost of model calls, of one session or of all."""
        from ..config.usage_sums import UsageReport

        params = wire.GetUsage(by=by, session_id=session_id, since_ms=since_ms)
        return await self.request("usage/get", params, UsageReport)

    # ── people ───────────────────────────────────────────────────────────────────────────────────

    async def approvals(self, *, state: str | None = "waiting") -> list[ApprovalRow]:
        """Return approval questions, latest first, at most 100."""
        return await read_approvals(self, ListApprovals(state=state, limit=MAX_APPROVALS))

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """Return a waiting question as a person sees it; see `Runtime.approval`."""
        params = OneApproval(approval_id=approval_id, arguments=arguments)
        return await self.request("approval/get", params, ApprovalRequest)

    async def answer(
        self, approval_id: str, answer: ApprovalAnswer | Literal["allow", "deny"]
    ) -> None:
        """Answer an approval question, and store the answer under the token's name."""
        whole = answer if isinstance(answer, ApprovalAnswer) else ApprovalAnswer(decision=answer)
        if whole.decision not in ("allow", "deny"):
            raise ValidationError("the decision is allow or deny", field="decision")
        remember = None
        if whole.remember is not None:
            remember = Remember(scope=whole.remember, pattern=whole.pattern)
        params = Resolve(
            approval_id=approval_id,
            decision="allow" if whole.decision == "allow" else "deny",
            arguments=whole.arguments,
            remember=remember,
            reason=whole.reason,
        )
        await self.request("approval/resolve", params, Nothing)

    async def answer_question(
        self, question_id: str, text: str = "", *, option: int | None = None
    ) -> None:
        """Answer a model's question."""
        params = AnswerQuestion(question_id=question_id, text=text, option=option)
        await self.request("question/answer", params, Nothing)

    async def grants(self) -> list[GrantRow]:
        """Return the grants in force."""
        return (await self.request("grant/list", Nothing(), Grants)).grants

    async def revoke(self, grant_id: str) -> None:
        """Revoke a grant."""
        await self.request("grant/revoke", OneGrant(grant_id), Nothing)

    # ── the daemon ───────────────────────────────────────────────────────────────────────────────

    async def status(self) -> Status:
        """Return the daemon's status."""
        return await self.request("runtime/status", Nothing(), Status)

    async def shutdown(self) -> None:
        """Stop the daemon in order."""
        await self.request("runtime/shutdown", Nothing(), Nothing)


@asynccontextmanager
async def connect(
    url: str | None = None, token: str = "", *, urls: Sequence[str] = ()
) -> AsyncGenerator[Client]:
    """Connect to a daemon for the block; leaving it ends only the connection.

    Args:
        url: The URL of its websocket, as `callboard serve` prints it. By default that of the daemon
            on this user's data folder, which then needs no token: wherever that is after a restart.
        token: A credential, as `callboard serve` or `callboard token create` prints it.
        urls: Instead of a URL, those of nodes of a cluster: the client is connected to one, and goes on with
            the next when that one is gone; with others that it was told of, when none of these is there.

    Raises:
        ValidationError: The URL can't be that of a daemon, or there are both.
        NotFoundError: There is no URL, and no daemon of this user runs.
        NetworkError: Nothing listens at the address, or another program does.
        OverloadedError: The daemon is starting or stopping, or has no room: try again later.
        AuthError: The daemon does not know the token.

    Example:
        async with callboard.connect(url, token) as client:
            session = await client.create_session()
            async with client.events(session.session_id) as events:
                await client.prompt(session.session_id, "What time is it in Tokyo?")
                async for event in events:
                    if isinstance(getattr(event, "event", None), callboard.TurnEnded):
                        break
            print((await client.messages(session.session_id))[-1].content)
    """
    check_trio("callboard.connect", "Under asyncio, call trio.run in a thread")
    with ShortTracebacks():
        if not urls:
            client = Client(partial(find_address, url, token), is_own=url is None)
        elif url is not None:
            raise ValidationError("connect takes a url, or the urls of nodes, and not both")
        else:
            client = _client_of_nodes(NodeAddresses(urls, token))
    async with _connected(client):
        yield client


@asynccontextmanager
async def connect_here(
    data: Path,
    check: Callable[[RunningDaemon], None] | None = None,
    *,
    first_seconds: float = OWN_SECONDS,
) -> AsyncGenerator[Client]:
    """Connect to this user's daemon of a data folder, whichever process that is by now, for the block.

    A daemon for which `check` raises is none for this client, as long as it is there. The first connection is tried for
    `first_seconds`. Raises `NotFoundError` when no daemon appears for so long, what `check` raises for the first one, and
    what `connect` does.
    """
    await wait_own(data, first_seconds)
    place = partial(find_address, None, "", data, check)
    client = Client(place, is_own=True)
    link_of(client).first_seconds = first_seconds
    async with _connected(client):
        yield client


def _client_of_nodes(addresses: NodeAddresses) -> Client:
    client = Client(addresses)
    link = link_of(client)
    link.nodes = len(addresses.urls)

    def learn(welcome: Welcome) -> None:
        addresses.learn(welcome.nodes)
        link.nodes = len(addresses.urls)

    link.welcomed = learn
    return client


def link_of(client: Client) -> Link:
    """Return the connection of a client, for what a command does with each one first."""
    return client._link


@asynccontextmanager
async def _connected(client: Client) -> AsyncGenerator[None]:
    raised: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(client.run, name="client")
            try:
                yield
            except BaseException as error:  # noqa: ASYNC103  raised again below
                raised = error
            finally:
                nursery.cancel_scope.cancel(reason="the client closes")
    except* CallboardError as group:
        if raised is None and isinstance(raised := group.exceptions[0], CallboardError):
            shorten(raised)
    finally:
        if raised is not None:
            raise raised
