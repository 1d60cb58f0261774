"""A daemon from afar: the same sessions, prompts and answers, over its websocket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Literal, TypeVar

import msgspec
import trio

from ..runtime.approval import ApprovalAnswer, ApprovalRequest
from ..runtime.budget import Budget
from ..runtime.definitions import InputMode
from ..runtime.errors import CallboardError, ValidationError
from ..runtime.event_types.inputs import InputDelivered
from ..runtime.events import (
    InputCancelled,
    MessageCompleted,
    Stored,
    TurnEnded,
    TurnStarted,
    error_of_turn,
)
from ..runtime.history import Attachment, text_of
from ..runtime.identity import new_id
from ..runtime.redaction import Secret
from ..runtime.store.feeds import Topic
from ..runtime.store.lists import CallPage, SessionPage
from ..runtime.store.rows import ApprovalRow, CallRow, GrantRow, MessageRow, SessionRow
from ..runtime.turn_options import TurnOptions
from ..runtime.wire.approvals import (
    AnswerQuestion,
    Approvals,
    Grants,
    ListApprovals,
    OneApproval,
    OneGrant,
    Remember,
    Resolve,
)
from ..runtime.wire.daemon import ListCalls, Status, ToolList
from ..runtime.wire.fields import Nothing
from ..runtime.wire.hello import Welcome
from ..runtime.wire.sessions import (
    Cancel,
    Cancelled,
    ListMessages,
    ListSessions,
    Messages,
    NewSession,
    OneSession,
    Prompt,
    Ticket,
)
from .address import find_address
from .administration import ClientMemories, ClientTokens, ClientUpkeep
from .events import RemoteEvents
from .files import fetch_file, send_file
from .providers import ClientKeys, ClientModels, ClientProviders
from .sessions import SessionRequests
from .subscriptions import ClientHearing
from .topics import RemoteTopic


class AnswerOf:
    """Follows events on record until the turn of an input has ended.

    Attributes:
        text: The latest answer of that turn.
        is_over: Whether it has ended.
    """

    def __init__(self, input_id: str) -> None:
        self._input_id = input_id
        self._turn_id: str | None = None
        self._error: CallboardError | None = None
        self.text = ""
        self.is_over = False

    def see(self, stored: Stored) -> None:
        """Takes note of an event; those of other turns count for nothing."""
        match stored.event:
            case TurnStarted(turn_id=turn_id, input_ids=input_ids):
                if self._input_id in input_ids:
                    self._turn_id = turn_id
            case InputDelivered(turn_id=turn_id, input_id=self._input_id):
                self._turn_id = turn_id
            case MessageCompleted(turn_id=self._turn_id) as message:
                self.text = text_of(message.parts)
            case InputCancelled(input_id=self._input_id, reason=reason):
                self._end(TurnEnded(turn_id="", outcome="cancelled", message=reason))
            case TurnEnded(turn_id=self._turn_id) as ended if ended.outcome != "suspended":
                self._end(ended)
            case _:
                pass

    def result(self) -> str:
        """The text; raises a `CallboardError` when the turn was not answered."""
        if self._error is not None:
            raise self._error
        return self.text

    def _end(self, ended: TurnEnded) -> None:
        self.is_over = True
        self._error = None if ended.outcome == "answered" else error_of_turn(ended)


MAX_APPROVALS = 100
"""Questions that are listed: more than people answer at once."""

Result = TypeVar("Result")


class Client(SessionRequests):
    """A daemon that one is connected to; made by `connect`.

    Attributes:
        memories, providers, models, keys, tokens, upkeep: Its requests about these.

    A connection that breaks is made again. Prompts and new sessions are then asked for again, and
    done once; other requests that waited for an answer fail with a `NetworkError`. Events go on
    where they were.

    Example:
        session = await client.create_session()
        print(await client.ask(session.session_id, "What time is it in Tokyo?"))
        await client.rename(session.session_id, "The clock")
        print([row.title for row in await client.sessions()])
    """

    def __init__(self, url: str, token: Secret) -> None:
        self._hearing = ClientHearing(url, token)
        self._link = self._hearing.link
        self.memories = ClientMemories(self)
        self.providers = ClientProviders(self)
        self.models = ClientModels(self)
        self.keys = ClientKeys(self)
        self.tokens = ClientTokens(self)
        self.upkeep = ClientUpkeep(self)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC128
        """Keeps connected; `connect` does it."""
        await self._link.run(task_status=task_status)

    @property
    def is_connected(self) -> bool:
        """Whether the daemon can be asked now, and not only once it is back."""
        return self._link.is_connected

    @property
    def stops_in(self) -> float | None:
        """The seconds that turns have, since the daemon said that it stops; `None` until then."""
        return self._hearing.stops_in

    @property
    def welcome(self) -> Welcome:
        """What the daemon said of itself: its version, the role of the token, its methods."""
        assert self._link.welcome is not None
        return self._link.welcome

    async def request(
        self,
        method: str,
        params: msgspec.Struct,
        result: type[Result],
        *,
        key: str | None = None,
    ) -> Result:
        """Calls any method of the protocol; the others are short forms of this.

        Args:
            method: Its name.
            params: What it takes.
            result: What it gives.
            key: A word for this request and for no other. The daemon does it once however often it
                comes, and a broken connection is no error: it is sent again over the next one.

        Raises:
            CallboardError: What the daemon says is wrong, by its type.
            NetworkError: The connection broke before the answer came, and there was no key; or the
                daemon is away for minutes.
            OverloadedError: The daemon ends (of the kind `stopping`), and there was no key, or it did
                not come back.
            DeadlineError: The daemon is there, and has not answered for a minute; for what may take
                long, as `store/backup` does, a quarter of an hour.
        """
        return await self._link.request(method, params, result, key=key)

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
        """Begins a session; see `Runtime.create_session`. One, also when the connection breaks."""
        params = NewSession(
            agent=agent, workspace=workspace, model=model, title=title, budget=budget
        )
        return await self.request("session/new", params, SessionRow, key=new_id("request"))

    async def sessions(self, *, limit: int = 100) -> list[SessionRow]:
        """Sessions on record, the latest activity first."""
        return (await self.request("session/list", ListSessions(limit=limit), SessionPage)).sessions

    async def session(self, session_id: str) -> SessionRow:
        """A session on record; raises `NotFoundError`."""
        return await self.request("session/get", OneSession(session_id), SessionRow)

    async def messages(
        self, session_id: str, *, after: int = 0, limit: int = 100
    ) -> list[MessageRow]:
        """Messages of a session behind a position, in order."""
        rows: list[MessageRow] = []
        while True:  # a page may end at a size
            params = ListMessages(session_id=session_id, after=after, limit=limit - len(rows))
            page = await self.request("session/messages", params, Messages)
            rows += page.messages
            if not page.has_more or len(rows) >= limit:
                return rows
            after = rows[-1].position

    async def prompt(
        self,
        session_id: str,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        budget: Budget | None = None,
        mode: InputMode | Literal["queue", "steer", "interrupt"] = InputMode.QUEUE,
        options: TurnOptions | None = None,
    ) -> Ticket:
        """Gives a session an input; on the daemon's record, once, when this returns.

        It waits while the daemon is away, or restarts, for two minutes at most.

        `mode` is what it is to a turn that runs; see `Session.submit`. `options` are what its turn
        has in the place of the agent's own.
        """
        params = Prompt(
            session_id=session_id,
            content=text,
            attachments=tuple(attachments),
            budget=budget,
            mode=InputMode(mode),
            options=options,
        )
        return await self.request("session/prompt", params, Ticket, key=new_id("request"))

    async def ask(
        self,
        session_id: str,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        budget: Budget | None = None,
    ) -> str:
        """Prompts and returns the answer's text; goes on by itself while the daemon is away.

        Cancelling it leaves the turn to go on: `cancel` ends that. A call that must be allowed
        waits for whoever answers.

        Raises:
            ConflictError: This client hears the session already: then look for the answer there.
            CallboardError: The turn was not answered; the error's type says why.
        """
        async with self.events(session_id) as events:
            ticket = await self.prompt(session_id, text, attachments, budget=budget)
            answer = AnswerOf(ticket.input_id)
            async for event in events:
                if isinstance(event, Stored):
                    answer.see(event)
                if answer.is_over:
                    break
        return answer.result()

    async def cancel(self, session_id: str, reason: str = "cancelled by a client") -> bool:
        """Cancels the running turn; returns when everything of it is gone (`False`: none ran)."""
        params = Cancel(session_id=session_id, reason=reason)
        return (await self.request("session/cancel", params, Cancelled)).was_running

    def events(
        self, session_id: str, *, after_seq: int | None = None, epoch: str | None = None
    ) -> RemoteEvents:
        """All that happens in a session behind an event, or from now on: enter it, then iterate.

        It goes on by itself over broken connections and restarts of the daemon, and waits while it is
        away. Who goes on from a `seq` that was kept gives the `epoch` of it, too: in another store, as
        a restored backup is one, that is a `ConflictError` of the kind `seq`. What only a later version
        knows is passed over.

        Example:
            async with client.events(session.session_id) as events:
                await client.prompt(session.session_id, "What time is it in Tokyo?")
                async for event in events:
                    print(event)
        """
        return RemoteEvents(self._hearing, session_id, after_seq, epoch)

    def topic(
        self,
        topic: Topic | Literal["approvals", "sessions", "runtime"],
        *,
        after_seq: int | None = None,
        epoch: str | None = None,
    ) -> RemoteTopic:
        """What happens in all sessions that concerns a topic: enter it, then iterate.

        Like `events`, it goes on by itself; `after_seq` counts in all topics, and in its `epoch`.

        Example:
            async with client.topic("approvals") as topic:
                for question in await client.approvals():
                    print("waits already:", question.approval_id)
                async for event in topic:
                    print(event)
        """
        return RemoteTopic(self._hearing, Topic(topic), after_seq, epoch)

    async def export_session(self, session_id: str) -> bytes:
        """A session and all below it, as a file of JSON Lines."""
        return await fetch_file(self, session_id)

    async def import_session(self, file: bytes, *, workspace: str | None = None) -> str:
        """Makes new sessions of a file, all or none of them; gives the id of the first."""
        return await send_file(self, file, workspace)

    # ── people ───────────────────────────────────────────────────────────────────────────────────

    async def approvals(self, *, state: str | None = "waiting") -> list[ApprovalRow]:
        """Questions to a person, the latest first, at most 100."""
        rows: list[ApprovalRow] = []
        has_more = True
        while has_more and len(rows) < MAX_APPROVALS:  # a page may end at a size
            params = ListApprovals(
                state=state,
                before=rows[-1].approval_id if rows else None,
                limit=MAX_APPROVALS - len(rows),
            )
            page = await self.request("approval/list", params, Approvals)
            rows, has_more = [*rows, *page.approvals], page.has_more
        return rows

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """A question that waits, as it is put to a person; see `Runtime.approval`."""
        params = OneApproval(approval_id=approval_id, arguments=arguments)
        return await self.request("approval/get", params, ApprovalRequest)

    async def answer(
        self, approval_id: str, answer: ApprovalAnswer | Literal["allow", "deny"]
    ) -> None:
        """Answers a question; on record on return. The daemon notes the token's name as who did."""
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
        """Answers a question of a model."""
        params = AnswerQuestion(question_id=question_id, text=text, option=option)
        await self.request("question/answer", params, Nothing)

    async def grants(self) -> list[GrantRow]:
        """The remembered answers that hold."""
        return (await self.request("grant/list", Nothing(), Grants)).grants

    async def revoke(self, grant_id: str) -> None:
        """Ends a remembered answer."""
        await self.request("grant/revoke", OneGrant(grant_id), Nothing)

    # ── the daemon ───────────────────────────────────────────────────────────────────────────────

    async def tools(self) -> ToolList:
        """All tools."""
        return await self.request("tool/list", Nothing(), ToolList)

    async def calls(self, *, session_id: str | None = None, limit: int = 100) -> list[CallRow]:
        """Tool calls on record, the latest first."""
        params = ListCalls(session_id=session_id, limit=limit)
        return (await self.request("tool/history", params, CallPage)).calls

    async def status(self) -> Status:
        """How the daemon is."""
        return await self.request("runtime/status", Nothing(), Status)

    async def shutdown(self) -> None:
        """Ends the daemon in order."""
        await self.request("runtime/shutdown", Nothing(), Nothing)


@asynccontextmanager
async def connect(url: str | None = None, token: str = "") -> AsyncGenerator[Client]:
    """A client of a daemon around the block; leaving it ends nothing but the connection.

    Args:
        url: Of its websocket, as `callboard serve` prints it. By default that of the daemon on this
            user's data folder, which then needs no token.
        token: A credential, as `callboard serve` or `callboard token create` prints it.

    Raises:
        ValidationError: The URL is none of a daemon.
        NotFoundError: Without a URL: none of this user's runs.
        NetworkError: There is no daemon, but nothing or another program.
        OverloadedError: It starts, or ends, or has no room: come back.
        AuthError: It does not know the token.

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
    client = Client(*find_address(url, token))
    raised: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(client.run, name="client")
            try:
                yield client
            except BaseException as error:  # noqa: ASYNC103  raised again below
                raised = error
            finally:
                nursery.cancel_scope.cancel(reason="the client closes")
    except* CallboardError as group:
        if raised is None:
            raised = group.exceptions[0]
    finally:
        if raised is not None:
            raise raised
