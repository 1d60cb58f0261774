"""A talk shows a session, reads what is typed and asks questions, through a client of the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import trio

from ...client.client import Client
from ...runtime.definitions import InputMode, Preset
from ...runtime.errors import AuthError, CallboardError, NetworkError
from ...runtime.event_types.turns import RerunWay
from ...runtime.events import InputAccepted, MessageCompleted, Stored, TurnEnded
from ...runtime.history import Attachment
from ...runtime.identity import new_id
from ...runtime.store.rows import SessionRow
from ...runtime.text import excerpt
from ...runtime.turn_options import TurnOptions
from ...runtime.wire.topics import Snapshot
from ..ask.notify import heard, tell_desktop
from ..ask.pending_questions import PendingQuestion
from ..daemon.roots import create_session
from ..exit_codes import ANSWERED, FAILED, INTERRUPTED
from ..record_names import folder_here
from ..run.attachments import read_attachments
from ..sharing.holder import Holder
from ..sharing.own_daemon import ChatOptions
from ..terminal.escaping import safe_line, short_path
from ..terminal.keyboard import Keyboard
from ..terminal.markdown_live import MarkdownRows
from .mentions import is_dropped_file, mentioned
from .questions import ChatQuestions, InputEnded, put_to_nobody, waiting_questions
from .screen import Typed
from .shell_line import ShellOutput
from .status_line import StatusFacts, context_text, read_facts, status_line
from .surface import Surface, view_of
from .view import ChatView

PAST_EVENTS = 300
"""Events that are shown of a session that is opened again: its last turns."""
DRAW_SECONDS = 0.01
"""Time between two layouts of what is not whole yet; pieces of an answer come faster."""
TICK_SECONDS = 0.25
"""Time between two updates of how long things take."""
MAX_SHOWN_CHARS = 60
"""Of a prompt that waits, which the input line does not show any more."""
CODES = {"answered": ANSWERED, "cancelled": INTERRUPTED}


Beginning = Callable[[Client], Awaitable[SessionRow | None]]
"""Returns the session that is shown first."""


class _Unsure(msgspec.Struct, frozen=True):
    """A prompt of which no answer says that it is on record.

    Attributes:
        prompt: What was asked for.
        key: The same prompt, sent again with this key, is on record once.
    """

    prompt: tuple[object, ...]
    key: str


class Talk:
    """One chat.

    Attributes:
        client: Its client.
        view: The session that is shown, once there is one.
        is_over: Whether the person left.
        codes: How turns ended, as exit codes.
        shell_output: What goes with the next prompt.
    """

    def __init__(
        self,
        surface: Surface,
        options: ChatOptions,
        run_command: Callable[[Talk, str], Awaitable[None]],
    ) -> None:
        self.client: Client
        self.view: ChatView | None = None
        self.is_over = False
        self.codes: list[int] = []
        self.shell_output: ShellOutput | None = None
        self.questions = ChatQuestions(
            surface.output, surface.style, surface.data, self._end_reading
        )
        self.questions.answered = self._answered_here
        self._surface = surface
        self._screen = surface.screen
        self._options = options
        self._folder = ""
        self._run_command = run_command
        self._holder: Holder
        self._rows = MarkdownRows(self._write, lambda: self._screen.columns, surface.style)
        self._keyboard = Keyboard(0, surface.output)
        self._begun = trio.Event()
        self._changed = trio.Event()
        self._following = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._acting: trio.CancelScope | None = None
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery
        self._skips = self._has_written = False
        self._is_cancelling = False
        self._said_how_to_leave = False
        self._facts = StatusFacts()
        self._looks_stale = trio.Event()
        self._drawn_stale = trio.Event()
        self._screen.pressed["s-tab"] = self.cycle_policy
        self._screen.look_in(Path(self.folder))
        self._unsure: _Unsure | None = None

    async def run(self, client: Client, begin: Beginning, holder: Holder) -> None:
        """Talk until the person leaves; `holder` says whether this process is the daemon.

        Raises:
            CallboardError: The first session can't be shown.
        """
        self.client, self._holder = client, holder
        self._scope = trio.CancelScope()
        self.questions.unsettle()
        if (row := await begin(client)) is not None:
            await self.show(row)
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._follow, name="events")
                nursery.start_soon(self._tick, name="clock")
                if self._surface.is_live:
                    nursery.start_soon(self._look_up, name="status line")
                if (prompt := self._options.prompt) is not None:
                    self.change(prompt=None)
                    await self._act(prompt, is_typed=False)
                await self._converse()
                nursery.cancel_scope.cancel(reason="left")

    def leave(self) -> None:
        """End the chat."""
        self.is_over = True
        self._scope.cancel(reason="left")

    @property
    def folder(self) -> str:
        """The folder of the session that is shown, or that new sessions get."""
        return self._folder or folder_here(self._options.workspace)

    async def show(self, row: SessionRow) -> None:
        """Go on with a session, beginning with the end of its record."""
        await trio.lowlevel.checkpoint()
        self._set_view(row.session_id)
        self._folder = row.workspace
        self._screen.look_in(Path(row.workspace))
        view = self.view
        assert view is not None
        view.seq = max(row.head_seq - PAST_EVENTS, 0)
        view.title = row.title
        self._skips = view.seq > 0
        dim = self._surface.style.paint
        folder, title = short_path(row.workspace), safe_line(row.title)
        self._rows.write(dim(f"session {row.session_id}  {folder}  {title}", "dim") + "\n")
        if self._skips:
            self._rows.write(dim(f"(all of it: callboard show {row.session_id})", "dim") + "\n")

    @property
    def turn(self) -> TurnOptions:
        """What each prompt from now on changes of the agent."""
        return self._options.turn

    @property
    def facts(self) -> StatusFacts:
        """What is known of the session that is shown, with what the next prompt changes."""
        turn, facts = self._options.turn, self._facts
        return msgspec.structs.replace(
            facts,
            model=turn.model or (self.view is None and self._options.model) or facts.model,
            policy=turn.policy or facts.policy,
        )

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
        self._folder = ""
        self.questions.forget()
        self.questions.unsettle()
        self.view = None
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
                except (AuthError, NetworkError) as error:  # no daemon will be connected to
                    self.notice(str(error))
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
                    self._facts = facts
            self._refresh()
            await trio.sleep(TICK_SECONDS)

    def _write(self, text: str) -> None:
        self._has_written = True
        self._screen.write(text)

    def _refresh(self) -> None:
        self._has_written = False
        if not self._surface.is_live:
            return
        view, facts, columns = self.view, self.facts, self._screen.columns
        lines = view.live_lines(columns) if view is not None else []
        tail = "/help" if self.is_at_rest else "Ctrl-C cancels"
        context = "new session" if view is None else context_text(view.context_tokens, facts.model)
        style = self._surface.style
        lines.append(status_line(style, columns, self.folder, facts, context, tail))
        self._screen.show_live([*self._rows.open_rows, *lines])

    def notice(self, text: str) -> None:
        """Print a line of callboard's own."""
        if self.view is not None and not self._surface.is_live:
            self.view.notice(text)
        else:
            self._rows.aside(self._surface.style.paint(safe_line(text), "yellow") + "\n")

    def print(self, text: str) -> None:
        """Print text as it comes, whose control characters are escaped already."""
        self._rows.aside(text)

    def say(self, text: str) -> None:
        """Print lines of callboard's own."""
        self._rows.aside(text + "\n")

    # ── what is typed ────────────────────────────────────────────────────────────────────────────

    async def _converse(self) -> None:
        while not self.is_over:
            if (asked := self.questions.next()) is not None:
                await self.put(asked)
            elif not self._surface.can_ask and not await self._is_quiet():
                continue
            elif (typed := await self._read()) is not None:
                await self._take(typed)

    async def _is_quiet(self) -> bool:
        """Return whether the next prompt may be read: without a person, one is finished before the next."""
        if self.view is None or self.view.is_idle:
            return True
        await self._changed.wait()
        return False

    async def _read(self) -> Typed | None:
        is_idle = self.view is None or self.view.is_idle
        with trio.CancelScope() as self._reading:
            return await self._screen.read(is_idle=is_idle)
        return None

    def _answered_here(self, approval_id: str) -> None:
        if self.view is not None:
            self.view.answered_here(approval_id)

    def _end_reading(self) -> None:
        self._reading.cancel(reason="a question has come")

    async def _take(self, typed: Typed) -> None:
        if typed.kind == "end":
            self._end_of_input()
        elif typed.kind == "interrupt":
            self.interrupt(typed.text)
        elif typed.text.strip():
            self._said_how_to_leave = False
            await self._act(typed.text.strip())

    def _end_of_input(self) -> None:
        ends_turn = self._holder.own is not None and self._surface.can_ask and not self.is_at_rest
        if ends_turn and not self._said_how_to_leave:
            self._said_how_to_leave = True
            self.notice("no daemon runs, so leaving ends the turn; Ctrl-D again leaves")
        else:
            self.leave()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing runs and nothing waits to."""
        return self.view is None or self.view.is_idle

    async def wait_rest(self) -> None:
        """Wait until nothing runs and nothing waits to, and that is shown."""
        while not self.is_at_rest:
            await self._changed.wait()

    def interrupt(self, typed: str = "") -> None:
        """Handle Ctrl-C: cancel what runs; when nothing runs, the second one leaves the chat."""
        if self._acting is not None:
            self._acting.cancel(reason="Ctrl-C")
        elif not self.is_at_rest and not self._is_cancelling:
            self.notice("cancelling… (Ctrl-C again leaves)")
            self._nursery.start_soon(self._cancel_turn, name="cancel")
        elif typed and self.is_at_rest:
            self._screen.keep("")
        elif self._said_how_to_leave or self._is_cancelling:
            self.leave()
        else:
            self._said_how_to_leave = True
            self.notice("Ctrl-C again leaves, and so does Ctrl-D")

    async def _cancel_turn(self) -> None:
        self._is_cancelling = True
        try:
            await self.cancel()
        except CallboardError as error:
            self.notice(f"nothing was cancelled: {error}")
        self._is_cancelling = False

    def _is_command(self, text: str) -> bool:
        """Return whether a line is a command: of callboard, or, at a terminal, of the person's shell.

        What others may have written, by a pipe or in a text of several lines, reaches no shell.
        """
        if text.startswith("/"):
            return not (text.startswith("//") or (self._surface.can_ask and is_dropped_file(text)))
        return text.startswith("!") and self._surface.can_ask and "\n" not in text

    async def _act(self, text: str, *, is_typed: bool = True) -> None:
        """Do what a line says; Ctrl-C ends the wait for it."""
        with trio.CancelScope() as scope:
            await trio.lowlevel.checkpoint()
            self._acting = scope
            try:
                if is_typed and self._is_command(text):
                    self._echo(text)
                    await self._run_command(self, text)
                else:
                    said = text.removeprefix("/") if text.startswith("//") else text
                    await self.send(said, is_typed=is_typed)
            except InputEnded:
                self.leave()
            except CallboardError as error:
                self.notice(str(error))
                self._hand_back(text)
                if not self._surface.can_ask:
                    self.codes.append(FAILED)
            finally:
                self._acting = None
        if scope.cancelled_caught and not self.is_over:
            self.notice("not waited for any longer; it may be done all the same")
            self._hand_back(text)

    def _hand_back(self, text: str) -> None:
        """Put a prompt that was not taken into the input line again; sent from there, it counts once."""
        if self._unsure is not None:
            self._screen.keep(text)

    def _echo(self, text: str) -> None:
        """Print a command that was typed: the input line is empty again."""
        if self._surface.is_live:
            sign = "▸" if self._surface.style.signs else ">"
            line = self._surface.style.paint(f"{sign} {safe_line(text)}", "bold")
            self._rows.aside(f"\n{line}\n")

    # ── what commands do ─────────────────────────────────────────────────────────────────────────

    async def send(self, text: str, mode: str = "queue", *, is_typed: bool = True) -> None:
        """Send an input to the session; begin one when there is none. Files that are typed go with it."""
        named = await self._files_of(text) if is_typed else ()
        files = (*self._options.attachments, *named)
        output = self.shell_output
        text = text if output is None else f"{text}\n\n{output.as_text()}"
        if self.view is None:
            new = self._options
            row = await create_session(
                self.client,
                new.workspace,
                self.confirm,
                agent=new.agent,
                model=new.model,
                budget=new.session_budget,
                is_shared=self._holder.is_shared,
            )
            self._set_view(row.session_id)
        view = self.view
        assert view is not None
        has_turn = mode != "steer"  # what steers becomes part of a turn, which has its options
        given = self._options.turn if has_turn and self._options.turn != TurnOptions() else None
        budget = self._options.budget if has_turn else None
        prompt = (view.session_id, text, files, mode, given, budget)
        if self._unsure is None or self._unsure.prompt != prompt:
            self._unsure = _Unsure(prompt, new_id("request"))
        if not self.client.is_connected:
            self.notice(f"this waits for the daemon: {excerpt(text, MAX_SHOWN_CHARS)}")
        ticket = await self.client.prompt(
            view.session_id,
            text,
            files,
            budget=budget,
            mode=InputMode(mode),
            options=given,
            is_untrusted=output is not None,
            key=self._unsure.key,
        )
        self._unsure = self.shell_output = None
        self.change(attachments=())
        await self._wait_shown(view, ticket.seq)

    async def _files_of(self, text: str) -> tuple[Attachment, ...]:
        """Return the files that a prompt names; a person agrees to those outside of the folder."""
        if not self._surface.can_ask:
            return ()
        folder = await trio.Path(self.folder).resolve()
        paths = []
        for path in mentioned(text, Path(folder)):
            where = short_path(str(path), MAX_SHOWN_CHARS)
            if path.is_relative_to(folder) or await self.confirm(f"Attach {where}? [y/N] "):
                paths.append(path)
        try:
            return read_attachments(paths)
        except CallboardError:
            self._screen.keep(text)
            raise

    async def again(self, why: RerunWay) -> None:
        """Run the last turn of the session again."""
        view = self.view
        assert view is not None
        rerun = self.client.retry if why == "retry" else self.client.regenerate
        ticket = await rerun(view.session_id)
        await self._wait_shown(view, ticket.seq + 1)  # the event after it begins the turn

    async def _wait_shown(self, view: ChatView, seq: int) -> None:
        while view.seq < seq and view is self.view:
            await self._changed.wait()

    async def cancel(self) -> None:
        """Cancel what runs."""
        if self.view is not None and not await self.client.cancel(
            self.view.session_id, "cancelled by a person"
        ):
            self.notice("nothing ran")

    async def write_raw(self, text: str) -> None:
        """Write to the terminal what it obeys and does not show."""
        await self._screen.drain()
        self._surface.output.write(text)

    async def confirm(self, text: str) -> bool:
        """Return whether a person agrees."""
        if not self._surface.can_ask:
            return False
        await self._screen.drain()
        with self._screen.held():
            await self._keyboard.settle()
            said = await self._keyboard.choice(text)
        return said in {"y", "yes"}

    async def put(self, asked: PendingQuestion) -> None:
        """Put a question to whoever sits there."""
        session_id = self.view.session_id if self.view is not None else ""
        if not self._surface.can_ask:
            said = await put_to_nobody(
                self.client, asked, session_id, is_host=self._holder.is_shared
            )
            self.questions.drop(asked)
            if said:
                self.notice(said)
            return
        if self.view is not None:
            self.view.interrupt()
        await self._screen.drain()
        self._nursery.start_soon(tell_desktop, asked.headline, name="desktop")
        with self._screen.held():
            self._surface.output.write(heard(asked.headline))
            try:
                await self.questions.put(self.client, asked)
            except InputEnded:
                how = asked.how_to_answer(session_id)
                self._surface.output.write(f"\n(it still waits: {how})\n")
                self.leave()
            except CallboardError as error:
                self._surface.output.write(f"not answered: {safe_line(str(error))}\n")
