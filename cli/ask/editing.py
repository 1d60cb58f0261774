"""A person changes the arguments of a call: in their editor, or line by line without one."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import tempfile
import termios
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio

from ..show.question_text import block
from ..terminal.escaping import exact, safe_line
from ..terminal.keyboard import Keyboard
from .edit_form import EditProblem, Form, arguments_of, form_of, is_same
from .parameter_lines import is_text, parameter_lines, properties_of, required_of

MAX_EDITED_BYTES = 16 * 1024 * 1024
"""The largest edited file: more than a call's arguments may take."""

PREFIX = "callboard.edit-"
"""Prefix of the folders that hold edited files. Those of a killed process are removed by the next edit."""

GRACE_SECONDS = 1.0
"""Time for an editor that is ended to put the terminal in order."""

LEAVE_OUT = "-"
"""What is typed in place of a value. Who means the text writes it in quotes."""

_LEFT_OUT = object()

_LEFT_TO_THE_EDITOR = (signal.SIGINT, signal.SIGQUIT)


class Editor:
    """Has a person edit the arguments of a call, with the terminal of a `Keyboard`.

    Args:
        keyboard: Where a person is.
        folder: Where files to edit are made, for their owner alone: the data folder, which no
            workspace holds, and of which this process is the one writer.
        environ: Names the editor: VISUAL, or else EDITOR.
    """

    def __init__(
        self, keyboard: Keyboard, folder: Path, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._keyboard = keyboard
        self._folder = folder
        self._command = environ.get("VISUAL") or environ.get("EDITOR") or ""
        self._undo = ExitStack()

    async def edit(
        self,
        tool: str,
        arguments: str,
        draft: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the arguments as a person changed them, a JSON object.

        Args:
            tool: The name of the tool.
            arguments: The arguments as they are.
            draft: What they wrote in an earlier try, to go on with.
            parameters: The schema of the tool's arguments, from which they are told what it takes.

        Raises:
            EditProblem: The edit can't be used.
        """
        if self._command.strip():
            changed = await self._edit_as_file(form_of(tool, arguments, parameters), draft)
        else:
            changed = await self._edit_inline(arguments, parameters)
        if is_same(changed, arguments):
            raise EditProblem("what you saved is what was there")
        return changed

    async def _edit_as_file(self, form: Form, draft: str | None) -> str:
        words = _words(self._command)
        with ExitStack() as undo:
            self._undo = undo
            folder = await trio.to_thread.run_sync(_new_folder, self._folder)
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            path = folder / ("arguments.json" if form.long is None else "arguments.txt")
            await trio.to_thread.run_sync(_write, path, draft or form.text)
            await self._keyboard.settle()
            terminal = undo.enter_context(_lent(self._keyboard.descriptor))
            await _run(words, path, terminal, undo)
            await self._keyboard.settle()
            text = await trio.to_thread.run_sync(_read, path)
        return arguments_of(form, text)

    def abandon(self) -> None:
        """End an open editor and restore the terminal, before an exit on the spot."""
        self._undo.close()

    async def _edit_inline(self, arguments: str, parameters: Mapping[str, Any] | None) -> str:
        values: dict[str, Any] = json.loads(arguments)
        takes, required = properties_of(parameters), required_of(parameters)
        if not values and not takes:
            raise EditProblem("there are no arguments")
        self._keyboard.write(
            "VISUAL and EDITOR name no editor, so argument by argument: Enter keeps a value; a\n"
            "text is typed as it is, or in quotes with JSON's escapes; anything else, as JSON.\n"
        )
        changed: dict[str, Any] = {}
        for each, given in values.items():
            typed = await self._value(each, given, is_optional=each not in required)
            if typed is not _LEFT_OUT:
                changed[each] = typed
        left_out = {name: schema for name, schema in takes.items() if name not in changed}
        if lines := parameter_lines(parameters, changed):
            self._keyboard.write("It also takes, and was not given:\n")
            self._keyboard.write("".join(f"  {line}\n" for line in lines))
        while left_out and (name := await self._keyboard.line("add which one? (Enter: none) ")):
            if name not in left_out:
                self._keyboard.write(f"Not added: {safe_line(name)} is none of these.\n")
                continue
            begins = "" if is_text(left_out.pop(name), parameters or {}) else None
            value = await self._value(name, begins)
            if value not in ("", None):
                changed[name] = value
        return json.dumps(changed)

    async def _value(self, name: str, value: Any, *, is_optional: bool = False) -> Any:
        """Return what a person types for an argument, or `_LEFT_OUT` where they may leave it out."""
        shown = exact(json.dumps({name: value}, ensure_ascii=False))[1:-1]
        self._keyboard.write("\n".join(block(shown)) + "\n")
        way_out = f" ({LEAVE_OUT} leaves it out)" if is_optional else ""
        while True:
            typed = await self._keyboard.line(f"new value{way_out}: ")
            if typed is None:
                raise EditProblem("the input ended")
            if not typed:
                return value
            if is_optional and typed.strip() == LEAVE_OUT:
                return _LEFT_OUT
            if isinstance(value, str) and not typed.startswith('"'):
                return typed
            try:
                return json.loads(typed)
            except (ValueError, RecursionError) as error:
                self._keyboard.write(f"That is not JSON: {safe_line(str(error))}\n")


def _words(command: str) -> list[str]:
    """Return the editor's command line as words; no shell reads it."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise EditProblem(f"the editor's command {command!r} can't be read: {error}") from None


async def _run(words: list[str], path: Path, terminal: int, undo: ExitStack) -> None:
    """Run the editor to its end; cancelled, it is ended."""
    start = partial(
        trio.run_process,
        [*words, str(path)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        check=False,
        deliver_cancel=_end,
    )
    try:
        async with trio.open_nursery() as nursery:
            done: trio.Process = await nursery.start(start)
            undo.callback(done.kill)
    except* OSError as group:
        [reason] = (error.strerror for error in group.exceptions if isinstance(error, OSError))
        raise EditProblem(
            f"the editor {words[0]!r} can't be started: {reason}. VISUAL or EDITOR names another; "
            "without both, you edit here"
        ) from None
    assert done.returncode is not None
    if done.returncode < 0:
        raise EditProblem(f"the editor was ended by signal {-done.returncode}")
    if done.returncode:
        raise EditProblem(f"the editor ended with {done.returncode}")


async def _end(process: trio.Process) -> None:
    """End an editor that is no longer wanted; Trio shields it from the cancellation."""
    with suppress(OSError):
        process.terminate()
    await trio.sleep(GRACE_SECONDS)
    with suppress(OSError):
        process.kill()


@contextmanager
def _lent(descriptor: int) -> Generator[int]:
    """Lend the terminal to a program for the block, then restore the terminal's state.

    The program is in our group, so that Ctrl-Z stops both and Ctrl-C reaches both: what it does to
    the program is the program's affair, and nothing is cancelled here.
    """
    state = termios.tcgetattr(descriptor)
    handlers = {number: signal.signal(number, _leave) for number in _LEFT_TO_THE_EDITOR}
    terminal = _both_ways(descriptor)
    try:
        yield terminal
    finally:
        os.close(terminal)
        for number, handler in handlers.items():
            if signal.getsignal(number) is _leave:  # nobody has begun to stop us meanwhile
                signal.signal(number, handler)
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(descriptor, termios.TCSANOW, state)


def _leave(number: int, frame: object) -> None:
    """Do nothing. The signal is handled and not ignored, since a program would inherit that."""


def _both_ways(descriptor: int) -> int:
    """Return the terminal behind a descriptor, open for reading and writing."""
    try:
        return os.open(os.ttyname(descriptor), os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return os.dup(descriptor)


def _new_folder(parent: Path) -> Path:
    for left in parent.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))


def _write(path: Path, text: str) -> None:
    path.touch(0o600, exist_ok=False)
    path.write_bytes(text.encode())


def _read(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_EDITED_BYTES + 1)
    except OSError as error:
        raise EditProblem(f"the file can't be read any more: {error.strerror}") from None
    if len(data) > MAX_EDITED_BYTES:
        raise EditProblem(f"it is longer than {MAX_EDITED_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EditProblem("it is not UTF-8 text") from None
