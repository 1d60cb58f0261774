"""A session that the editor has open: its events become updates, its prompts wait for their turns."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from ...client.client import Client
from ...client.subscriptions import RemoteEvent, RemoteEvents
from ...runtime.errors import (
    CallboardError,
    ConflictError,
    DeadlineError,
    NetworkError,
    OverloadedError,
    ValidationError,
)
from ...runtime.events import (
    DurableEvent,
    InputAccepted,
    InputCancelled,
    MessageCompleted,
    Stored,
    TurnEnded,
    TurnStarted,
    error_of_turn,
)
from ...runtime.identity import new_id
from ...runtime.kernel.service_nursery import open_service_nursery
from ...runtime.redaction import redacting_logger
from ...runtime.store.rows import SessionRow
from ...runtime.stream import Usage
from ...runtime.turn_options import TurnOptions
from ...runtime.wire.sessions import GetUsage
from ...runtime.wire.topics import Snapshot
from ..ask.daemon_questions import DaemonQuestions
from ..ask.pending_questions import PendingQuestion
from ..chat.status_line import ModelWindows
from ..terminal.escaping import safe_line, safe_text
from . import wire
from .connection import EditorConnection, EditorRequest
from .content import EditorPrompt
from .options import Choices, read_choices
from .questions import EditorChannel
from .slash import SEND, available
from .updates import Updates, thought

if TYPE_CHECKING:
    from ...config.mcp.wire import SessionServer

logger = redacting_logger(__name__)

STOP_REASONS = {
    "answered": "end_turn",
    "max_tokens": "max_tokens",
    "budget": "max_turn_requests",
    "loop_guard": "max_turn_requests",
    "refused": "refusal",
    "cancelled": "cancelled",
}
"""What an editor is told of how a turn ended; what is missing here failed."""
LIST_SECONDS = 30.0
"""Time until the editor's servers have listed their tools, before it is said why one has not."""
END_SECONDS = 10.0
"""Time to end the editor's servers; one that goes on longer than that has a daemon that is away, and ends with it."""
CANCEL_AGAIN_SECONDS = 0.2
"""Time until a cancel is sent again that a broken connection took along."""


class _Total(msgspec.Struct, frozen=True):
    cost: float | None = None
    unpriced_calls: int = 0


class _Report(msgspec.Struct, frozen=True):
    """What is shown of a `UsageReport`, whose module has all that sums are made by."""

    total: _Total


class _Waiting:
    """A prompt whose turn has not ended."""

    def __init__(self) -> None:
        self.input_id = ""
        self.turn_id = ""
        self.ended: TurnEnded | CallboardError | None = None
        self.over = trio.Event()
        self.accepted = trio.Event()
        self.is_wanted_gone = trio.Event()

    def end(self, ended: TurnEnded | CallboardError) -> None:
        self.ended = self.ended or ended
        self.over.set()


