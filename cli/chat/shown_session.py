"""The session that a chat shows: its events, what is under way, and the line that says with what it works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import trio

from ...client.client import Client
from ...client.link import ConnectionBroke
from ...runtime.definitions import GENERAL_AGENT, Preset
from ...runtime.errors import AuthError, CallboardError, ConflictError, NetworkError, NotFoundError
from ...runtime.events import InputAccepted, MessageCompleted, Stored, TurnEnded
from ...runtime.store.rows import SessionRow
from ...runtime.turn_options import TurnOptions
from ...runtime.wire.topics import Snapshot
from ..ask.gone_agent import agree_to_general, gone_from
from ..exit_codes import ANSWERED, FAILED, INTERRUPTED
from ..hints import command_line, runnable
from ..record_names import waiting_words
from ..run.choice import shown
from ..sharing.holder import Holder
from ..show.ended_calls import output_lines
from ..terminal.escaping import safe_line, short_path
from ..terminal.folding import fitted
from ..terminal.markdown_live import MarkdownRows
from ..terminal.style import Style, data_size
from .place import ChatOptions
from .questions import ChatQuestions, waiting_questions
from .status_line import (
    ModelWindows,
    StatusFacts,
    StatusLine,
    context_text,
    read_facts,
    window_warning,
)
from .surface import Surface, view_of
from .view import ChatView

PAST_EVENTS = 300
"""Events that are shown of a session that is opened again: its last turns."""
DRAW_SECONDS = 0.01
"""Time between two layouts of what is not whole yet; pieces of an answer come faster."""
TICK_SECONDS = 0.25
"""Time between two updates of how long things take."""
CODES = {"answered": ANSWERED, "cancelled": INTERRUPTED}


class ShownSession:
    """Shows one session after another; `Talk` adds what is typed.

    Attributes:
        client: Its client.
        view: The session that is shown, once there is one.
        is_over: Whether the person left.
        codes: How turns ended, as exit codes.
        questions: What the session asks.
        prompts: What the prompts of servers are for, by how they are typed.
    """

    def __init__(self, surface: Surface, options: ChatOptions) -> None:
        self.client: Client
        self.view: ChatView | None = None
        self.is_over = False
        self.codes: list[int] = []
        self.questions = ChatQuestions(
            surface.output, surface.style, surface.data, self._end_reading
        )
        self.prompts: dict[str, str] = {}
        self._holder: Holder
        self._surface = surface
        self._screen = surface.screen
        self._options = options
        self._folder = self._gone_agent = ""
        self._rows = MarkdownRows(self._write, lambda: self._screen.columns, surface.style)
        self._begun = trio.Event()
        self._changed = trio.Event()
        self._following = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._scope = trio.CancelScope()
        self._skips = self._has_written = False
        self._is_cancelling = False
        self._facts = StatusFacts()
        self._status = StatusLine(surface.style)
        self._windows = ModelWindows()
        self._warned: set[str] = set()
        self._looks_stale = trio.Event()
        self._drawn_stale = trio.Event()
        self._screen.look_in(Path(self.folder))

    def follow(self, nursery: trio.Nursery) -> None:
        """Begin to show what happens, until the nursery is cancelled."""
        nursery.start_soon(self._follow, name="events")
        nursery.start_soon(self._tick, name="clock")
        if self._surface.is_live:
            self._looks_stale.set()  # who will answer stands there before the first prompt
            nursery.start_soon(self._look_up, name="status line")
            nursery.start_soon(self._look_up_prompts, name="prompts of servers")
            nursery.start_soon(self._look_at_servers, name="servers to review")

    async def _look_up_prompts(self) -> None:
        """Have the menu of commands offer the prompts of servers; who types one finds it in any case."""
        from ..mcp.prompts import find_prompts, summary_of

        with suppress(CallboardError):
            rows = await find_prompts(self.client)
            self.prompts = {f"/{name}": summary_of(row) for name, row in rows.items()}
            self._screen.offer(self.prompts)

    async def _look_at_servers(self) -> None:
        """Say when a server of MCP is not as it was accepted: what has changed of it is withheld."""
        from ..mcp.changed import hear_changed

        with suppress(CallboardError):
            await hear_changed(self.client, self.notice)

    def leave(self) -> None:
        """End the chat."""
        self.is_over = True
        self._scope.cancel(reason="left")

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing runs and nothing waits to."""
        return self.view is None or self.view.is_idle

    async def wait_rest(self) -> None:
        """Wait until nothing runs and nothing waits to, and that is shown."""
        while not self.is_at_rest:
            await self._changed.wait()

    def _end_reading(self) -> None:
        self._reading.cancel(reason="a question has come")

    @property
    def folder(self) -> str:
        """The folder of the session that is shown, or that new sessions get."""
        return self._folder or str(
            self._options.workspace
        )  # whose links were followed at the start

    async def show(self, row: SessionRow) -> None:
        """Go on with a session, beginning with the end of its record."""
        self._set_view(row.session_id)
        self._gone_agent = await self._look_for_agent(row.agent)
        self._folder = row.workspace
        self._screen.look_in(Path(row.workspace))
        view = self.view
        assert view is not None
        view.seq = max(row.head_seq - PAST_EVENTS, 0)
        view.title = row.title
        self._skips, view.past_seq = view.seq > 0, row.head_seq
        dim = self._surface.style.paint
        folder, title = short_path(row.workspace), safe_line(row.title)
        self._rows.write(dim(f"session {row.session_id}  {folder}  {title}", "dim") + "\n")
        if waits := waiting_words(row):
            self._rows.write(f"(the session {waits}, and goes on when there is one)\n")
        if self._skips:
            command = command_line(f"callboard show {row.session_id}")
            self._rows.write(dim(f"(all of it: {command})", "dim") + "\n")

    async def _look_for_agent(self, agent: str) -> str:
        """Return the name of the agent if it is gone."""
        try:
            await self.client.agents.get(agent)
        except NotFoundError:
            return agent
        return ""

    async def _agree_to_agent(self, confirm: Callable[[str], Awaitable[bool]], text: str) -> None:
        """Have a person agree that the session goes on with another agent than the one that is gone; else keep the prompt."""
        if not self._gone_agent or self.view is None:
            return
        session_id, chosen = self.view.session_id, self._options.flags.agent
        if chosen is None:
            try:
                await agree_to_general(confirm, gone_from(session_id, self._gone_agent))
            except ConflictError:
                self._screen.keep(text)
                raise
        await self.client.set_agent([session_id], chosen or GENERAL_AGENT)
        self._gone_agent = ""

    @property
    def style(self) -> Style:
        """What the terminal can show."""
        return self._surface.style

    @property
    def turn(self) -> TurnOptions:
        """What each prompt from now on changes of the agent."""
        return self._options.turn

    @property
    def facts(self) -> StatusFacts:
        """What is known of the session that is shown, with what the next prompt changes."""
        policy = self._options.turn.policy or self._facts.policy
        return msgspec.structs.replace(self._facts, model=shown(self._model), policy=policy)

    @property
    def _model(self) -> str:
        """What answers the next prompt, by the name that the daemon knows."""
        chosen = self._options.turn.model or (self.view is None and self._options.model)
        return chosen or self._facts.model

    def begin(self, *, agent: str | None = None) -> None:
        """Have the next prompt begin a session, with this agent."""
        if agent is not None:
            self.change(agent=agent)
        self._set_view(None)

    def change(self, **options: Any) -> None:
        """Change options of the chat, by their names in `ChatOptions`."""
        self._options = msgspec.structs.replace(self._options, **options)
        self.look_again()

    def change_turns(self, **options: Any) -> None:
        """Change what prompts from now on have other than the agent, by the names in `TurnOptions`."""
        self.change(turn=msgspec.structs.replace(self._options.turn, **options))

    def cycle_policy(self) -> None:
        """Take the next preset, for prompts from now on."""
        now = self.facts.policy or Preset.BALANCED
        order = [Preset.BALANCED, Preset.STRICT, Preset.AUTO]
        self.change_turns(policy=order[(order.index(now) + 1) % len(order)])

    def look_again(self) -> None:
        """Have the status line follow, soon."""
        self._looks_stale.set()
        self._refresh()

    def _set_view(self, session_id: str | None) -> None:
        self._folder = self._gone_agent = ""
        self.questions.forget()
        self.questions.unsettle()
        self.view = None
        self._holder.show(session_id or "")
        if session_id is not None:
            self.view = view_of(self._surface, self._rows, session_id)
        self._following.cancel(reason="another session is shown")
        self._begun.set()
        self._begun = trio.Event()
        self._facts = StatusFacts()
        self._screen.look_in(Path(self.folder))
        self.look_again()

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    async def _follow(self) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            view = self.view
            if view is None:
                await self._begun.wait()
                continue
            with trio.CancelScope() as self._following:
                await trio.lowlevel.checkpoint()
                try:
                    await self._follow_session(view)
                except ConnectionBroke:
                    continue  # over the next one, from where the view is
                except (AuthError, NetworkError) as error:  # no daemon will be connected to
                    self.notice(str(error))
                    self.codes.append(FAILED)
                    self.leave()
                except CallboardError as error:
                    self.notice(str(error))
                    self._set_view(None)

    async def _follow_session(self, view: ChatView) -> None:
        epoch = view.epoch or self.client.welcome.epoch
        async with self.client.events(view.session_id, after_seq=view.seq, epoch=epoch) as events:
            view.epoch = epoch
            async for event in events:
                if isinstance(event, Stored):
                    if self._skips and not isinstance(event.event, InputAccepted):
                        view.seq = event.seq
                        continue
                    self._skips = False
                view.take(event)
                is_unsure = isinstance(event, Snapshot)
                if isinstance(event, Stored):
                    is_unsure = self.questions.see(event.event)
                    self._note(event)
                if is_unsure:
                    waiting, known = await waiting_questions(self.client, view.session_id)
                    self.questions.settle(waiting, known)
                if self._has_written:  # what was open is printed: it must not stand there twice
                    self._refresh()
                else:
                    self._drawn_stale.set()
                self._changed.set()
                self._changed = trio.Event()
                await self._screen.wait_room()

    def _note(self, stored: Stored) -> None:
        if isinstance(stored.event, MessageCompleted):
            self._looks_stale.set()
        if isinstance(stored.event, TurnEnded):
            self._is_cancelling = False
            if (
                self.view is not None and stored.seq > self.view.past_seq
            ):  # what ended before is none of this chat's business
                self.codes.append(CODES.get(stored.event.outcome, FAILED))
            if self._surface.can_ask and not self._surface.is_live:
                self._end_reading()  # its prompt is due now

    async def _tick(self) -> None:
        while True:
            with trio.move_on_after(TICK_SECONDS):
                await self._drawn_stale.wait()
            self._drawn_stale = trio.Event()
            self._refresh()
            await trio.sleep(DRAW_SECONDS)

    async def _look_up(self) -> None:
        """Keep what the status line says of the session, and what it cost."""
        while True:
            await self._looks_stale.wait()
            self._looks_stale = trio.Event()
            view = self.view
            with suppress(CallboardError):  # what it said before stays
                session_id = None if view is None else view.session_id
                facts = await read_facts(self.client, session_id, self._options)
                if view is self.view:
                    self._facts = msgspec.structs.replace(facts, window=self._facts.window)
                    self._refresh()
                    await self._find_window(view)
            self._refresh()
            await trio.sleep(TICK_SECONDS)

    async def _find_window(self, view: ChatView | None) -> None:
        if view is None or not view.context_tokens:
            return
        model = self._model
        window = await self._windows.find(self.client, model)
        if view is not self.view or model != self._model:
            return
        self._facts = msgspec.structs.replace(self._facts, window=window)
        warning = window_warning(view.context_tokens, self.facts)
        if warning and warning not in self._warned:
            self._warned.add(warning)
            self.notice(warning)

    def _write(self, text: str) -> None:
        self._has_written = True
        self._screen.write(text)

    def _refresh(self) -> None:
        self._has_written = False
        if not self._surface.is_live:
            return
        view, facts, columns = self.view, self.facts, self._screen.columns
        lines = view.live_lines(columns) if view is not None else []
        style = self._surface.style
        lines += [style.paint(fitted(row, max(columns - 1, 1)), "dim") for row in self._intents()]
        tail = "/help" if self.is_at_rest else "Ctrl-C cancels"
        context = "new session" if view is None else context_text(view.context_tokens, facts.window)
        lines.append(self._status.drawn(columns, self.folder, facts, context, tail))
        # Set off from what is said; a session that is new has nothing above.
        self._screen.show_live([*self._rows.open_rows, *([""] if view is not None else []), *lines])

    def _intents(self) -> list[str]:
        """Return what the next prompt does besides, each in a row."""
        files = [
            f"{safe_line(each.name)} ({data_size(len(each.data))})"
            for each in self._options.attachments
        ]
        return [f"with the next prompt: {', '.join(files)}; Ctrl-C takes it back"] if files else []

    async def find_facts(self) -> StatusFacts:
        """Return the facts of the session; ask for them where no status line has."""
        if not (self._surface.is_live and self._facts.model):
            session_id = None if self.view is None else self.view.session_id
            self._facts = await read_facts(self.client, session_id, self._options)
        return self.facts

    def notice(self, text: str) -> None:
        """Print a line of callboard's own."""
        if self.view is not None and not self._surface.is_live:
            self.view.notice(text)
        else:
            self._rows.aside(self._surface.style.paint(safe_line(runnable(text)), "yellow") + "\n")

    def print(self, text: str) -> None:
        """Print text as it comes, whose control characters are escaped already."""
        self._rows.aside(text)

    def show_output(self) -> None:
        """Print the output of the call that ended last; once more, of the one before."""
        found = None if self.view is None else self.view.ended_calls.next()
        if self.view is None or found is None:
            self.say("  no call has ended yet")
            return
        lines = output_lines(found[1], self._surface.style, self.view.session_id)
        self.say("\n".join(["", *lines]))

    def say(self, text: str) -> None:
        """Print lines of callboard's own."""
        self._rows.aside(runnable(text) + "\n")
