"""The runtime inside a Trio program: open it, make a session, prompt it, read the events."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import msgspec
import trio

from .actors.permission_broker import Approver
from .config.settings import Settings
from .host import Host, Plan, open_host
from .models import ModelFinder
from .providers.catalog import Wish
from .providers.provider import LocalModel
from .runtime.definitions import Agent, Preset, ToolDefinition
from .runtime.errors import CallboardError, NotFoundError, ValidationError, error_of
from .runtime.events import (
    CallProgress,
    DurableEvent,
    MessageCompleted,
    MessageDiscarded,
    SessionCreated,
    Stored,
    StreamBatch,
    TurnEnded,
)
from .runtime.history import Refusal, Text
from .runtime.mailbox import Reply
from .runtime.memory_store import open_memory_store
from .runtime.messages import (
    ApprovalAnswer,
    ApprovalRequest,
    CancelTurn,
    CreateSession,
    InputTicket,
    SubmitInput,
)
from .runtime.store import SessionRow, Store, StoreReader
from .runtime.stream import AnyStreamEvent
from .runtime.subscription import Subscription
from .tools.registry import ToolRegistry, builtin_tools
from .tools.tool import Tool
from .tools.workspace import open_workspace

LEAVE_SECONDS = 15.0
"""How long leaving a turn's block waits for the turn to be gone, even when itself cancelled."""

TurnEvent = AnyStreamEvent | DurableEvent | CallProgress | MessageDiscarded
"""What a turn tells: pieces of the stream as they come, and what is on the record."""


@asynccontextmanager
async def open_runtime(
    *,
    model: str | LocalModel | None = None,
    base_url: str | None = None,
    workspace: str | Path | None = None,
    data: str | Path | None = None,
    tools: Sequence[Tool] = (),
    agents: Sequence[Agent] = (),
    policy: Preset | str | None = None,
    on_approval: Approver | Literal["allow", "deny"] | None = None,
    settings: Settings | None = None,
    environ: Mapping[str, str] | None = None,
    strict: bool = False,
) -> AsyncGenerator[Runtime, None]:
    """Runs callboard around the block; leaving it ends all turns and closes the store.

    Cancelling the block ends turns in order, within some seconds; nothing is left behind.

    Args:
        model: `PROVIDER/MODEL`, or a model object such as `ScriptedModel`. Without it: the
            configured default, a provider whose key is in the environment, a server on this
            machine, and last the built-in rehearsal model.
        base_url: Any server that speaks a known wire format; `model` is then its model's id.
        workspace: The folder that sessions work in; the current one by default.
        data: The folder of the journal; `None` keeps everything in memory.
        tools: Own tools beside the built-in ones.
        agents: Own agents beside `general`.
        policy: How much runs without asking; overrides the agents' own.
        on_approval: Asks a person: an async function, or `"allow"` or `"deny"` for all. Without
            it, what would ask is denied.
        settings: The configuration; the defaults when `None` (no file is read).
        environ: Where keys are looked up; the process's environment by default.
        strict: Lets a crash of an actor end the runtime, for tests.

    Raises:
        NotFoundError: The model or its provider does not exist.
        ConflictError: Another process writes to `data`.
    """
    settings = settings or Settings()
    registry = ToolRegistry([*builtin_tools(), *tools])
    known = _agents(settings, agents, policy)
    wish = Wish(
        choice=model if isinstance(model, str) else None,
        base_url=base_url,
        settings=settings,
        environ=os.environ if environ is None else environ,
    )
    finder = ModelFinder(wish, local=model if isinstance(model, LocalModel) else None)
    plan = Plan(
        store=await _open_store(data),
        models=finder,
        registry=registry,
        agents=known,
        approver=_approver(on_approval),
        forbidden=() if data is None else (_folder(data),),
        limits=settings.limits,
        network=settings.network,
        strict=strict,
    )
    async with open_host(plan) as host:
        await finder.look_around(host.http)
        finder.target(None)
        yield Runtime(host, _folder(workspace or "."), finder)


