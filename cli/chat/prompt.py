"""A terminal whose input line stays where it is while the rest goes by above it.

prompt_toolkit edits the line, in a thread with a loop of its own: it runs while a person may type,
and only that thread writes to the terminal then. When something else needs the terminal (a
question, an editor) it ends, and what was typed is there again afterwards.
"""

from __future__ import annotations

import os
import sys
import termios
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, get_common_complete_suffix
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.screen import Char, Screen
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.search import accept_search, stop_search
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from ..terminal.folding import folds_rows, size_of
from ..terminal.output import MAX_WAITING_CHARS, Output
from ..terminal.rows_below import BEGIN_UPDATE, END_UPDATE
from .input_aids import ChatCompleter, InputHistory, Pastes
from .screen import ESC_ESC, HeldOutput, Typed

_INPUT, _LOCAL, _CHARS = 0, 3, 6
"""Indexes of a terminal's flags in the result of `tcgetattr`."""


class TerminalModes:
    """The two modes of a chat's terminal, one inside the other.

    Quiet: what is typed is not printed, and is kept letter by letter for the next input line; Ctrl-C
    is a signal. Usual: as the terminal was found, for questions and editors.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._found: list[Any] | None = None

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Make the terminal quiet for the block."""
        self._found = termios.tcgetattr(self._descriptor)
        self._set(_quieted(self._found))
        try:
            yield
        finally:
            self._set(self._found)
            self._found = None

    @contextmanager
    def usual(self) -> Generator[None]:
        """Give the terminal its usual mode for the block."""
        if self._found is None:
            yield
            return
        self._set(self._found)
        try:
            yield
        finally:
            self._set(_quieted(self._found))

    def _set(self, modes: list[Any]) -> None:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, modes)