class EditorSession:
    """One session, as one editor has it open.

    Args:
        connection: The editor.
        client: The daemon.
        row: The session.
        choices: What was chosen for its turns.
        asks: What the editor can show of a model's or a server's question.
        is_loaded: Whether the editor is shown what was said before.
        servers: The MCP servers that the editor brings for it.

    Attributes:
        is_gone: Set when it is followed no more.
        lent: The model of this command, where the daemon is another command, and nothing else was chosen.
        offered: What a server made of a prompt, and the person has not sent.
        client: The daemon.
    """

    def __init__(
        self,
        connection: EditorConnection,
        client: Client,
        row: SessionRow,
        choices: Choices,
        *,
        asks: wire.ElicitationCapabilities | None,
        is_loaded: bool = False,
        servers: tuple[SessionServer, ...] = (),
    ) -> None:
        self.row = row
        self.folder = Path(row.workspace)
        self.choices = choices
        self.lent: str | None = None
        self.offered: EditorPrompt | None = None
        self.is_gone = trio.Event()
        self._scope = trio.CancelScope()
        self._failure: CallboardError | None = None
        self._connection = connection
        self.client = client
        self._own_inputs: set[str] = set()
        self._waiting: dict[str, _Waiting] = {}
        self._updates = Updates(self.folder, self._own_inputs, is_replay=is_loaded)
        self._windows = ModelWindows()
        self._is_loaded = is_loaded
        self._servers = servers
        self._is_announced = trio.Event()
        self._told: dict[str, str] = {}
        self._channel = EditorChannel(
            connection,
            client,
            row.session_id,
            self.folder,
            self._updates.shown,
            self._is_ending,
            has_forms=asks is not None and asks.form is not None,
            has_pages=asks is not None and asks.url is not None,
        )

    # ── what happens in it ───────────────────────────────────────────────────────────────────────

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Follow it until it is closed; started when all that was said before has been sent.

        Raises:
            CallboardError: Before it has started: it can't be followed.
        """
        has_started = False
        after, epoch = (0, self.client.welcome.epoch) if self._is_loaded else (None, None)
        try:
            with self._scope:
                async with (
                    self.client.events(self.row.session_id, after_seq=after, epoch=epoch) as events,
                    open_service_nursery("the session is closed") as nursery,
                ):
                    questions = DaemonQuestions(
                        self.client, self._channel, nursery, self._say_aside
                    )
                    await self._catch_up(events)
                    await self._put_waiting(questions)
                    nursery.start_soon(self._tell_prompts, name="prompts of servers")
                    if self._servers:
                        nursery.start_soon(self._tell_servers, name="the editor's servers")
                    has_started = True
                    task_status.started()
                    await self._follow(events, questions, nursery)
            self._failure = ConflictError("the session was closed, or opened again")
        except CallboardError as error:
            self._failure = error
            logger.warning("%s is not followed any more: %s", self.row.session_id, error)
        finally:
            self.is_gone.set()
        if not has_started:
            raise self._failure
        for waiting in self._waiting.values():
            waiting.end(self._failure)

    async def _catch_up(self, events: RemoteEvents) -> None:
        """Send what was said before, up to the present."""
        async for event in events:
            await self._show(event)
            if isinstance(event, Snapshot):
                break
        self._updates.is_replay = False

    async def _put_waiting(self, questions: DaemonQuestions) -> None:
        """Put the questions that wait already."""
        session_id = self.row.session_id
        for row in await self.client.approvals():
            if row.session_id == session_id and not row.same_as:
                questions.add(
                    PendingQuestion(question_id=row.approval_id, call_id=row.call_id, tool=row.tool)
                )
        for question in await self.client.questions(session_id=session_id):
            questions.add(
                PendingQuestion(
                    question_id=question.question_id, call_id=question.call_id, tool="ask_user"
                )
            )

    async def _follow(
        self, events: RemoteEvents, questions: DaemonQuestions, nursery: trio.Nursery
    ) -> None:
        async for event in events:
            await self._show(event)
            if (
                isinstance(event, Snapshot) and self._servers
            ):  # perhaps of another daemon, which has none
                nursery.start_soon(self.bring_servers, name="the editor's servers")
            if not isinstance(event, Stored):
                continue
            self._note(event.event)
            questions.see(event)
            if isinstance(event.event, MessageCompleted):
                tell = partial(self._tell_usage, event.event)
                nursery.start_soon(tell, name=f"usage of {self.row.session_id}")

    async def _show(self, event: RemoteEvent) -> None:
        for update in await self._updates.take(event):
            self.update(update)
        await self._connection.output.wait_room()

    def update(self, update: wire.SessionUpdate) -> None:
        """Send an update to the editor."""
        notification = wire.SessionNotification(session_id=self.row.session_id, update=update)
        self._connection.notify("session/update", notification)

    def announce(self) -> None:
        """Say what the editor may not know before it knows the session."""
        self.update(available())
        self._is_announced.set()

    async def _tell_prompts(self) -> None:
        """Say which prompts servers have, as soon as the editor knows the session."""
        from ..mcp.prompts import find_prompts

        await self._is_announced.wait()
        with suppress(CallboardError):
            if prompts := await find_prompts(self.client):
                self.update(available(prompts))

    async def ask_server(self, prompt: EditorPrompt) -> str | None:
        """Have a server make a text of a prompt that begins with `/SERVER:PROMPT`, to be sent by the next one.

        Returns what the editor shows; `None` for a prompt that is not one of a server.

        Raises:
            CallboardError: The server can't make it.
        """
        from ..mcp.prompts import find_prompts, prompt_line, typed_prompt, usage_of

        if (found := prompt_line(prompt.text)) is None:
            return None
        name, words = found
        rows = await find_prompts(self.client)
        if name.partition(":")[0] not in {row.server for row in rows.values()}:
            return None
        typed = typed_prompt(rows, name, words)
        if typed.missing:
            what = ", ".join(safe_line(each.name) for each in typed.missing)
            usage = usage_of(name, typed.row.arguments)
            raise ValidationError(f"say {what} behind it: {usage}")
        made = await self.client.mcp.prompt(typed.row.server, typed.row.name, typed.given)
        self.offered = EditorPrompt(
            text=made.text,
            attachments=prompt.attachments,
            trace=prompt.trace,
            is_untrusted=made.is_untrusted,
        )
        lines = "\n".join(f"> {line}" for line in safe_text(made.text).split("\n"))
        notes = "".join(f"\n({safe_line(note)})" for note in made.notes)
        return f"{lines}\n{notes}\n`/{SEND}` sends this, with what you write behind it."

    async def _tell_servers(self) -> None:
        """Start the editor's servers, as soon as it knows the session, and say which can't be used."""
        await self._is_announced.wait()
        await self.bring_servers(LIST_SECONDS)

    async def bring_servers(self, wait_seconds: float = 0.0) -> None:
        """Have the daemon use the editor's servers, if there are some, and say once why one is not used."""
        await trio.lowlevel.checkpoint()
        if not self._servers:
            return
        try:
            rows = await self.client.mcp.use(
                self.row.session_id, self._servers, wait_seconds=wait_seconds
            )
        except CallboardError as error:
            self._tell_once("", f"The editor's MCP servers are not used: {error}")
            return
        for row in rows:
            if row.problem:
                self._tell_once(row.name, f"{row.name} is not used: {row.problem}")
            for tool, why in row.refused.items():
                self._tell_once(f"{row.name} {tool}", f"{tool} of {row.name} is not used: {why}")

    def _tell_once(self, what: str, text: str) -> None:
        if self._told.get(what) != text:
            self._told[what] = text
            self.update(thought(f"({safe_line(text)})\n"))

    def _say_aside(self, text: str) -> None:
        logger.warning("%s: %s", self.row.session_id, text)

    def _note(self, event: DurableEvent) -> None:
        """Note what an event means for the prompts that wait."""
        for waiting in [*self._waiting.values()]:
            match event:
                case TurnStarted(turn_id=turn_id, input_ids=input_ids):
                    if waiting.input_id in input_ids:
                        waiting.turn_id = turn_id
                case TurnEnded(turn_id=waiting.turn_id) if event.outcome != "suspended":
                    waiting.end(event)
                case InputCancelled(input_id=waiting.input_id, reason=reason):
                    waiting.end(TurnEnded(turn_id="", outcome="cancelled", message=reason))
                case _:
                    pass
        if isinstance(event, InputAccepted) and event.request is not None:
            mine = self._waiting.get(event.request.key)
            if mine is not None:
                mine.input_id = event.input_id
                mine.accepted.set()

    async def _tell_usage(self, event: MessageCompleted) -> None:
        usage = event.usage or Usage()
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        with suppress(CallboardError):
            window = await self._windows.find(self.client, f"{event.provider}/{event.model}")
            if used and window:
                asked = GetUsage(by="session", session_id=self.row.session_id)
                total = (await self.client.request("usage/get", asked, _Report)).total
                is_known = total.cost is not None and not total.unpriced_calls
                cost = wire.Cost(amount=total.cost or 0.0, currency="USD") if is_known else None
                self.update(wire.SessionUpdateUsageUpdate(used=used, size=window, cost=cost))

    # ── what the person wants ────────────────────────────────────────────────────────────────────

    async def prompt(self, prompt: EditorPrompt, request: EditorRequest) -> str:
        """Send a prompt, and return why its turn stopped, when nothing of it runs any more.

        Raises:
            CallboardError: It was not taken, or its turn failed.
        """
        if self._failure is not None:
            raise self._failure
        key, waiting = new_id("request"), _Waiting()
        request.cancel = partial(self._cancel_one, waiting)
        self._own_inputs.add(key)
        self._waiting[key] = waiting
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_when_wanted, waiting, name="cancel")
                try:
                    await self._send(prompt, key)
                    request.is_taken.set()
                    await waiting.over.wait()
                except CallboardError as error:
                    waiting.end(error)
                nursery.cancel_scope.cancel(reason="its turn is over")
        finally:
            del self._waiting[key]
        ended = waiting.ended
        if isinstance(ended, TurnEnded) and ended.outcome in STOP_REASONS:
            return STOP_REASONS[ended.outcome]
        if waiting.is_wanted_gone.is_set():
            return "cancelled"
        assert ended is not None
        raise error_of_turn(ended) if isinstance(ended, TurnEnded) else ended

    async def _send(self, prompt: EditorPrompt, key: str) -> None:
        options = self.choices.turn
        if options.model is None and self.choices.own_model is None and self.lent is not None:
            options = msgspec.structs.replace(options, model=self.lent)
        if prompt.compacts:
            options = msgspec.structs.replace(options, compact=True)
        await self.client.prompt(
            self.row.session_id,
            prompt.text,
            prompt.attachments,
            is_untrusted=prompt.is_untrusted,
            options=None if options == TurnOptions() else options,
            key=key,
            trace=prompt.trace,
        )

    async def close(self) -> None:
        """End the look at it, and return when that and the editor's servers have ended; its turns go on."""
        self._scope.cancel(reason="the editor has closed the session")
        await self.is_gone.wait()
        if self._servers:
            with trio.move_on_after(END_SECONDS), suppress(CallboardError):
                await self.client.mcp.use(self.row.session_id, ())

    async def leave(self) -> None:
        """Cancel the editor's prompts, and return when nothing of them runs any more."""
        left = [*self._waiting.values()]
        for waiting in left:
            self._cancel_one(waiting)
        for waiting in left:
            await waiting.over.wait()

    async def choose(self, name: str, value: object) -> None:
        """Choose a value of an option for the turns from now on.

        Raises:
            RequestFailed: There is no such option, or it has no such value.
            CallboardError: The agent can't be had.
        """
        self.choices.choose(name, value)
        if name != "_agent":
            return
        await self.client.set_agent([self.row.session_id], str(value))
        chosen = self.choices.turn  # stays
        self.choices = await read_choices(self.client, str(value), self.choices.own_model)
        self.choices.turn = chosen

    def show_choices(self) -> None:
        """Send what was chosen, to editors that know options and those that know modes alone."""
        self.update(wire.SessionUpdateConfigOptionUpdate(config_options=self.choices.config()))
        mode = str(self.choices.mode)
        self.update(wire.SessionUpdateCurrentModeUpdate(current_mode_id=mode))

    def _is_ending(self) -> bool:
        return any(waiting.is_wanted_gone.is_set() for waiting in self._waiting.values())

    def _cancel_one(self, waiting: _Waiting) -> None:
        waiting.is_wanted_gone.set()

    async def _cancel_when_wanted(self, waiting: _Waiting) -> None:
        """Cancel the turn of a prompt, as soon as somebody wants that and the prompt is on record."""
        await waiting.is_wanted_gone.wait()
        await waiting.accepted.wait()
        while not waiting.over.is_set():
            try:
                await self.client.cancel(
                    self.row.session_id, "cancelled in the editor", input_id=waiting.input_id
                )
            except (
                NetworkError,
                DeadlineError,
                OverloadedError,
            ):  # nobody knows whether it was done
                await trio.sleep(CANCEL_AGAIN_SECONDS)
            except CallboardError as error:
                logger.warning("a prompt was not cancelled: %s", error)
                return
            else:
                return
