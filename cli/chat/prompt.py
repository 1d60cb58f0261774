"""A terminal whose input line stays where it is while the rest goes by above it.

prompt_toolkit edits the line, in a thread with a loop of its own: it runs while a person may type,
and only that thread writes to the terminal then. When something else needs the terminal (a
question, an editor) it ends, and what was typed is there again afterwards.
"""

from __future__ import annotations

import json
import os
import re
import sys
import termios
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from ...runtime.redaction import redact
from ..terminal.folding import MIN_COLUMNS, columns_of
from ..terminal.output import MAX_WAITING_CHARS, Output
from .screen import HeldOutput, Typed

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


FILE_NAME = "chat_history.jsonl"
MAX_ENTRIES = 1000
"""Entries that are kept, the latest: nobody presses an arrow more often."""
MAX_ENTRY_CHARS = 10_000
"""Longer texts were pasted, and are on record in their session."""
MAX_FILE_BYTES = 8 * 1024 * 1024
"""The part of the history file that is read."""


class InputHistory(History):
    """The lines of earlier chats, the latest first; keys in them are masked.

    A file that can't be used is done without: nothing depends on it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / FILE_NAME

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries on file, the latest first."""
        entries = self._entries()
        if len(entries) > 2 * MAX_ENTRIES:
            with suppress(OSError):
                self._path.unlink()
                for entry in entries[-MAX_ENTRIES:]:
                    self._append(entry)
        return reversed(entries[-MAX_ENTRIES:])

    def store_string(self, string: str) -> None:
        """Add one."""
        if len(string) <= MAX_ENTRY_CHARS:
            with suppress(OSError):
                self._append(redact(string))

    def _append(self, entry: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(entry).encode() + b"\n")

    def _entries(self) -> list[str]:
        try:
            with open(self._path, "rb") as file:
                lines = file.read(MAX_FILE_BYTES).split(b"\n")
        except OSError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError):
                if isinstance(entry := json.loads(line), str):
                    entries.append(entry)
        return entries


MAX_OFFERED = 50
"""Files that Tab offers: more are no help."""
MAX_LOOKED_AT = 2_000
"""Entries of a folder that are looked at for them."""

_TYPING = re.compile(r"(?<!\S)@(\S*)$")


class ChatCompleter(Completer):
    """Completes commands at the beginning of a line, and files behind an `@`.

    Args:
        commands: The commands, with their slash.

    Attributes:
        folder: Where files are looked for.
    """

    def __init__(self, commands: Iterable[str]) -> None:
        self.folder = Path()
        self._commands = sorted(commands)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield what may stand at the cursor."""
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            for name in self._commands:
                if name.startswith(text):
                    yield Completion(name, start_position=-len(text))
        elif (typing := _TYPING.search(text)) is not None:
            yield from self._files(typing[1])

    def _files(self, begun: str) -> Iterator[Completion]:
        parent, _, name = begun.rpartition("/")
        place = f"{parent}/" if "/" in begun else ""
        entries = []
        try:
            with os.scandir(self.folder / Path(place or ".").expanduser()) as found:
                for _, entry in zip(range(MAX_LOOKED_AT), found, strict=False):
                    is_hidden = entry.name.startswith(".") and not name.startswith(".")
                    if entry.name.startswith(name) and not is_hidden and " " not in entry.name:
                        entries.append(entry.name + ("/" if entry.is_dir() else ""))
        except OSError:
            return
        for each in sorted(entries)[:MAX_OFFERED]:
            if each.isprintable():
                yield Completion(f"{place}{each}", start_position=-len(begun))


GATHER_SECONDS = 0.02
"""Time between two prints: what comes faster is printed together, and the eye sees no difference."""

_USUAL_COLUMNS, _USUAL_ROWS = 80, 24
_BEGIN_UPDATE, _END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized update: terminals that know it show what is between the two all at once."""


class LiveScreen:
    """A terminal with an input line that stays; see `PlainScreen`.

    Args:
        output: Writes while nobody may type.
        data: The folder of the history.
        commands: The words that Tab completes at the beginning of a line.
        has_signs: Whether the terminal shows more than ASCII.
    """

    def __init__(self, output: Output, data: Path, commands: list[str], *, has_signs: bool) -> None:
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
        self._room = trio.Event()
        self._trio = trio.lowlevel.current_trio_token()
        self._completer = ChatCompleter(commands)
        self._session = self._make_session(data)

    def _make_session(self, data: Path) -> PromptSession[Typed]:
        session: PromptSession[Typed] = PromptSession(
            self._message,
            history=InputHistory(data),
            key_bindings=_bindings(self._press),
            completer=self._completer,
            enable_open_in_editor=True,
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            enable_history_search=True,
            enable_suspend=True,
            erase_when_done=True,
            input=create_input(sys.stdin),
            output=Vt100_Output(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False),
        )
        session.app.after_render += self._rendered
        return session

    def look_in(self, folder: Path) -> None:
        """Complete names of files in a folder."""
        self._completer.folder = folder

    @property
    def columns(self) -> int:
        """The present width of the terminal."""
        return columns_of(1) or max(MIN_COLUMNS, _USUAL_COLUMNS)

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
            if live == self._live:
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
            app.output.write_raw(_BEGIN_UPDATE)
            app.renderer.erase()
            app.output.write_raw(text)
            app.output.flush()
        app.invalidate()

    def _rendered(self, _: object) -> None:
        if self._is_updating:
            self._is_updating = False
            self._session.app.output.write_raw(_END_UPDATE)
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
        self._is_unwanted, self._is_editing = False, True
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
            app.exit(result=Typed("interrupt", app.current_buffer.text))

    def _press(self, key: str) -> None:
        if (call := self.pressed.get(key)) is not None:
            self._trio.run_sync_soon(call)

    def keep(self, text: str) -> None:
        """Put a text into the input line for the next time."""
        self._kept = Document(text)


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        columns, rows = 0, 0  # it is gone
    return Size(rows=rows or _USUAL_ROWS, columns=columns or _USUAL_COLUMNS)


def _bindings(press: Callable[[str], None]) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("s-tab")
    def cycle(event: KeyPressEvent) -> None:
        press("s-tab")

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        buffer.append_to_history()
        event.app.exit(result=Typed("line", buffer.text))

    @bindings.add("c-j")
    @bindings.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        event.app.exit(result=Typed("interrupt", event.current_buffer.text))

    return bindings
