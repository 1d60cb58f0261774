"""Starts one sandbox and ends it, so that nothing of it is left.

It is started on the Trio thread: bubblewrap dies with the *thread* that started it
(`--die-with-parent`), and worker threads end when they are idle. Its group is killed on every way
out; nothing gets out of that group before the namespace exists, and with the first process of the
namespace the kernel kills all others. That one is waited for through a descriptor: the kernel tells
of its end when the last of the others is gone.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial

import msgspec
import trio

from ...processes.left_running import left_running
from ...processes.process_tree import descendants
from ..box.control_group import ControlGroup
from ..box.protected import Protection
from ..box.recipe import Recipe
from ..box.start_gate import Gate, admit, open_info
from ..box.user import as_user, check_workspace
from ..box.workspace_pin import Identity
from ..network.sockets import Doors, enter
from ..tiers.landlock import check_doors, filter_of
from .descriptors import hand_over

REAP_SECONDS = 5.0
"""How long what was killed may take to be gone; a process that waits for a broken disk takes
longer, and is listed as left running."""
READ_BYTES = 64 * 1024
"""A pipe holds as much."""
MAX_INFO_BYTES = 4096


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run, with everything that the sandbox needs to know.

    Attributes:
        argv: The program and its arguments.
        workspace: The real path of the workspace.
        cwd: Where it starts, absolute.
        environment: What it gets besides what every program gets.
        files: Contents of files below `FILES`, by name.
        is_fed: Whether it has an input; else it reads /dev/null.
        turn_id: Whose turn it is.
        name: What it is called when it is left running.
        doors: The sockets that the runtime answers there, if there are any.
        identity: The folder that the workspace must be; `None` for whatever is there.
    """

    argv: tuple[str, ...]
    workspace: str
    cwd: str
    environment: dict[str, str]
    files: dict[str, bytes]
    is_fed: bool = False
    turn_id: str = ""
    name: str = "a program"
    doors: Doors | None = None
    identity: Identity | None = None


class Started:
    """A running sandbox: its pipes, and the ways to wait for it and to end it.

    Attributes:
        stdout, stderr: Our ends, which never block.
        stdin: Our end of its input, or `None`.
        problem: Why it was never let begin, or `None`.
    """

    def __init__(
        self,
        order: Order,
        process: subprocess.Popen[bytes],
        pidfd: int,
        ends: Sequence[int | None],
        protection: Protection,
        gate: Gate,
        group: ControlGroup | None,
        recipe: Recipe,
    ) -> None:
        stdout, stderr, info, stdin = ends
        assert stdout is not None
        assert stderr is not None
        assert info is not None
        self.stdout, self.stderr, self.stdin = stdout, stderr, stdin
        self._order = order
        self._process = process
        self._pidfd = pidfd
        self._info = info
        self._said = b""
        self._first: int | None = None
        self._first_pidfd: int | None = None
        self._protection = protection
        self._gate = gate
        self._group = group
        self._recipe = recipe
        self._bound = partial(admit, recipe=recipe, group=group, order=order)
        self.problem: OSError | None = None
        self.is_out_of_memory = False
        self._is_ended = False
        self._killed = 0

    @property
    def returncode(self) -> int | None:
        """How it ended, as shells count: 128 and the signal's number for one that was killed."""
        code = self._process.returncode
        return 128 - code if code is not None and code < 0 else code

    async def wait(self) -> None:
        """Waits until the program has ended; what it left behind may still run."""
        await trio.lowlevel.wait_readable(self._pidfd)

    async def follow_info(self) -> None:
        """Reads which process is the namespace's first, bounds it, and lets it begin."""
        while self._first is None:
            await trio.lowlevel.wait_readable(self._info)
            if not self._read_info():
                break
        if self._first is None:
            return
        try:
            # It may start a program, and the kernel takes its time to move a process.
            await trio.to_thread.run_sync(self._bound, self._first, limiter=trio.CapacityLimiter(1))
        except OSError as error:
            self.problem = error
            self.kill()
        else:
            self._gate.open()

    def check_memory(self) -> bool:
        """Whether the kernel ended something of it because its memory was full."""
        if self._group is not None and not self.is_out_of_memory:
            self.is_out_of_memory = self._group.is_out_of_memory()
        return self.is_out_of_memory

    @property
    def root(self) -> str | None:
        """Where its file system is seen from outside; `None` while it is not there."""
        return None if self._first is None else f"/proc/{self._first}/root"

    def processes(self) -> list[int]:
        """The processes of the program, as numbered outside."""
        if self._first is None:
            return []
        # The confiner is the parent of what the program has left behind, too.
        return descendants(self._first if self._recipe.confiner is None else self._process.pid)

    def kill(self) -> None:
        """Ends everything in it at once; does not wait."""
        if self._process.returncode is None:  # Not reaped, so that the number is still its own.
            # What has ended already had its own last word, and is about to be gone with the rest.
            self._killed = max(self._killed, len(self.processes()) if self._runs() else 0)
            self._recipe.end(self._process.pid)

    async def end(self, drain: Callable[[int, bytes], None]) -> int:
        """Kills what is left, waits until it is gone, and gives up all that it held.

        Call it in a shield; it is bounded. Says how many processes were killed. `drain` gets what
        still lay in the pipes.
        """
        if self._is_ended:
            return 0
        self._is_ended = True
        self.kill()
        try:
            await self._wait_gone(drain)
        finally:
            self._close()
        return self._killed

    def _runs(self) -> bool:
        look = select.poll()
        look.register(self._pidfd, select.POLLIN)
        return not look.poll(0)

    async def _wait_gone(self, drain: Callable[[int, bytes], None]) -> None:
        with trio.move_on_after(REAP_SECONDS):
            await trio.lowlevel.wait_readable(self._pidfd)
            self._read_info()
            if self._first_pidfd is not None:
                await trio.lowlevel.wait_readable(self._first_pidfd)
            self._process.poll()
            # The end of the pipes says the same of one that was killed before it had a namespace.
            for fd in (self.stdout, self.stderr):
                await _drain(fd, drain)
            return
        key = left_running().add(
            self._order.turn_id, f"process {self._process.pid} of {self._order.name}"
        )
        trio.lowlevel.spawn_system_task(_reap_later, self._process, os.dup(self._pidfd), key)

    def _read_info(self) -> bool:
        """Takes what bubblewrap says of the namespace; whether more may come."""
        try:
            while chunk := os.read(self._info, MAX_INFO_BYTES):
                self._said = (self._said + chunk)[:MAX_INFO_BYTES]
                if b"}" in chunk:
                    break
        except BlockingIOError:
            return True
        if self._first is None and b"}" in self._said:
            self._first = int(json.loads(self._said)["child-pid"])
            with suppress(ProcessLookupError):  # Then it has been there, and is gone.
                self._first_pidfd = os.pidfd_open(self._first)
        return False

    def _close(self) -> None:
        self._protection.close()
        self._gate.close()
        if self._group is not None:
            self.check_memory()
            self._group.close()
        self.close_stdin()
        for fd in (self.stdout, self.stderr, self._info, self._pidfd, self._first_pidfd):
            if fd is not None:
                trio.lowlevel.notify_closing(fd)
                os.close(fd)

    def close_stdin(self) -> None:
        """Ends its input. Idempotent."""
        if self.stdin is not None:
            trio.lowlevel.notify_closing(self.stdin)
            os.close(self.stdin)
            self.stdin = None


