"""The handle through which tools run programs: what is asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

Answerer = Callable[[bytes], Awaitable[bytes]]
"""Gets what a program sent on one connection, up to its end, and gives what it is sent back."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program as a tool wants it run.

    Attributes:
        argv: The program and its arguments.
        cwd: Where, below the workspace.
        env: Variables beside those that every program gets; they win.
        files: Contents of files that lie below `/run/callboard` inside, by name; nobody can
            change them there.
        seconds: How long it may run; its call's own deadline holds besides.
        title: How it is called in a list: the command as a person would write it.
        network: Whether it may reach hosts, all through the runtime's guarded proxy.
        answers: Unix sockets that lie below `/run/callboard` inside, by name, and who answers there:
            the way to give a program a secret that no file and no variable holds.
    """

    argv: tuple[str, ...]
    cwd: str = "."
    env: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}
    seconds: float
    title: str = ""
    network: bool = False
    answers: Mapping[str, Answerer] = {}


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A program that has ended, with all that it had started.

    Attributes:
        stdout, stderr: As much as is kept of each.
        exit_code: As shells count.
        duration_seconds: How long it ran.
        is_truncated: Whether `stdout` or `stderr` is not all of it.
        killed_by: Why it was ended: `timeout`, `memory`, `cpu`, `processes`, `output`, `file_size`,
            `cancel`; `None` when it ended by itself.
        killed: How many processes were killed, it and those that it had started.
        sandbox: How strong the sandbox was.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    duration_seconds: float
    is_truncated: bool = False
    killed_by: str | None = None
    killed: int = 0
    sandbox: str = "full"


class BackgroundProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs, or ran, beside the calls of its session.

    Attributes:
        process_id: Its name in this session.
        command: As a person would write it.
        runs: Whether it still does.
        ran: How it ended; `None` while it runs.
        seconds: Since its start.
    """

    process_id: str
    command: str
    runs: bool
    ran: Ran | None
    seconds: float


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a background process has put out since it was last asked.

    Attributes:
        text: Stdout and stderr in the order in which they came.
        left_out_bytes: How much came before that and was not kept.
    """

    text: str
    left_out_bytes: int = 0


class Processes(Protocol):
    """The way to run programs: in a sandbox, on one workspace.

    All raise `ToolFailure`: `sandbox_unavailable` when none of the required strength is there,
    `validation_error` for what can't be run.
    """

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """Runs a program to its end; cancelled, it returns when nothing of it is left."""
        ...

    async def start(self, command: Command) -> BackgroundProcess:
        """Starts a program that the session owns: it ends with the session at the latest."""
        ...

    def list(self) -> tuple[BackgroundProcess, ...]:
        """The session's background processes, also those that have ended."""
        ...

    def output(self, process_id: str) -> Output:
        """What it has put out since the last time."""
        ...

    async def write(self, process_id: str, text: str) -> None:
        """Writes to its input."""
        ...

    async def kill(self, process_id: str) -> BackgroundProcess:
        """Ends it; returns when nothing of it is left."""
        ...

    async def wait(self, process_id: str) -> BackgroundProcess:
        """Waits until it has ended."""
        ...
