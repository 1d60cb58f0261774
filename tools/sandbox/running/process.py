"""One sandbox: what it is handed, how it starts, and how all of it ends.

**Start.** bubblewrap dies with the *thread* that started it (`--die-with-parent`), and worker threads
end when they are idle: so a sandbox is started on the Trio thread. What it needs to know goes through
descriptors, never through the command line or the disk: its arguments, the files that come with a
command, copies of files of the system, and the gate that its first process waits at.

**End.** On every way out the process group is killed. Nothing leaves that group before the namespace
exists, and with the first process of the namespace the kernel kills all others. That first process is
waited for through a descriptor, which becomes readable when the last of the others is gone. What does
not go in `REAP_SECONDS` is listed as left running.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from ...processes.process_tree import descendants
from ...processes.unreaped import unreaped
from ..box.mounts import MountWatch, covers
from ..box.protected import Mount, Protection
from ..box.recipe import Box, Recipe, account_files, arguments
from ..box.start_gate import FolderIdentity, Gate, admit, open_info
from ..box.user import as_user, check_workspace
from ..network.sockets import SandboxSockets
from ..tiers.landlock import check_sockets, filter_of, plan_of

if TYPE_CHECKING:  # only nodes of a cluster have one
    from ...processes.watchdog import Watchdog

REAP_SECONDS = 5.0
"""How long killed processes may take to be gone. One that waits for a broken disk takes longer, and is
listed as left running."""
READ_BYTES = 64 * 1024
"""A pipe holds as much."""
MAX_INFO_BYTES = 4096


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, with everything that the sandbox needs to know.

    Attributes:
        argv: The program and its arguments.
        workspace: The real path of the workspace.
        cwd: Where it starts, absolute.
        environment: Variables besides those that every program gets.
        files: Contents of files below `FILES`, by name.
        is_fed: Whether it has an input; else it reads /dev/null.
        turn_id: Whose turn it is.
        name: Its name for people, when it is left running.
        sockets: The sockets that the runtime answers there, if any.
        identity: The folder that the workspace must be; `None` accepts any.
        sealed: Files of the workspace that must be read-only.
        is_read_only: Whether the whole workspace is.
        is_home: Whether it is the program's own home, in which there is nothing to protect from it.
        home: A home of its own beside the workspace, which is writable as a whole.
    """

    argv: tuple[str, ...]
    workspace: str
    cwd: str
    environment: dict[str, str]
    files: dict[str, bytes]
    is_fed: bool = False
    turn_id: str = ""
    name: str = "a program"
    sockets: SandboxSockets | None = None
    identity: FolderIdentity | None = None
    sealed: tuple[str, ...] = ()
    is_read_only: bool = False
    is_home: bool = False
    home: str | None = None


