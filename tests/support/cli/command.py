"""The real command, as a process: what tests of the command line share.

No test reaches a model of this machine: keys are taken out of the environment, and a configuration
puts the servers that callboard looks for where nothing listens.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sys
import termios
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
import trio

import callboard
from callboard.config.daemon_file import find_daemon
from callboard.providers.testing.script import Step
from callboard.providers.testing.scripted_server import ScriptedServer
from callboard.runtime.events import TurnEnded
from callboard.runtime.store.sqlite_store import open_reader
from support.cli.warm_process import WarmProcess, can_be_warm, nowhere, run_warm, start_warm

NOWHERE = """
[providers.ollama]
base_url = "http://127.0.0.1:9/v1"
[providers.llamacpp]
base_url = "http://127.0.0.1:9/v1"
"""
"""Port 9 is `discard`, which nobody runs."""

PATIENCE_SECONDS = 60.0
"""A bound for a command that hangs; none takes a tenth of it."""


class ModelServer(Protocol):
    """Where a model answers: a `ScriptedServer`, or what stands before one."""

    base_url: str


class Finished(msgspec.Struct, frozen=True):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        """The errors on stderr, among what a run shows there."""
        return [line for line in self.err.splitlines() if line.startswith("callboard: ")]

    @property
    def lines(self) -> list[Any]:
        """The output, which is one JSON value a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    """Runs `callboard` with a home and a workspace of its own.

    Attributes:
        home: `CALLBOARD_HOME`.
        workspace: The folder in which it runs.
        extra: More of its environment.
    """

    def __init__(self, folder: Path) -> None:
        self.extra: dict[str, str] = {}
        self.home = folder / "home"
        self.workspace = folder / "work"
        (self.home / "config").mkdir(parents=True)
        (self.home / "config" / "callboard.toml").write_text(NOWHERE)
        self.workspace.mkdir()

    def configure(self, text: str) -> None:
        """Add text to the configuration."""
        with (self.home / "config" / "callboard.toml").open("a") as file:
            file.write(text)

    def has_editor(self, body: str, name: str = "EDITOR") -> None:
        """Make a program the editor; it finds the file's path in `path`, its text in `text`."""
        program = self.home.parent / "editor.py"
        head = "import os, pathlib, sys\npath = pathlib.Path(sys.argv[-1])\n"
        program.write_text(f"{head}text = path.read_text()\n{body}")
        self.extra[name] = f"{sys.executable} '{program}' --wait"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a fresh user."""
        others = r"API_KEY|^CALLBOARD|^VISUAL$|^EDITOR$|DISPLAY$|^SSH_"
        kept = {k: v for k, v in os.environ.items() if not re.search(others, k)}
        ours = {"CALLBOARD_HOME": str(self.home), "TERM": "xterm", "NO_COLOR": "1"}
        return {**kept, **ours, **self.extra}

    def line(self, *tokens: str) -> list[str]:
        """The command line of a process."""
        return [sys.executable, "-m", "callboard", *tokens]

    async def __call__(
        self, *tokens: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None
    ) -> Finished:
        """Runs it to its end, without a terminal."""
        whole = {**self.environ, **(environ or {})}
        with trio.fail_after(PATIENCE_SECONDS):
            if can_be_warm(whole):
                code, out, err = await run_warm(tokens, stdin, self.workspace, whole)
                return Finished(code, out.decode(), err.decode())
            process = await trio.run_process(
                self.line(*tokens),
                stdin=stdin,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=self.workspace,
                env=whole,
            )
        return Finished(process.returncode, process.stdout.decode(), process.stderr.decode())

    async def changed(self, program: str, *tokens: str) -> Finished:
        """Runs Python that changes something and then calls `main`, in a process of its own."""
        file = self.written(program)
        with trio.fail_after(PATIENCE_SECONDS):
            code, out, err = await run_warm(tokens, b"", self.workspace, self.environ, file)
        return Finished(code, out.decode(), err.decode())

    def written(self, program: str) -> str:
        """The path of a file with this program in it."""
        file = self.home.parent / "program.py"
        file.write_text(program)
        return str(file)

    async def interrupted(self, *tokens: str, at: str) -> Finished:
        """Runs it without a terminal, and sends an interrupt when `at` was shown."""
        output = b""
        read, write = os.pipe()
        async with trio.lowlevel.FdStream(read) as stream:
            try:
                with nowhere() as null:
                    process = start_warm(tokens, (null, write, 2), self.workspace, self.environ)
            finally:
                os.close(write)
            try:
                with trio.fail_after(PATIENCE_SECONDS):
                    while at.encode() not in output:
                        data = await stream.receive_some()
                        assert data, f"{at!r} was never shown, but: {output.decode()}"
                        output += data
                    process.send_signal(signal.SIGINT)
                    while data := await stream.receive_some():
                        output += data
                    code = await trio.to_thread.run_sync(process.wait)
            except BaseException:
                process.kill()
                raise
        return Finished(code, output.decode(), "")

    def open_runtime(self, steps: Iterable[Step], **options: Any) -> Any:
        """Opens a runtime with a scripted model on its home and workspace, as a program would."""
        return callboard.open_runtime(
            model=callboard.ScriptedModel(list(steps)),
            workspace=self.workspace,
            data=self.home / "data",
            environ={},
            **options,
        )

    def kill_daemon(self) -> None:
        """Ends the process that has the sessions, as `kill -9` does: that of a run or chat is not the shell's."""
        daemon = find_daemon(self.home / "data")
        assert daemon is not None
        os.kill(daemon.pid, signal.SIGKILL)

    async def outcomes(self) -> list[str]:
        """How the turns on record ended, the last session's first."""
        reader = await open_reader(self.home / "data")
        sessions = await reader.sessions()
        events = [await reader.events(row.session_id) for row in sessions]
        await reader.aclose()
        ends = [stored.event for page in events for stored in page]
        return [event.outcome for event in ends if isinstance(event, TurnEnded)]

    @asynccontextmanager
    async def at_terminal(
        self, *tokens: str, piped: bytes | None = None
    ) -> AsyncGenerator[Terminal]:
        """Runs it at a terminal of its own for as long as the block lasts; stdin may have what is `piped` instead."""
        terminal = self._open_terminal(tokens, piped)
        try:
            yield terminal
        finally:
            await terminal.aclose()

    @asynccontextmanager
    async def program_at_terminal(self, program: Path) -> AsyncGenerator[Terminal]:
        """Runs a file of Python at a terminal of its own for as long as the block lasts."""
        terminal = self._open_terminal((), None, str(program))
        try:
            yield terminal
        finally:
            await terminal.aclose()

    def _open_terminal(
        self, tokens: tuple[str, ...], piped: bytes | None, program: str = ""
    ) -> Terminal:
        master, slave = pty.openpty()
        stdin = os.dup(slave)
        if piped is not None:
            os.close(stdin)
            stdin, end = os.pipe()
            os.write(end, piped)  # less than a pipe holds
            os.close(end)
        try:
            standard = (stdin, slave, slave)
            process = start_warm(tokens, standard, self.workspace, self.environ, True, program)
        finally:
            os.close(stdin)
            os.close(slave)
        return Terminal(process, master)


