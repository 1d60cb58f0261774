"""`!command`: a line of the person's own shell, outside the sandbox; the model has no part in it."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress

import msgspec
import trio

from ...runtime.errors import CallboardError
from ..terminal.escaping import safe_text

MAX_KEPT_CHARS = 20_000
"""What is kept of the output, half from its beginning and half from its end: a page for a model."""
MAX_SHOWN_LINES = 200
"""Lines that are printed: who wants more has a terminal."""
READ_BYTES = 65_536
MARGIN = "  "


class ShellOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a command printed, and how it ended."""

    command: str
    code: int
    text: str

    def as_text(self) -> str:
        """Return it as a part of a prompt."""
        ended = f"It exited with {self.code}." if self.code else "It exited with 0."
        return (
            f"I ran this command, and this is its output:\n\n$ {self.command}\n{self.text}\n{ended}"
        )


async def run_shell_line(command: str, folder: str, write: Callable[[str], None]) -> ShellOutput:
    """Run a command in the person's shell and print its output; cancelled, it and its children are killed.

    Raises:
        CallboardError: The shell can't be started: it or the folder is not there, or the line is too long.
    """
    shell = os.environ.get("SHELL") or "/bin/sh"
    try:
        process = await trio.lowlevel.open_process(
            [shell, "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise CallboardError(
            f"{shell} can't run that in {folder}: {error.strerror or error}"
        ) from error
    assert process.stdout is not None
    kept = _Kept(write)
    try:
        async with process.stdout as output:
            while data := await output.receive_some(READ_BYTES):
                kept.add(data)
        code = await process.wait()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()
        raise
    return ShellOutput(command=command, code=code, text=kept.end())


class _Kept:
    """Prints the output as it comes, and keeps its beginning and its end."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begin = self._end = self._line = ""
        self._lost = self._lines = 0

    def add(self, data: bytes | bytearray) -> None:
        text = self._decoder.decode(data)
        room = MAX_KEPT_CHARS // 2 - len(self._begin)
        self._begin += text[:room]
        self._end += text[room:]
        self._lost += max(len(self._end) - MAX_KEPT_CHARS // 2, 0)
        self._end = self._end[-(MAX_KEPT_CHARS // 2) :]
        *lines, self._line = (self._line + text).split("\n")
        self._line = self._line[:MAX_KEPT_CHARS]
        for line in lines:
            self._print(line)

    def end(self) -> str:
        if self._line:
            self._print(self._line)
        if self._lines > MAX_SHOWN_LINES:
            self._write(f"{MARGIN}… and {self._lines - MAX_SHOWN_LINES} lines more\n")
        gap = f"\n[… {self._lost} characters left out …]\n" if self._lost else ""
        return f"{self._begin}{gap}{self._end}"

    def _print(self, line: str) -> None:
        self._lines += 1
        if self._lines <= MAX_SHOWN_LINES:
            self._write(f"{MARGIN}{safe_text(line.rstrip(chr(13)))}\n")