class SandboxProcess:
    """A running sandbox: its pipes, and the ways to wait for it and to end it.

    Attributes:
        stdout, stderr: Our ends, which never block.
        stdin: Our end of its input, or `None`.
        is_admitted: Whether it was bounded, and let begin.
        problem: Why it was not let begin, or `None`.
        is_out_of_memory: Whether the kernel ended something of it because its memory was full.

    Raises:
        OSError: It could not be started.
        ToolFailure: The workspace can't be protected, or this sandbox has no sockets.
    """

    def __init__(self, recipe: Recipe, order: Order, watchdog: Watchdog | None = None) -> None:
        self.stdin: int | None = None
        self.is_admitted = False
        self.problem: OSError | None = None
        self.is_out_of_memory = False
        self._order, self._recipe, self._watchdog = order, recipe, watchdog
        self._said = b""
        self._first: int | None = None
        self._first_pidfd: int | None = None
        self._is_ended = False
        self._killed = 0
        self._mounts: MountWatch | None = None
        with ExitStack() as undo, ExitStack() as theirs:
            check_workspace(recipe.user, order.workspace)
            check_sockets(recipe, has_sockets=order.sockets is not None)
            is_mounted = recipe.confiner is None
            self._covers = covers(order.workspace, is_mounted=is_mounted)
            self._protected: list[Mount] = []
            if not (order.is_read_only or order.is_home):  # then all of it is protected, or nothing
                protection = Protection(order.workspace, order.sealed, is_mounted=is_mounted)
                undo.callback(protection.close)
                self._protected = protection.mounts
            self._group = None if recipe.groups is None else recipe.groups.open(recipe.settings)
            if self._group is not None:
                undo.callback(self._group.close)
            passed: list[int] = []
            if order.sockets is not None:
                argv, own = order.sockets.enter(order.argv, order.environment)
                theirs.callback(order.sockets.entered)
                passed.append(order.sockets.descriptor)
                files = {**order.files, **own}
                order = msgspec.structs.replace(order, argv=argv, environment={}, files=files)
            self._gate = Gate(filter_of(recipe))
            undo.callback(self._gate.close)
            theirs.callback(self._gate.started)
            mounts = self._protected, self._covers
            said, given = hand_over(theirs, recipe, order, mounts, self._gate.theirs)
            self.stdout, out = _ends(undo, theirs, os.pipe())
            self.stderr, error = _ends(undo, theirs, os.pipe())
            self._info, info = _ends(undo, theirs, open_info())
            read_end: int = subprocess.DEVNULL
            if order.is_fed:
                read_end, self.stdin = os.pipe()
                theirs.callback(os.close, read_end)
                os.set_blocking(self.stdin, False)
                undo.callback(self.close_stdin)
            self._process = subprocess.Popen(
                recipe.command(said, info, order.argv),
                env={},
                stdin=read_end,
                stdout=out,
                stderr=error,
                pass_fds=(*given, *passed, info),
                cwd="/",
                start_new_session=True,  # no terminal, and a group to kill
                **as_user(recipe.user),
            )
            try:
                self._pidfd = os.pidfd_open(self._process.pid)
            except BaseException:
                self._process.kill()
                self._process.wait()
                raise
            undo.callback(_close, self._pidfd)
            self._held = undo.pop_all()

    @property
    def returncode(self) -> int | None:
        """How it ended, as shells count: 128 and the signal's number for one that was killed."""
        code = self._process.returncode
        return 128 - code if code is not None and code < 0 else code

    async def wait(self) -> None:
        """Wait until the program has ended; what it left behind may still run."""
        await trio.lowlevel.wait_readable(self._pidfd)

    async def follow_info(self) -> None:
        """Read which process is the namespace's first, bound it, and let it begin."""
        while self._first is None:
            await trio.lowlevel.wait_readable(self._info)
            if not self._read_info():
                break
        if self._first is None:
            return
        hidden = [*self._recipe.forbidden, *(path for _, path in self._covers)]
        # A folder of PATH may lie in the workspace: it is mounted there, and then lies below that.
        bound_first = (path for _, path in self._recipe.bound)
        protected = (path for _, path in self._protected)
        homes = () if self._order.home is None else (self._order.home,)
        bound = partial(
            admit,
            recipe=self._recipe,
            group=self._group,
            workspace=self._order.workspace,
            identity=self._order.identity,
            own=[*hidden, *bound_first, *protected, *homes],
            hidden=hidden,
        )
        try:
            # It may start a program, and the kernel takes its time to move a process.
            limiter = trio.CapacityLimiter(1)
            watch = await trio.to_thread.run_sync(bound, self._first, limiter=limiter)
        except OSError as error:
            self.problem = error
            self.kill()
        else:
            if watch is not None:
                self._mounts = watch
                self._held.callback(watch.close)
            self._let_begin()

    def _let_begin(self) -> None:
        """Open the gate; where nodes have leases, once somebody else ends it at the end of this node's."""
        if self._watchdog is not None:
            has_namespace = self._recipe.confiner is None
            pidfd = self._first_pidfd if has_namespace else self._pidfd
            if pidfd is None:
                return  # it has ended by itself
            try:
                number = signal.SIGKILL if has_namespace else signal.SIGTERM
                self._held.callback(self._watchdog.hold(pidfd, number))
            except OSError as error:
                self.problem = error
                self.kill()
                return
        self.is_admitted = True
        self._gate.open()

    def check_memory(self) -> bool:
        """Return whether the kernel ended something of it because its memory was full."""
        if self._group is not None and not self.is_out_of_memory:
            self.is_out_of_memory = self._group.is_out_of_memory()
        return self.is_out_of_memory

    def foreign_mount(self) -> str | None:
        """Return what the machine has mounted in its workspace since the last look, if anything."""
        return None if self._mounts is None else self._mounts.news()

    @property
    def root(self) -> str | None:
        """Where its file system is seen from outside; `None` before it is there."""
        return None if self._first is None else f"/proc/{self._first}/root"

    def processes(self) -> list[int]:
        """Return the processes of the program, as numbered outside."""
        if self._first is None:
            return []
        # The confiner is the parent of what the program has left behind, too.
        return descendants(self._first if self._recipe.confiner is None else self._process.pid)

    def kill(self) -> None:
        """End everything in it at once, without waiting."""
        if self._process.returncode is None:  # Not reaped, so that the number is still its own.
            look = select.poll()
            look.register(self._pidfd, select.POLLIN)
            # One that has ended by itself is not counted, nor what goes with it.
            self._killed = max(self._killed, 0 if look.poll(0) else len(self.processes()))
            self._recipe.end(self._process.pid)

    async def end(self, drain: Callable[[int, bytes], None]) -> int:
        """Kill what is left, wait until it is gone, and give up all that it held.

        Call it in a shield; it is bounded. Returns how many processes were killed. `drain` gets what
        still lay in the pipes.
        """
        if self._is_ended:
            return 0
        self._is_ended = True
        self.kill()
        try:
            await self._wait_gone(drain)
        finally:
            self.check_memory()  # before its group goes
            self._held.close()
        return self._killed

    async def _wait_gone(self, drain: Callable[[int, bytes], None]) -> None:
        with trio.move_on_after(REAP_SECONDS):
            await trio.lowlevel.wait_readable(self._pidfd)
            self._read_info()
            if self._first_pidfd is not None:
                await trio.lowlevel.wait_readable(self._first_pidfd)
            self._process.poll()
            # The end of the pipes says the same of one that was killed before it had a namespace.
            for fd in (self.stdout, self.stderr):
                await read_pipe(fd, drain)
            return
        unreaped().watch(self._order.turn_id, self._process, os.dup(self._pidfd), self._order.name)

    def _read_info(self) -> bool:
        """Take what bubblewrap says of the namespace; return whether more may come."""
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
                self._held.callback(_close, self._first_pidfd)
        return False

    def close_stdin(self) -> None:
        """Close its input. Idempotent."""
        if self.stdin is not None:
            _close(self.stdin)
            self.stdin = None


