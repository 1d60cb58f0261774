"""A talk is the session that a chat shows, with what is typed: prompts, commands, answers to questions."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from ...client.client import Client
from ...providers.attachments import is_text
from ...runtime.definitions import Agent, InputMode
from ...runtime.errors import CallboardError, ConflictError, NotFoundError, ValidationError
from ...runtime.event_types.turns import RerunWay
from ...runtime.events import InputAccepted
from ...runtime.history import Attachment, checked_attachments
from ...runtime.identity import new_id
from ...runtime.store.rows import SessionRow
from ...runtime.text import excerpt
from ...runtime.turn_options import TurnOptions
from ...runtime.wire.agents import AgentRow, agent_of_row
from ...tools.registry import unknown_tools
from ..ask.notify import heard, tell_desktop
from ..ask.pending_questions import PendingQuestion
from ..daemon.roots import create_session
from ..exit_codes import FAILED
from ..run.attachments import LARGE_BYTES, large, read_attachments, remarks
from ..sharing.holder import LEFT, Holder
from ..terminal.escaping import safe_line, safe_text, short_path
from ..terminal.keyboard import Keyboard
from .files import is_dropped_file, mentioned
from .place import ChatOptions
from .questions import InputEnded, put_to_nobody
from .screen import ESC_ESC, Typed
from .shell_line import ShellOutput
from .shown_session import ShownSession
from .surface import Surface
from .view import ChatView

MAX_SHOWN_CHARS = 60
"""Of a prompt that waits, which the input line does not show any more."""

MAX_MADE = 20
"""Texts that servers made and the person may send again."""

WORDS_TO_LEAVE = frozenset({"exit", "quit", "exit()", "quit()", ":q"})
"""Alone on the line they end a shell, a Python, an editor: nobody means a model by them."""

TAKEN_BACK = "taken back by a person"
"""Why an input that waited is cancelled."""

Beginning = Callable[[Client], Awaitable[SessionRow | None]]
"""Returns the session that is shown first."""


class _Unsure(msgspec.Struct, frozen=True):
    """A prompt of which no answer says that it is on record; sent again with its key, it is there once."""

    prompt: tuple[object, ...]
    key: str


class Talk(ShownSession):
    """One chat.

    Attributes:
        shell_output: What goes with the next prompt.
        unsent: What waited for its turn when the chat was left.
    """

    def __init__(
        self,
        surface: Surface,
        options: ChatOptions,
        run_command: Callable[[Talk, str], Awaitable[None]],
    ) -> None:
        super().__init__(surface, options)
        self.shell_output: ShellOutput | None = None
        self.unsent: list[str] = []
        self.questions.answered = self._answered_here
        self._run_command = run_command
        self._keyboard = Keyboard(0, surface.output)
        self._acting: trio.CancelScope | None = None
        self._nursery: trio.Nursery
        self._said_how_to_leave = False
        self._screen.pressed |= {
            "s-tab": self.cycle_policy,
            "c-v": self.paste_image,
            "c-o": self.show_output,
            ESC_ESC: self.edit_earlier,
        }
        self._is_pasting = False
        self._edited: InputAccepted | None = None
        self._unsure: _Unsure | None = None
        self._sent: set[str] = set()
        self._is_foreign = False
        self._foreign: set[str] = set()
        self._made: deque[str] = deque(maxlen=MAX_MADE)
        self._taking: dict[str, InputAccepted] = {}

    async def run(self, client: Client, begin: Beginning, holder: Holder) -> None:
        """Talk until the person leaves; `holder` says whose the daemon is.

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
                self.follow(nursery)
                if (prompt := self._options.prompt) is not None:
                    self.change(prompt=None)
                    await self._act(prompt, is_typed=False)
                await self._converse()
                nursery.cancel_scope.cancel(reason="left")

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

    async def _take(self, typed: Typed) -> None:
        if typed.kind == "end":
            self._end_of_input()
        elif typed.kind == "interrupt":
            self.interrupt(typed.text)
        elif typed.text.strip():
            text = typed.text.strip()
            if text in WORDS_TO_LEAVE and self._surface.can_ask:
                self._end_of_input()
                return
            self._said_how_to_leave = False
            await self._act(text)

    def _end_of_input(self) -> None:
        ends_turn = self._holder.is_ours and self._surface.can_ask and not self.is_at_rest
        if ends_turn and not self._said_how_to_leave:
            self._said_how_to_leave = True
            self.notice("no daemon runs, so leaving ends the turn; Ctrl-D again leaves")
        else:
            self.leave()

    def interrupt(self, typed: str = "") -> None:
        """Handle Ctrl-C: cancel what runs; when nothing runs, the second one leaves the chat."""
        if self._acting is not None:
            self._acting.cancel(reason="Ctrl-C")
        elif not self.is_at_rest and not self._is_cancelling:
            self.notice("cancelling… (Ctrl-C again leaves)")
            self._nursery.start_soon(self._cancel_turn, name="cancel")
        elif (typed or self._edited) and self.is_at_rest:
            self._edited = None
            self._is_foreign = False
            self._screen.keep("")
            self._refresh()
        elif self._options.attachments and self.is_at_rest:
            self.change(attachments=())
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
        """Print a command that was typed, unless it is an input, which is shown anyway: the input line is empty again."""
        if self._surface.is_live and not text.startswith("/compact"):
            sign = "▸" if self._surface.style.signs else ">"
            line = self._surface.style.paint(f"{sign} {safe_line(text)}", "bold")
            self._rows.aside(f"\n{line}\n")

    def _intents(self) -> list[str]:
        rows = super()._intents()
        if self._edited is not None:
            rows.append("an earlier prompt: Enter goes on from there in a copy; Ctrl-C leaves it")
        return rows

    def _set_view(self, session_id: str | None) -> None:
        self._edited = None
        super()._set_view(session_id)

    def edit_earlier(self) -> None:
        """Put the prompt before the one that is edited, or else the last one, into the input line."""
        prompts = [] if self.view is None else [*self.view.prompts]
        if self._edited in prompts:
            prompts = prompts[: prompts.index(self._edited)]
        if waiting := self._own_waiting():
            self._nursery.start_soon(self._take_last_back, waiting[-1], name="take back")
        elif not self.is_at_rest:
            self.notice(
                "a turn is running: Ctrl-C cancels it, and then an earlier prompt can be edited"
            )
        elif not prompts:
            self.notice("there is no earlier prompt here")
        else:
            self._edited = prompts[-1]
            self._screen.fill(self._edited.text)
            self._refresh()

    def _own_waiting(self) -> list[InputAccepted]:
        """Return the inputs of this chat that wait for their turn, in their order."""
        waiting = [] if self.view is None else self.view.waiting.values()
        return [each for each in waiting if each.input_id in self._sent]

    async def _take_last_back(self, said: InputAccepted) -> None:
        try:
            if not await self._take_back([said]):
                self.notice("it was not taken back: its turn had begun")
        except CallboardError as error:
            self.notice(f"it was not taken back: {error}")

    async def _take_back(self, inputs: list[InputAccepted]) -> bool:
        """Have inputs that wait in the input line again, and not sent; return whether any is."""
        view, taken = self.view, list[InputAccepted]()
        assert view is not None
        for each in inputs:
            view.withdrawn.add(each.input_id)
            self._taking[each.input_id] = each
            if each.input_id in view.waiting and await self.client.cancel(
                view.session_id, TAKEN_BACK, input_id=each.input_id
            ):
                taken.append(each)
            else:
                view.withdrawn.discard(each.input_id)
                self._taking.pop(each.input_id, None)
        for each in taken:
            self._taking.pop(each.input_id, None)
        if taken:
            self._is_foreign |= any(each.input_id in self._foreign for each in taken)
            self._screen.hand_back("\n".join(each.text for each in taken))
            files = [file for each in taken for file in each.attachments]
            self.change(attachments=(*files, *self._options.attachments))
            if not self._surface.is_live:
                self.notice(
                    f"not sent: {', '.join(excerpt(each.text, MAX_SHOWN_CHARS) for each in taken)}"
                )
        return bool(taken)

    async def end_left(self) -> None:
        """End this chat's own turn when it is left: what waits behind it is taken back first, or it would begin.

        `unsent` has its text afterwards, also of what Ctrl-C was taking back in that moment.
        """
        view = self.view
        assert view is not None
        waiting = self._taking | {each.input_id: each for each in self._own_waiting()}
        for input_id, each in waiting.items():
            if (
                await self.client.cancel(view.session_id, TAKEN_BACK, input_id=input_id)
                or input_id in self._taking
            ):
                self.unsent.append(each.text)
        await self.client.cancel(view.session_id, LEFT)

    def offer(self, line: str) -> None:
        """Put what may be meant into the input line: nothing of it is done before the person says so."""
        self._screen.hand_back(line)

    async def offer_foreign(self, text: str, *, is_untrusted: bool) -> None:
        """Show a text that a server made, and have the person send it, as it is or changed.

        Raises:
            ValidationError: Nobody sits here.
        """
        if not self._surface.can_ask:
            raise ValidationError("a person looks at it before it is sent, and nobody sits here")
        self.say("\n".join(f"  | {line}" for line in safe_text(text).split("\n")))
        self._is_foreign |= is_untrusted
        if is_untrusted:
            self._made.append(text)
        if self._surface.is_live:
            self._screen.hand_back(text, folds=True)
        elif await self.confirm("Send this? [y/N] "):
            await self.send(text, is_typed=False)
        else:
            self._is_foreign = False

    async def ask_line(self, prompt: str) -> str:
        """Return what a person types behind a prompt; raise `ValidationError` where nobody sits."""
        if not self._surface.can_ask:
            raise ValidationError(f"say it behind the command: {prompt.rstrip(': ')}")
        await self._screen.drain()
        with self._screen.held():
            await self._keyboard.settle()
            typed = await self._keyboard.line(prompt)
        if typed is None:
            raise InputEnded
        return typed

    def paste_image(self) -> None:
        """Have the image on the clipboard go with the next prompt."""
        if not self._is_pasting:
            self._is_pasting = True
            self._nursery.start_soon(self._paste_image, name="clipboard")

    async def _paste_image(self) -> None:
        from ..terminal.clipboard import clipboard_image  # here: few chats have one

        try:
            image = await clipboard_image(os.environ)
            self.change(attachments=checked_attachments((*self._options.attachments, image)))
        except CallboardError as error:
            self.notice(str(error))
        finally:
            self._is_pasting = False

    # ── what commands do ─────────────────────────────────────────────────────────────────────────

    async def fork(self, message_id: str | None = None) -> None:
        """Go on in a copy of the session; with `message_id`, in front of that input.

        Raises:
            CallboardError: There can be none, or it can't be shown.
        """
        view = self.view
        assert view is not None
        if not view.is_idle:
            raise ConflictError("a turn is running: a copy goes on from its end, /cancel ends it")
        await self.show(await self.client.fork(view.session_id, message_id))
        self.say(
            "  this is a copy, which goes on by itself; files are as they are: "
            f"`callboard undo {view.session_id} --dry-run` says what can be taken back"
        )

    async def send(
        self, text: str, mode: str = "queue", *, is_typed: bool = True, compact: bool = False
    ) -> None:
        """Send an input to the session; begin one when there is none. Files that are typed go with it."""
        named = await self._files_of(text) if is_typed else ()
        is_untrusted = self.shell_output is not None or self._is_foreign
        is_untrusted |= any(made in text for made in self._made)  # from the history, for one
        if self._edited is not None and mode == "queue":
            earlier = self._edited
            is_untrusted |= earlier.input_id in self._foreign
            await self.fork(earlier.input_id)
            self.change(attachments=(*earlier.attachments, *self._options.attachments))
        files = (*self._options.attachments, *named)
        for remark in remarks(files):
            self.notice(remark)
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
            await self._warn_of_tools()
        view = self.view
        assert view is not None
        await self._agree_to_agent(self.confirm, text)
        await self._ask_about_skills()
        has_turn = mode != "steer"  # what steers becomes part of a turn, which has its options
        turn = msgspec.structs.replace(self._options.turn, compact=compact)
        given = turn if has_turn and turn != TurnOptions() else None
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
            is_untrusted=is_untrusted,
            key=self._unsure.key,
        )
        self._sent.add(ticket.input_id)
        if is_untrusted:
            self._foreign.add(ticket.input_id)
        self._is_foreign = False
        if view is self.view:
            waiting = {each.input_id for each in self._own_waiting()} | {ticket.input_id}
            self._holder.show(view.session_id, *waiting)
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
            files = read_attachments(paths)
        except CallboardError:
            self._screen.keep(text)
            raise
        taken = []
        for file in files:
            is_large = is_text(file) and len(file.data) > LARGE_BYTES
            question = f"{large(file)}, and each later prompt pays them again. Attach it? [y/N] "
            if not is_large or await self.confirm(question):
                taken.append(file)
        return tuple(taken)

    async def _ask_about_skills(self) -> None:
        """Ask about what this folder tells models, when nobody approved it or it was changed since."""
        from ..ask.skills import SkillQuestion  # here: few folders have any

        allow = partial(self.client.skills.allow, workspace=self.folder)
        question = SkillQuestion(self._surface.data, Path(self.folder), allow)
        if not self.client.is_connected:
            return  # the prompt waits for the daemon; what nobody approved is left out then
        if not (waiting := await question.look()):
            return
        row = await self._agent_row()
        agent = Agent() if row is None else agent_of_row(row)
        await self._screen.drain()
        with self._screen.held():
            keyboard = self._keyboard if self._surface.can_ask else None
            await question.put(waiting, agent, keyboard, self._notice_once)

    async def _warn_of_tools(self) -> None:
        """Say which tools the agent names that do not exist: its model never gets them."""
        row = await self._agent_row()
        if row is None or all(tool.tier is not None for tool in row.tools):
            return
        known = [tool.name for tool in (await self.client.tools()).tools]
        for line in unknown_tools(row.name, row.tool_names, known):
            self._notice_once(line)

    async def _agent_row(self) -> AgentRow | None:
        """Return the agent of the session; `None` when it is gone, and General Assistant goes on."""
        try:
            return await self.client.agents.get(self._facts.agent or self._options.agent)
        except NotFoundError:
            return None

    def _notice_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self.notice(text)

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
        """Cancel the turn that is shown, and no later one, which may run when an absent daemon hears of this.

        What waits behind it was said before it went wrong: the person has it in the input line again.
        """
        if (view := self.view) is None:
            return
        if waiting := self._own_waiting():
            await self._take_back(waiting)
        meant = view.turn_input if view.is_running else ""
        if not await self.client.cancel(
            view.session_id, "cancelled by a person", input_id=meant or None
        ):
            self.notice("it had ended already" if meant else "nothing ran")

    async def write_raw(self, text: str) -> bool:
        """Write to the terminal what it obeys and does not show; return whether there is one."""
        await self._screen.drain()
        if self._surface.can_ask:
            self._surface.output.write(text)
        return self._surface.can_ask

    async def confirm(self, text: str) -> bool:
        """Return whether a person agrees; Ctrl-C says no."""
        if not self._surface.can_ask:
            return False
        await self._screen.drain()
        said, around = None, self._acting
        with trio.CancelScope() as self._acting, self._screen.held():
            await self._keyboard.settle()
            said = await self._keyboard.choice(text)
        self._acting = around
        if said is None:
            self._keyboard.write("\n")
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