def standing(written: str) -> str:
    """What a terminal shows that rows are drawn on and erased from, without colours."""
    rows, y, x = [""], 0, 0
    for part in re.split(r"(\x1b\[[?0-9;]*[a-zA-Z]|\r|\n)", written):
        if part == "\n":
            y, x = y + 1, 0
            rows += [""] * (y == len(rows))
        elif part == "\r":
            x = 0
        elif part == "\x1b[J":
            rows[y:] = [rows[y][:x]]
        elif up := re.fullmatch(r"\x1b\[(\d+)A", part):
            y -= int(up[1])
        elif not part.startswith("\x1b"):
            rows[y] = rows[y][:x] + part + rows[y][x + len(part) :]
            x += len(part)
    return "\n".join(rows)


class Terminal:
    """The screen and the keyboard of a running command.

    Attributes:
        seen: Everything that was shown so far.
    """

    def __init__(self, process: WarmProcess, master: int) -> None:
        self.process = process
        self.seen = ""
        self._expected_until = 0
        self._stream = trio.lowlevel.FdStream(master)

    @property
    def shown(self) -> str:
        """What stands there: of rows that were drawn again, the last ones."""
        return standing(self.seen)

    def state(self) -> list[Any]:
        """The terminal's modes: whether it echoes, and hands over lines."""
        return termios.tcgetattr(self._stream.fileno())[:4]

    async def type(self, text: str) -> None:
        """Presses keys; `\\x03` is Ctrl-C."""
        await self._stream.send_all(text.encode())

    async def expect(self, text: str) -> None:
        """Waits until this was shown, behind what was expected before."""
        shown = False
        with trio.move_on_after(
            PATIENCE_SECONDS
        ):  # in all: a clock on the screen says something each second
            shown = await self.comes_to(text)
        assert shown, f"{text!r} was never shown, but: {self.seen}"

    def expect_from_here(self) -> None:
        """What was shown so far counts no more."""
        self._expected_until = len(self.seen)

    async def comes_to(self, text: str) -> bool:
        """Waits until this was shown, behind what was expected before, or the command has ended; says which."""
        while (found := self.seen.find(text, self._expected_until)) < 0:
            if not await self._see():
                return False
        self._expected_until = found + len(text)
        return True

    async def end(self) -> int:
        """Waits for the end and gives the exit code."""
        with trio.move_on_after(PATIENCE_SECONDS) as patience:
            while await self._see():
                pass
        assert not patience.cancelled_caught, f"it never ended, but: {self.seen}"
        return await trio.to_thread.run_sync(self.process.wait)

    async def hang_up(self) -> None:
        """Closes the terminal, as a window is closed."""
        await self._stream.aclose()

    async def aclose(self) -> None:
        """Ends it, if it still runs."""
        self.process.kill()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self.process.wait)
            await self._stream.aclose()

    async def _see(self) -> bool:
        try:
            data = await self._stream.receive_some()
        except trio.BrokenResourceError:
            return False  # how Linux says that the last one has closed the terminal
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """A command of a fresh user, in an empty workspace."""
    return Command(tmp_path)


def at(server: ModelServer) -> tuple[str, ...]:
    """The options by which a run asks a scripted server."""
    return ("--base-url", server.base_url, "--model", "scripted")


def results(server: ScriptedServer) -> list[dict[str, Any]]:
    """What the model was told of its calls in the last request."""
    messages = server.requests[-1].body["messages"]
    return [json.loads(each["content"]) for each in messages if each["role"] == "tool"]
