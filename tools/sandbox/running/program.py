"""One program in a sandbox, from its start to the last of its processes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress

import trio

from ....config.sections import SandboxSettings
from ....runtime.definitions import ErrorType, ToolFailure
from ....runtime.processes import Ran
from ...processes.process_tree import use_of
from ..box.recipe import Recipe
from ..exclusive_runs import Neighbours
from .capture import Capture
from .process import READ_BYTES, REAP_SECONDS, Order, Started, start

LOOK_SECONDS = 0.1
"""In which a program may fill some 200 MB, or start some thousand processes; looking at a handful
of processes takes a thousandth of it."""

IN_MEMORY = ("/tmp", "/dev/shm")
"""Where a program can make files that take memory."""


async def watch(
    started: Started, settings: SandboxSettings, on_excess: Callable[[str], None]
) -> None:
    """Looks until it is cancelled, or until it has told once what is exceeded."""
    while True:
        await trio.sleep(LOOK_SECONDS)
        exceeded = "memory" if started.check_memory() else _too_many_files(started, settings)
        if (exceeded := exceeded or excess(started.processes(), settings)) is not None:
            on_excess(exceeded)
            return


def _too_many_files(started: Started, settings: SandboxSettings) -> str | None:
    """Whether what is in memory holds too many files, which no limit of the kernel counts."""
    if started.root is None:
        return None
    count = 0
    for folder in IN_MEMORY:
        with suppress(OSError):  # it is just ending
            if os.stat(started.root + folder).st_dev == os.stat(folder).st_dev:
                continue  # its own is still being built
            found = os.statvfs(started.root + folder)
            count += found.f_files - found.f_ffree
    return "files" if count > settings.temporary_files else None


def excess(pids: list[int], settings: SandboxSettings) -> str | None:
    """What these processes use too much of, in the words of `killed_by`."""
    if len(pids) > settings.processes:
        return "processes"
    use = use_of(pids)
    if use.cpu_seconds > settings.cpu_seconds:
        return "cpu"
    if use.memory_bytes <= settings.memory_bytes:
        return None
    # Memory that forks share was counted for each of them.
    return "memory" if use_of(pids, exact=True).memory_bytes > settings.memory_bytes else None


FLOOD_FACTOR = 64
"""A program that puts out this many times what is kept is ended: nobody reads it, and it costs."""

NOT_FOUND = 127
"""What shells say when there is no such program; bubblewrap says 1, and why."""
_IS_MISSING = re.compile(r"bwrap: execvp [^\n]*: No such file or directory\n?")

_TOLD_BY_CODE = {128 + signal.SIGXCPU: "cpu", 128 + signal.SIGXFSZ: "file_size"}


class Program:
    """A program that was started; use `run_program`, or `serve` and then `end`.

    Args:
        recipe: How sandboxes are built.
        order: What is run.
        on_chunk: Is told what it puts out, besides; for what keeps it in another way.
        neighbours: Where it is noted while it runs.
    """

    def __init__(
        self,
        recipe: Recipe,
        order: Order,
        on_line: Callable[[str], None] | None = None,
        on_chunk: Callable[[bytes], None] | None = None,
        *,
        sandbox: str = "full",
        neighbours: Neighbours | None = None,
    ) -> None:
        settings = recipe.settings
        self.killed_by: str | None = None
        self._settings: SandboxSettings = settings
        self._sandbox = sandbox
        self._on_chunk = on_chunk
        self._out = Capture(settings.output_bytes, on_line)
        self._err = Capture(settings.output_bytes, on_line)
        self._killed = 0
        self._seconds: float | None = None
        self._doors = order.doors
        try:
            self._started: Started = start(recipe, order)
        except OSError as error:
            self._close_doors()
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"The sandbox could not be started ({error}); nothing was run.",
            ) from error
        self._leave: Callable[[], None] | None = None
        if neighbours is not None:
            self._leave = neighbours.enter(order.workspace, order.name)
        self._began = trio.current_time()

    @property
    def killed(self) -> int:
        """How many processes were killed, once it has ended."""
        return self._killed

    @property
    def seconds(self) -> float:
        """How long it runs, or ran."""
        return trio.current_time() - self._began if self._seconds is None else self._seconds

    async def serve(self) -> None:
        """Reads and watches until the program has ended."""
        started = self._started
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, started.stdout)
            nursery.start_soon(self._read, started.stderr)
            nursery.start_soon(started.follow_info)
            nursery.start_soon(watch, started, self._settings, self.kill)
            if self._doors is not None:
                nursery.start_soon(self._doors.serve)
            await started.wait()
            nursery.cancel_scope.cancel(reason="the program has ended")

    def kill(self, why: str) -> None:
        """Ends it; the first reason is the one that is told."""
        self.killed_by = self.killed_by or why
        self._started.kill()

    async def end(self) -> None:
        """Leaves nothing of it behind; call it in a shield, it is bounded."""
        self._seconds = self.seconds
        self._close_doors()
        try:
            self._killed = await self._started.end(self._take)
        finally:
            if self._leave is not None:
                self._leave()
        if (problem := self._started.problem) is not None:
            self._err.add(
                f"The sandbox could not be bounded ({problem}); nothing was run.\n".encode()
            )
        self._out.end()
        self._err.end()

    def _close_doors(self) -> None:
        if self._doors is not None:
            self._doors.close()

    async def write(self, text: bytes) -> None:
        """Writes to its input; raises `BrokenPipeError` when it does not read any more."""
        rest = memoryview(text)
        while rest:
            if self._started.stdin is None:
                raise BrokenPipeError
            await trio.lowlevel.wait_writable(self._started.stdin)
            with suppress(BlockingIOError):
                rest = rest[os.write(self._started.stdin, rest) :]

    def close_input(self) -> None:
        """Ends its input. Idempotent."""
        self._started.close_stdin()

    def result(self) -> Ran:
        """How it ended; call it after `end`."""
        code = self._started.returncode
        egress = None if self._doors is None else self._doors.egress
        stderr = self._err.text()
        return Ran(
            stdout=self._out.text(),
            stderr=stderr,
            exit_code=NOT_FOUND if code == 1 and _IS_MISSING.fullmatch(stderr) else code,
            duration_seconds=self.seconds,
            is_truncated=self._out.is_cut or self._err.is_cut,
            killed_by=self._killed_by(code),
            killed=self._killed,
            sandbox=self._sandbox,
            hosts=() if egress is None else egress.hosts,
            refused_hosts={} if egress is None else egress.refused,
        )

    def _killed_by(self, code: int | None) -> str | None:
        if self._started.problem is not None:
            return "sandbox"
        if self.killed_by is None and self._started.is_out_of_memory:
            return "memory"
        return self.killed_by or _TOLD_BY_CODE.get(code or 0)

    async def _read(self, fd: int) -> None:
        while True:
            await trio.lowlevel.wait_readable(fd)
            with suppress(BlockingIOError):
                chunk = os.read(fd, READ_BYTES)
                if not chunk:
                    return
                self._take(fd, chunk)

    def _take(self, fd: int, chunk: bytes) -> None:
        (self._out if fd == self._started.stdout else self._err).add(chunk)
        if self._on_chunk is not None:
            self._on_chunk(chunk)
        if self._out.total + self._err.total > FLOOD_FACTOR * self._settings.output_bytes:
            self.kill("output")


async def run_program(program: Program, seconds: float) -> Ran:
    """Runs it to its end, or for so long; on every way out nothing of it is left."""
    try:
        with trio.move_on_at(_deadline(seconds)) as scope:
            await program.serve()
        if scope.cancelled_caught:
            program.killed_by = program.killed_by or "timeout"
    finally:
        # It is bounded itself, and more closely.
        with trio.move_on_after(2 * REAP_SECONDS, shield=True):
            await program.end()
    return program.result()


COLLECT_SECONDS = 0.05
"""Of a call's time, what is left to collect what a program said before it was ended."""


def _deadline(seconds: float) -> float:
    now = trio.current_time()
    at = trio.current_effective_deadline()
    # A call that has no time for that has its own, shorter end.
    return min(now + seconds, at - min(COLLECT_SECONDS, max(0.0, (at - now) / 10)))
