"""The handle through which tools run programs: what is asked for, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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
        lists_changes: Whether it is to be found out what it changed in the workspace.
    """

    argv: tuple[str, ...]
    cwd: str = "."
    env: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}
    seconds: float
    title: str = ""
    network: bool = False
    answers: Mapping[str, Answerer] = {}
    lists_changes: bool = False


class ChangedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a program changed in its workspace; a folder ends in `/`.

    Attributes:
        created, modified, deleted: Paths, sorted, a bounded number of each.
        more: How many further ones there are.
        why_not: Why that is not known; then nothing else is told.
        not_undoable: What of it can't be taken back, with why.
        repositories: Folders in which a repository was made, whose settings are not protected.
    """

    created: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    why_not: str = ""
    not_undoable: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A program that has ended, with all that it had started.

    Attributes:
        stdout, stderr: As much as is kept of each.
        exit_code: As shells count.
        duration_seconds: How long it ran.
        is_truncated: Whether `stdout` or `stderr` is not all of it.
        killed_by: Why it was ended: `timeout`, `memory`, `cpu`, `processes`, `files`, `output`,
            `file_size`, `cancel`, `sandbox` (it could not be bounded, and nothing was run); `None`
            when it ended by itself.
        killed: How many processes were killed, it and those that it had started.
        sandbox: How strong the sandbox was.
        hosts: Where it connected, in order.
        refused_hosts: Where it was not let connect, by host and port, with the reason.
        changed: What is other in the workspace, when the command wanted to know.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    duration_seconds: float
    is_truncated: bool = False
    killed_by: str | None = None
    killed: int = 0
    sandbox: str = "full"
    hosts: tuple[str, ...] = ()
    refused_hosts: Mapping[str, str] = {}
    changed: ChangedFiles = ChangedFiles()


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


class ProcessOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a background process has put out since it was last asked.

    Attributes:
        text: Stdout and stderr in the order in which they came.
        left_out_bytes: How much came before that and was not kept.
    """

    text: str
    left_out_bytes: int = 0


class CommandBinding(msgspec.Struct, frozen=True):
    """What a command does depends on, besides its words.

    Attributes:
        digest: Of the sandbox's strength, the variables that programs get, and the programs of the
            workspace that the command names.
        shown: Those programs, for a person who is asked; empty when there are none.
    """

    digest: str
    shown: str = ""


class Written(msgspec.Struct, frozen=True):
    """What of a workspace may have been written since a moment; paths relative to it.

    Attributes:
        files: Files, links, and repositories' own folders.
        folders: Folders in which entries have come or gone, or that were moved themselves.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...] = ()


class Processes(Protocol):
    """The way to run programs: in a sandbox, on one workspace.

    All raise `ToolFailure`: `sandbox_unavailable` when none of the required strength is there,
    `validation_error` for what can't be run, `permission_denied` when it wants to reach hosts and its
    call may not.

    Attributes:
        offers_network: Whether the operator lets programs that models write reach hosts.
    """

    @property
    def offers_network(self) -> bool:
        """See above."""
        ...

    def bind(self, commands: Sequence[str | Sequence[str]], cwd: str) -> CommandBinding:
        """What these commands depend on: lines for a shell, and lists of words.

        From then on this handle starts nothing when the programs that they name are others.
        """
        ...

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """Runs a program to its end; cancelled, it returns when nothing of it is left."""
        ...

    async def start(self, command: Command) -> BackgroundProcess:
        """Starts a program that the session owns: it ends with the session at the latest."""
        ...

    def list(self) -> tuple[BackgroundProcess, ...]:
        """The session's background processes, also those that have ended."""
        ...

    async def output(self, process_id: str) -> ProcessOutput:
        """What it has put out since the last time."""
        ...

    async def write(self, process_id: str, text: str) -> None:
        """Writes to its input."""
        ...

    async def close_input(self, process_id: str) -> None:
        """Ends its input: what reads to the end goes on. Idempotent."""
        ...

    async def kill(self, process_id: str) -> BackgroundProcess:
        """Ends it; returns when nothing of it is left."""
        ...

    async def wait(self, process_id: str) -> BackgroundProcess:
        """Waits until it has ended."""
        ...

    async def written(self, since_ns: int) -> Written | None:
        """What of the workspace may have been written since; `None` when that can't be said."""
        ...

    def background_since(self, now_ns: int) -> int | None:
        """Since when background processes may have written what nobody has looked at.

        `None` when none can have. Whoever asks looks, so the next time begins now.
        """
        ...