class Runtime:
    """A running callboard; made by `open_runtime`."""

    def __init__(self, host: Host, workspace: Path, models: ModelFinder) -> None:
        self._host = host
        self._workspace = workspace
        self._models = models

    @property
    def store(self) -> StoreReader:
        """What is on record: sessions, messages, calls, usage."""
        return self._host.plan.store

    @property
    def model(self) -> str:
        """The default `PROVIDER/MODEL`."""
        target = self._models.target(None)
        return f"{target.provider}/{target.model}"

    @property
    def model_reason(self) -> str:
        """Why it is that one, for a person: "because OPENAI_API_KEY is set"."""
        return self._models.reason

    def tools(self) -> tuple[ToolDefinition, ...]:
        """All tools, in the order in which models see them."""
        return tuple(tool.definition for tool in self._host.plan.registry.list())

    async def create_session(
        self,
        *,
        agent: str = "general",
        workspace: str | Path | None = None,
        model: str | None = None,
        title: str = "",
    ) -> Session:
        """Begins a session; it is on record when this returns.

        Args:
            agent: The name of its agent.
            workspace: The folder that it works in; the runtime's by default.
            model: `PROVIDER/MODEL`; the agent's, else the runtime's by default.
            title: What it is called; by default the first words of its first input.

        Raises:
            ValidationError: The workspace is not a folder that may be one.
            NotFoundError: There is no such agent or model.
        """
        host = self._host
        if agent not in host.plan.agents:
            known = ", ".join(sorted(host.plan.agents))
            raise NotFoundError(f"there is no agent {agent!r}; there are: {known}")
        folder = _folder(workspace) if workspace is not None else self._workspace
        open_workspace(folder, forbidden=host.plan.forbidden).close()
        if model is not None:
            self._models.target(model)
        created = SessionCreated(agent=agent, workspace=str(folder), title=title, model=model)
        session_id: str = await host.directory.ask(CreateSession(created=created))
        return Session(host, session_id)

    async def get_session(self, session_id: str) -> Session:
        """A session on record.

        Raises:
            NotFoundError: There is none of that id.
        """
        if await self.store.session(session_id) is None:
            raise NotFoundError(f"there is no session {session_id}")
        return Session(self._host, session_id)

    async def sessions(self, *, limit: int = 100) -> list[SessionRow]:
        """Sessions on record, the latest activity first."""
        return await self.store.sessions(limit=limit)