def start(recipe: Recipe, order: Order) -> Started:
    """Starts a sandbox, in this thread, which must outlive it.

    Raises:
        OSError: It could not be started.
        ToolFailure: The workspace can't be protected.
    """
    with ExitStack() as undo, ExitStack() as theirs:
        check_workspace(recipe.user, order.workspace)
        check_doors(recipe, has_doors=order.doors is not None)
        protection = Protection(order.workspace, is_mounted=recipe.confiner is None)
        undo.callback(protection.close)
        group = _group(undo, recipe)
        entry = theirs.enter_context(enter(order))
        gate = Gate(filter_of(recipe))
        undo.callback(gate.close)
        given = theirs.enter_context(
            hand_over(
                recipe,
                workspace=order.workspace,
                cwd=order.cwd,
                environment=entry.environment,
                files=entry.files,
                mounts=protection.mounts,
                gate=gate.theirs,
                has_sockets=entry.has_sockets,
            )
        )
        (out, out_end), (err, err_end) = (_pipe(undo, theirs) for _ in range(2))
        info, info_end = _closed_later(undo, theirs, open_info(recipe))
        stdin_end, stdin = _pipe(theirs, undo) if order.is_fed else (subprocess.DEVNULL, None)
        process = _spawn(
            recipe,
            recipe.command(given.arguments, info_end, entry.argv),
            (stdin_end, out_end, err_end),
            (*given.all, *entry.descriptors, info_end),
        )
        gate.started()
        undo.callback(process.wait)
        undo.callback(process.kill)
        pidfd = os.pidfd_open(process.pid)
        ends = (out, err, info, stdin)
        for end in (fd for fd in ends if fd is not None):
            os.set_blocking(end, False)
        undo.pop_all()
        return Started(order, process, pidfd, ends, protection, gate, group, recipe)


def _group(undo: ExitStack, recipe: Recipe) -> ControlGroup | None:
    if recipe.groups is None:
        return None
    group = recipe.groups.open(recipe.settings)
    undo.callback(group.close)
    return group


def _spawn(
    recipe: Recipe, argv: list[str], streams: tuple[int, int, int], passed: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        env={},
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        pass_fds=passed,
        cwd="/",
        start_new_session=True,  # no terminal, and a group to kill
        **as_user(recipe.user),
    )


def _pipe(read_side: ExitStack, write_side: ExitStack) -> tuple[int, int]:
    return _closed_later(read_side, write_side, os.pipe())


def _closed_later(first: ExitStack, second: ExitStack, ends: tuple[int, int]) -> tuple[int, int]:
    first.callback(os.close, ends[0])
    second.callback(os.close, ends[1])
    return ends


async def _drain(fd: int, take: Callable[[int, bytes], None]) -> None:
    """Reads a pipe to its end."""
    while True:
        await trio.lowlevel.wait_readable(fd)
        with suppress(BlockingIOError):
            if not (chunk := os.read(fd, READ_BYTES)):
                return
            take(fd, chunk)


async def _reap_later(process: subprocess.Popen[bytes], pidfd: int, key: object) -> None:
    try:
        await trio.lowlevel.wait_readable(pidfd)
    finally:
        process.poll()
        os.close(pidfd)
        left_running().remove(key)