def _quieted(found: list[Any]) -> list[Any]:
    modes = [*found]
    modes[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    modes[_INPUT] &= ~(termios.ICRNL | termios.IXON)
    modes[_CHARS] = [*found[_CHARS]]
    modes[_CHARS][termios.VMIN], modes[_CHARS][termios.VTIME] = 1, 0
    return modes


GATHER_SECONDS = 0.02
"""Time between two prints: what comes faster is printed together, and the eye sees no difference."""

MENU_ROWS = 7
"""Rows of the input and its menu: what fits below an answer on the smallest screen."""
ESCAPE_SECONDS = 0.1
"""How long a terminal may take for the rest of what a key sends, once its first character is there."""
SECOND_KEY_SECONDS = 0.5
"""How long a second Esc may take."""
_PLAIN_MENU = Style.from_dict(
    {
        "completion-menu": "noinherit",
        "completion-menu.completion": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit",
        "completion-menu.meta.completion.current": "noinherit reverse",
        "scrollbar.background": "noinherit",
        "scrollbar.button": "noinherit reverse",
    }
)
"""In the terminal's own colours, which are readable on any ground."""


class LiveScreen:
    """A terminal with an input line that stays; see `PlainScreen`.

    Args:
        output: Writes while nobody may type.
        data: The folder of the history.
        commands: What each command does, by its name with the slash.
        has_signs: Whether the terminal shows more than ASCII.
    """

    def __init__(
        self, output: Output, data: Path, commands: Mapping[str, str], *, has_signs: bool
    ) -> None:
        self.pressed: dict[str, Callable[[], None]] = {}
        self._output = output
        self._held_output = HeldOutput(output)
        self._modes = TerminalModes(0)
        self._mark = "▸ " if has_signs else "> "
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._chars = 0
        self._live = ""
        self._loop: Any = None  # of prompt_toolkit's thread, while a person may type
        self._is_editing = False
        self._is_flush_due = False
        self._is_unwanted = False
        self._is_updating = False
        self._kept = Document()
        self._pastes = Pastes()
        self._filled = ""
        self._handed_back: list[str] = []
        self._drawn_size: Size | None = None
        self._had_menu = False
        self._folds = folds_rows(os.environ)
        self._room = trio.Event()
        self._trio = trio.lowlevel.current_trio_token()
        self._completer = ChatCompleter(commands)
        self._session = self._make_session(data)

    def _make_session(self, data: Path) -> PromptSession[Typed]:
        offers = Condition(self._offers)
        session: PromptSession[Typed] = PromptSession(
            self._message,
            history=InputHistory(data),
            key_bindings=_bindings(self._press, self._completer, self._pastes),
            completer=self._completer,
            enable_open_in_editor=True,
            complete_while_typing=offers,
            complete_style=CompleteStyle.COLUMN,
            reserve_space_for_menu=MENU_ROWS,
            enable_history_search=~offers,
            search_ignore_case=True,
            enable_suspend=True,
            erase_when_done=True,
            style=_PLAIN_MENU,
            input=create_input(sys.stdin),
            output=Vt100_Output(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False),
        )
        app = session.app
        app.before_render += self._before_render
        app.after_render += self._rendered
        app.terminal_size_polling_interval = None  # `_before_render` erases what was drawn
        app.ttimeoutlen, app.timeoutlen = ESCAPE_SECONDS, SECOND_KEY_SECONDS
        session.default_buffer.on_text_changed += self._drop_menu
        return session

    def _offers(self) -> bool:
        document = self._session.default_buffer.document
        return self._completer.is_wanted(document.text_before_cursor)

    def _drop_menu(self, _: object) -> None:
        """Give the rows of a menu back, once none is wanted."""
        screen = self._session.app.renderer.last_rendered_screen
        if self._had_menu and screen is not None and not self._offers():
            self._had_menu = False
            self._erase()

    def look_in(self, folder: Path) -> None:
        """Complete names of files in a folder."""
        self._completer.folder = folder

    def offer(self, commands: Mapping[str, str]) -> None:
        """Complete further commands, with what they do."""
        self._completer.further = commands

    @property
    def columns(self) -> int:
        """The present width of the terminal."""
        return size_of(1).columns

    @property
    def typed(self) -> str:
        """See `PlainScreen`."""
        return self._pastes.unfold("\n".join(filter(None, [*self._handed_back, self._kept.text])))

    # ── what is shown ────────────────────────────────────────────────────────────────────────────

    def write(self, text: str) -> None:
        """Print it above the input."""
        if not text:
            return
        with self._lock:
            if not self._is_editing:
                self._held_output.write(text)
                return
            self._waiting.append(text)
            self._chars += len(text)
            self._call_soon()

    def show_live(self, rows: list[str]) -> None:
        """Show them above the input, instead of what stood there."""
        live = "".join(f"{row}\n" for row in rows)
        with self._lock:
            if live == self._live and self._drawn_size in {None, _size()}:
                return
            self._live = live
            if self._loop is not None:
                self._call_soon()

    async def wait_room(self) -> None:
        """Wait while too much text waits for a slow terminal."""
        while self._chars >= MAX_WAITING_CHARS:
            self._room = trio.Event()
            await self._room.wait()
        if not self._held_output.is_held:
            await self._output.wait_room()

    @contextmanager
    def taken(self) -> Generator[None]:
        """See `PlainScreen`."""
        with self._modes.quiet():
            yield

    @contextmanager
    def held(self) -> Generator[None]:
        """See `PlainScreen`."""
        with self._held_output, self._modes.usual():
            yield

    async def drain(self) -> None:
        """Wait until everything is written; nobody may type meanwhile."""
        await self._output.drain()

    def _call_soon(self) -> None:
        """Have the thread print what waits; the caller holds the lock."""
        if not self._is_flush_due and self._loop is not None:
            self._is_flush_due = True
            self._ask_loop(self._loop.call_later, GATHER_SECONDS, self._flush)

    def _ask_loop(self, call: Callable[..., object], *arguments: object) -> None:
        """Have the thread call something, unless its loop ends just now; the caller holds the lock."""
        with suppress(RuntimeError):  # it is closed: `_stop_editing` prints what waits
            self._loop.call_soon_threadsafe(call, *arguments)

    def _flush(self) -> None:
        with self._lock:
            self._is_flush_due = False
            if self._loop is None:
                return
            text = self._taken()
        app = self._session.app
        if text:
            self._is_updating = True
            app.output.write_raw(BEGIN_UPDATE)
            self._erase()
            app.output.write_raw(text)
            app.output.flush()
        app.invalidate()

    def _before_render(self, _: object) -> None:
        size = _size()
        if self._drawn_size not in {None, size}:
            self._erase()
        room = size.rows - self._live.count("\n") - 1  # a window that has too little is not drawn
        self._session.reserve_space_for_menu = max(min(MENU_ROWS, room), 0)

    def _erase(self) -> None:
        """Erase the input and what stands above it, with the rows that a narrower terminal has made of it."""
        app, size = self._session.app, self._drawn_size
        screen = app.renderer.last_rendered_screen
        if self._folds and screen is not None and size is not None:
            columns = _size().columns
            if columns < size.columns:
                cursor = screen.get_cursor_position(app.layout.current_window)
                app.output.cursor_up(added_rows(screen, cursor, columns))
        app.renderer.erase()
        self._drawn_size = None

    def _rendered(self, _: object) -> None:
        self._drawn_size = _size()
        self._had_menu = self._had_menu or self._offers()
        if self._is_updating:
            self._is_updating = False
            self._session.app.output.write_raw(END_UPDATE)
            self._session.app.output.flush()

    def _taken(self) -> str:
        text, self._waiting, self._chars = "".join(self._waiting), [], 0
        if text:
            self._trio.run_sync_soon(self._make_room)
        return text

    def _make_room(self) -> None:
        self._room.set()

    def _message(self) -> AnyFormattedText:
        return ANSI(self._live + self._mark)

    # ── what is typed ────────────────────────────────────────────────────────────────────────────

    async def read(self, *, is_idle: bool) -> Typed:
        """See `PlainScreen`."""
        typed: list[Typed] = []
        done = trio.Event()
        self._is_unwanted, self._is_editing, self._filled = False, True, ""
        try:
            await self._output.drain()
        except BaseException:
            self._stop_editing()
            raise

        async def edit() -> None:
            # Not abandoned when cancelled: it is asked to end, and does.
            with trio.CancelScope(shield=True):
                try:
                    typed.append(await trio.to_thread.run_sync(self._edit))
                finally:
                    self._stop_editing()
            done.set()
            # Cancelled in the moment of Enter, nobody takes the line: it stands there again.
            self._kept = Document(typed[0].text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(edit, name="input line")
            try:
                await done.wait()
            finally:
                self._end_editing()
        if typed[0].kind != "interrupt":
            self._kept = Document()
        return typed[0]

    def _edit(self) -> Typed:
        session = self._session
        try:
            typed = session.prompt(default=self._kept, pre_run=self._begun, handle_sigint=False)
        except EOFError:
            typed = Typed("end")
        finally:
            with self._lock:
                self._loop = None
        return typed if isinstance(typed, Typed) else Typed("line", typed)

    def _stop_editing(self) -> None:
        """Print from here on without the input line, after what waits."""
        with self._lock:
            self._is_editing = self._is_flush_due = False
            text = self._taken()
        self._held_output.write(text)

    def _begun(self) -> None:
        with self._lock:
            self._loop = self._session.app.loop
            if self._waiting:
                self._call_soon()
            if self._handed_back:
                self._ask_loop(self._put_back)
            if self._is_unwanted:
                self._session.app.exit(result=Typed("interrupt", self._kept.text))

    def _end_editing(self) -> None:
        with self._lock:
            self._is_unwanted = True
            if self._loop is not None:
                self._ask_loop(self._end_now)

    def _end_now(self) -> None:
        app = self._session.app
        if app.is_running and not app.is_done:
            if app.layout.is_searching:
                with set_app(app):
                    stop_search()  # else its words would be the input, now and the next time
            app.exit(result=Typed("interrupt", app.current_buffer.text))

    def _press(self, key: str) -> None:
        if key == ESC_ESC and self._session.default_buffer.text not in {"", self._filled}:
            return
        if (call := self.pressed.get(key)) is not None:
            self._trio.run_sync_soon(call)

    def keep(self, text: str) -> None:
        """Put a text into the input line for the next time."""
        self._kept = Document(text)

    def hand_back(self, text: str, *, folds: bool = False) -> None:
        """Put a text into the input line ahead of what is typed, now or as soon as there is one.

        With `folds` a sign stands there for one that is long, as for a paste.
        """
        with self._lock:
            self._handed_back.append(self._pastes.fold(text) if folds else text)
            if self._loop is not None:
                self._ask_loop(self._put_back)

    def _put_back(self) -> None:
        with self._lock:
            texts, self._handed_back = self._handed_back, []
        buffer = self._session.default_buffer
        buffer.document = Document("\n".join(filter(None, [*texts, buffer.text])))

    def fill(self, text: str) -> None:
        """Put a text into the input line, where nothing else is typed."""

        def put() -> None:
            buffer = self._session.default_buffer
            if buffer.text in {"", self._filled}:
                buffer.document = Document(text)
                self._filled = text

        with self._lock:
            if self._loop is not None:
                self._ask_loop(put)


def _size() -> Size:
    columns, rows = size_of(1)
    return Size(rows=rows, columns=columns)


def added_rows(screen: Screen, cursor: Point, columns: int) -> int:
    """Return by how many rows the cursor is lower, once the terminal has folded what was drawn."""
    added = 0
    for y in range(cursor.y):
        row: dict[int, Char] = screen.data_buffer.get(y) or {}
        ends = [x for x, cell in row.items() if cell.char != " "]
        x = used = 0
        while x <= max(ends, default=-1):
            width = max(row[x].width, 1) if x in row else 1
            if used + width > columns:
                added, used = added + 1, 0
            used += width
            x += width
    return added + cursor.x // max(columns, 1)


def _bindings(press: Callable[[str], None], completer: Completer, pastes: Pastes) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("s-tab", filter=~has_completions)
    def cycle(event: KeyPressEvent) -> None:
        press("s-tab")

    for key in ("c-v", "c-o"):
        bindings.add(key)(lambda event, key=key: press(key))

    @bindings.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if text:
            event.current_buffer.insert_text(pastes.fold(text))
        else:
            press("c-v")  # so some terminals paste what is no text

    @bindings.add("escape", "escape")
    def edit_earlier(event: KeyPressEvent) -> None:
        press(ESC_ESC)

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        if event.app.layout.is_searching:
            accept_search()
            return
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        event.app.exit(result=Typed("line", _sent(buffer, pastes)))

    @bindings.add("c-j")
    @bindings.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        if event.app.layout.is_searching:
            stop_search()  # as in a shell: the input is again what it was
        else:
            event.app.exit(result=Typed("interrupt", event.current_buffer.text))

    _bind_menu(bindings, completer)  # last, since of two bindings the later one holds
    return bindings


def _sent(buffer: Buffer, pastes: Pastes) -> str:
    """Return what was typed, with what was pasted, which is what can be had back by the arrows."""
    whole = pastes.unfold(buffer.text)
    if whole == buffer.text:
        buffer.append_to_history()
    else:
        buffer.history.append_string(whole)
    return whole


def _bind_menu(bindings: KeyBindings, completer: Completer) -> None:
    @bindings.add("tab")
    def complete(event: KeyPressEvent) -> None:
        """Add what all choices begin with; where that is nothing, go through them."""
        buffer = event.current_buffer
        menu, wanted = buffer.complete_state, CompleteEvent(completion_requested=True)
        found = [*completer.get_completions(buffer.document, wanted)]
        if menu is not None and menu.current_completion:
            buffer.complete_next()
        elif suffix := get_common_complete_suffix(buffer.document, found):
            buffer.insert_text(suffix)
        elif menu is not None:
            buffer.complete_next()
        elif found:
            buffer.start_completion(select_first=True)

    @bindings.add("escape", filter=has_completions)
    def close_menu(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    @Condition
    def has_file() -> bool:
        buffer = get_app().current_buffer
        menu = buffer.complete_state
        is_chosen = menu is not None and menu.current_completion is not None
        return is_chosen and not buffer.text.startswith("/")

    @bindings.add("enter", filter=has_file)
    def take_file(event: KeyPressEvent) -> None:
        """Go on with the prompt behind the file that was chosen."""
        buffer = event.current_buffer
        buffer.complete_state = None
        buffer.insert_text("" if buffer.text.endswith("/") else " ")