def hand_over(
    stack: ExitStack,
    recipe: Recipe,
    order: Order,
    mounts: tuple[Sequence[Mount], Sequence[Mount]],
    gate: int,
) -> tuple[int, tuple[int, ...]]:
    """Make the descriptors that a sandbox is given; the stack closes all but the gate.

    `mounts` are what protects parts of the workspace, and what covers others. Returns the one of its arguments, and all of them.
    """
    data = {name: _held(stack, content) for name, content in order.files.items()}
    copies: dict[str, int] = {}
    for path in recipe.copied:
        with suppress(OSError):  # it is not there any more
            copies[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, copies[path])
    for path, content in account_files(recipe.user).items():
        copies[path] = _held(stack, content)
    masks: dict[str, int] = {}
    if recipe.confiner is None:
        # Each is read to its end and closed, so each needs its own.
        masks = {path: _held(stack, b"") for path in recipe.view.masked}
    box = Box(
        workspace=order.workspace,
        cwd=order.cwd,
        environment=order.environment,
        mounts=mounts[0],
        covers=mounts[1],
        data=data,
        copies=copies,
        masks=masks,
        gate=gate,
        has_sockets=order.sockets is not None and order.sockets.has_names,
        is_read_only=order.is_read_only,
        is_home=order.is_home,
        home=order.home,
    )
    said = _held(stack, (arguments if recipe.confiner is None else plan_of)(recipe, box))
    return said, (said, gate, *copies.values(), *masks.values(), *data.values())


def _held(stack: ExitStack, content: bytes) -> int:
    fd = os.memfd_create("callboard", os.MFD_CLOEXEC)
    stack.callback(os.close, fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _ends(undo: ExitStack, theirs: ExitStack, pipe: tuple[int, int]) -> tuple[int, int]:
    """Have each end of a pipe closed with its stack; ours, which is read, does not block."""
    undo.callback(_close, pipe[0])
    theirs.callback(os.close, pipe[1])
    os.set_blocking(pipe[0], False)
    return pipe


def _close(fd: int) -> None:
    trio.lowlevel.notify_closing(fd)
    os.close(fd)


async def read_pipe(fd: int, take: Callable[[int, bytes], None]) -> None:
    """Read a pipe to its end."""
    while True:
        await trio.lowlevel.wait_readable(fd)
        with suppress(BlockingIOError):
            if not (chunk := os.read(fd, READ_BYTES)):
                return
            take(fd, chunk)