class Session:
    """One conversation; made by `Runtime`. A handle: dropping it ends nothing."""

    def __init__(self, host: Host, session_id: str) -> None:
        self._host = host
        self.session_id = session_id

    def prompt(self, text: str) -> Turn:
        """A turn for this input: enter it with `async with`, then iterate over its events.

        The input is stored when the block is entered; while another turn runs it waits for its
        own. Leaving the block before the end cancels the turn and waits until it is gone.
        """
        return Turn(self._host, self.session_id, text)

    async def run(self, text: str) -> str:
        """Prompts and returns the final answer's text. Cancelling it cancels the turn.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        async with self.prompt(text) as turn:
            return await turn.answer()


class Turn:
    """One turn, from an input to the final answer; made by `Session.prompt`.

    Attributes:
        input_id: The input's id, once entered.
        seq: The `seq` of the last event on record that was seen.
        at_ms: When that one was stored, in Unix milliseconds.
        ended: How it ended, once it has.
    """

    def __init__(self, host: Host, session_id: str, text: str) -> None:
        self._host = host
        self._session_id = session_id
        self._text = text
        self._subscription = Subscription()
        self._events: deque[TurnEvent | Stored] = deque()
        self._answer = ""
        self.input_id = ""
        self.seq = 0
        self.at_ms = 0
        self.ended: TurnEnded | None = None

    async def __aenter__(self) -> Self:
        submitted: Reply[InputTicket] = Reply()
        await self._host.directory.tell(
            SubmitInput(
                session_id=self._session_id,
                text=self._text,
                subscription=self._subscription,
                reply=submitted,
            )
        )
        try:
            self.input_id = (await submitted.wait()).input_id
        except trio.Cancelled:
            # The input is stored or about to be, and `__aexit__` won't be called.
            with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(CallboardError):
                self.input_id = (await submitted.wait()).input_id
                await self.cancel("the program left the turn")
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.ended is not None or self._subscription.is_closed:
            return
        # An error here means that session or runtime have ended, and the turn with them.
        with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(CallboardError):
            await self.cancel("the program left the turn")

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> TurnEvent:
        """The next event; waits for it, and ends behind `TurnEnded`."""
        if not self._events and not await self.wait_events():
            raise StopAsyncIteration
        # As in `next_event_nowait`, whose call would cost a sixth more.
        event = self._events.popleft()
        if isinstance(event, Stored):
            self._note(event)
            return event.event
        return event

    async def next_events(self) -> list[TurnEvent]:
        """Everything that has come since, at once; waits for some, and is empty at the end."""
        await self.wait_events()
        return list(iter(self.next_event_nowait, None))

    async def wait_events(self) -> bool:
        """Waits until there are events that were not read; `False` at the end."""
        while not self._events and await self.fetch_events():
            pass
        return bool(self._events)

    async def fetch_events(self) -> bool:
        """Waits until more have come, whatever there is already; `False` at the end."""
        updates = await self._subscription.take()
        for update in updates:
            if isinstance(update, StreamBatch):
                self._events.extend(update.events)
            else:
                self._events.append(update)
        return bool(updates)

    def next_event_nowait(self) -> TurnEvent | None:
        """The next event, if it has come already."""
        event = self._events.popleft() if self._events else None
        if isinstance(event, Stored):
            self._note(event)
            return event.event
        return event

    async def answer(self) -> str:
        """Reads to the end and returns the final answer's text.

        Raises:
            CallboardError: The turn was not answered; the error's type says why.
        """
        while self.ended is None:
            while self._events:
                if isinstance(event := self._events.popleft(), Stored):
                    self._note(event)
            if self.ended is None:
                updates = await self._subscription.take()
                self._events.extend(update for update in updates if isinstance(update, Stored))
        if self.ended.outcome == "answered":
            return self._answer
        raise _error_of(self.ended)

    async def cancel(self, reason: str = "cancelled by the program") -> None:
        """Cancels the turn; returns when everything of it is gone. Its events can still be read."""
        # Whoever cancels no longer paces: a full queue must not hold up the end.
        self._subscription.let_go()
        await self._host.directory.ask(
            CancelTurn(session_id=self._session_id, reason=reason, input_id=self.input_id)
        )

    def _note(self, stored: Stored) -> None:
        self.seq, self.at_ms = stored.seq, stored.at_ms
        match stored.event:
            case MessageCompleted(parts=parts):
                self._answer = "".join(
                    part.text for part in parts if isinstance(part, Text | Refusal)
                )
            case TurnEnded() as ended:
                self.ended = ended
            case _:
                pass


async def _open_store(data: str | Path | None) -> Store:
    if data is None:
        return open_memory_store()
    from .runtime.sqlite_store import open_disk_store  # here: an app in memory needs it not

    return await open_disk_store(_folder(data))


def _folder(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()


def _error_of(ended: TurnEnded) -> CallboardError:
    text = ended.message or f"the turn ended: {ended.outcome}"
    return error_of(ended.error_type or "conflict", text)


def _approver(choice: Approver | Literal["allow", "deny"] | None) -> Approver | None:
    if choice is None or callable(choice):
        return choice

    async def same_for_all(request: ApprovalRequest) -> ApprovalAnswer:
        await trio.lowlevel.checkpoint()
        return ApprovalAnswer(decision=choice, reason="on_approval says so for all calls")

    return same_for_all


def _agents(
    settings: Settings, own: Sequence[Agent], policy: Preset | str | None
) -> dict[str, Agent]:
    agents = {"general": settings.agent("general"), **settings.agents}
    agents.update((agent.name, agent) for agent in own)
    if policy is None:
        return agents
    try:
        preset = Preset(policy)
    except ValueError:
        known = ", ".join(Preset)
        raise ValidationError(f"there is no policy {policy!r}; there are: {known}") from None
    return {name: msgspec.structs.replace(a, policy=preset) for name, a in agents.items()}
