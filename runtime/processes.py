"""The handle through which tools run programs, with its commands and results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

Answerer = Callable[[bytes], Awaitable[bytes]]
"""Gets all that a program sent on one connection, and returns the response."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program for a tool to run.

    Attributes:
        argv: The program and its arguments.
        cwd: The working directory, in the workspace.
        env: Variables that are added to, and replace, those that every program gets.
        files: Contents of read-only files below `/run/callboard` in the sandbox, by name.
        seconds: The time limit; the deadline of its call holds too.
        title: The name in lists: the command as a person would write it.
        network: Whether it may reach hosts, all through the runtime's guarded proxy.
        answers: Unix sockets below `/run/callboard` in the sandbox, by name, with who answers there:
            the way to give a program a secret that no file and no variable holds.
        lists_changes: Whether to find out what it changed in the workspace.
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
        created, modified, deleted: Sorted paths, a bounded number of each.
        more: How many further paths there are.
        why_not: Why the changes are not known; then all else is empty.
        not_undoable: Which of them can't be undone, with the reason.
        repositories: Folders of new repositories, whose settings are not protected.
        sizes: The bytes of each file of `created` and `modified`.
    """

    created: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    why_not: str = ""
    not_undoable: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    sizes: dict[str, int] = {}


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a program that has ended, with all processes that it started.

    Attributes:
        exit_code: As in a shell.
        is_truncated: Whether `stdout` or `stderr` was cut.
        killed_by: Why it was killed: `timeout`, `memory`, `cpu`, `processes`, `files`, `output`,
            `file_size`, `cancel`, `mount`, `lease`, `sandbox` (no limits could be set, and nothing was run); `None`
            if it ended by itself.
        killed: How many processes were killed: it and those that it started.
        sandbox: The strength of the sandbox.
        hosts: The hosts that it connected to, in order.
        refused_hosts: Refused connections, by host and port, with the reason.
        changed: What changed in the workspace, if the command has `lists_changes`.
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
    """A program that runs, or ran, in the background of its session.

    Attributes:
        command: As a person would write it.
        runs: Whether it still runs.
        ran: Its result; `None` while it runs.
        seconds: The time since its start.
    """

    process_id: str
    command: str
    runs: bool
    ran: Ran | None
    seconds: float


class ProcessOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a background process since it was last read.

    Attributes:
        text: Stdout and stderr in the order of arrival.
        left_out_bytes: How much came before that and was dropped.
    """

    text: str
    left_out_bytes: int = 0


class CommandBinding(msgspec.Struct, frozen=True):
    """What the effect of a command depends on, besides its words.

    Attributes:
        digest: A digest of the sandbox's strength, the variables that programs get, and the programs
            of the workspace that the command names. Empty when what would run can't be told, in a binding
            that is to be remembered.
        shown: Those programs, for the person who approves; may be empty.
    """

    digest: str
    shown: str = ""


class Written(msgspec.Struct, frozen=True):
    """What may have been written in a workspace since a given time, as relative paths.

    Attributes:
        files: Files, links, and the folders of repositories.
        folders: Folders that were moved, or whose entries changed.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...] = ()


class Processes(Protocol):
    """Runs programs in a sandbox, in one workspace.

    All methods raise `ToolFailure`: `sandbox_unavailable` if no sandbox has the required strength,
    `validation_error` for a command that can't be run, `permission_denied` for network access that the
    call may not have.
    """

    @property
    def offers_network(self) -> bool:
        """Whether the operator lets programs that models write reach hosts."""
        ...

    def bind(
        self, commands: Sequence[str | Sequence[str]], cwd: str, *, is_remembered: bool = False
    ) -> CommandBinding:
        """Return what commands (lines for a shell, or lists of words) depend on.

        From then on this handle starts nothing if the programs that they name have changed. An answer that
        is remembered depends on all files that they name: nobody looks at the next call.
        """
        ...

    async def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Ran:
        """Run a program to its end. If cancelled, return when all its processes are gone."""
        ...

    async def start(
        self, command: Command, on_end: Callable[[], Awaitable[None]] | None = None
    ) -> BackgroundProcess:
        """Start a background program, which ends with its session at the latest.

        `on_end` is awaited when it has ended, before anybody hears of that; also when the runtime ends.
        """
        ...

    def list(self) -> tuple[BackgroundProcess, ...]:
        """Return the session's background processes, including those that have ended."""
        ...

    async def output(self, process_id: str) -> ProcessOutput:
        """Return the output since the last call."""
        ...

    async def write(self, process_id: str, text: str) -> None:
        """Write to a process's input."""
        ...

    async def close_input(self, process_id: str) -> None:
        """Close a process's input, so that it reads the end of it. Idempotent."""
        ...

    async def kill(self, process_id: str) -> BackgroundProcess:
        """Kill a process; return when all its processes are gone."""
        ...

    async def wait(self, process_id: str) -> BackgroundProcess:
        """Wait until a process has ended."""
        ...

    async def written(self, since_ns: int) -> Written | None:
        """Return what may have been written since a time, or `None` if that is unknown."""
        ...

    def background_since(self, now_ns: int) -> int | None:
        """Return since when background processes may have written unnoticed; `None` if they can't have.

        The caller looks at what they wrote, so the next call counts from now.
        """
        ...
