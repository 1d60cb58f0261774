"""One program in a sandbox: reads what it puts out, watches what it uses, and says how it ended.

The kernel bounds what it can (`start_gate`, `control_group`). `watch` looks ten times a second at the
rest: the sums over all processes, and the files in memory. Reading goes on until the sandbox is gone, so
that a flood of output is noticed too.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ....config.sections import SandboxSettings
from ....runtime.definitions import ErrorType, ToolFailure
from ....runtime.processes import Ran
from ...processes.process_tree import use_of
from ..box.recipe import Recipe
from .capture import Capture
from .process import REAP_SECONDS, Order, SandboxProcess, read_pipe

if TYPE_CHECKING:  # only nodes of a cluster have one
    from ...processes.watchdog import Watchdog

LOOK_SECONDS = 0.1
"""In which a program may fill some 200 MB, or start some thousand processes; looking at a handful
of processes takes a thousandth of it."""

COLLECT_SECONDS = 0.05
"""The part of a call's time that is kept for collecting the output of a program that is ended."""

FLOOD_FACTOR = 64
"""A program that puts out this many times what is kept is ended: nobody reads it, and it costs."""

IN_MEMORY = ("/tmp", "/dev/shm")
"""Where a program can make files that take memory."""

NOT_FOUND = 127
"""The exit code of shells when there is no such program; bubblewrap exits with 1, and a message."""
_IS_MISSING = re.compile(r"bwrap: execvp [^\n]*: No such file or directory\n?")

_KILLED_BY_CODE = {128 + signal.SIGXCPU: "cpu", 128 + signal.SIGXFSZ: "file_size"}


class Program:
    """A program that was started; use `run_program`, or `serve` and then `end`.

    `on_line` is called with each line of its output, `on_chunk` with each piece, by who keeps it in another
    way. `sandbox` says how strong the sandbox is, for the result. The program is among those in `running`
    until nothing of it is left. `watchdog` ends it at the end of a node's lease. Raises `ToolFailure` when it could not be started.

    Attributes:
        killed_by: Why it was ended, or `None`.
        killed: How many processes were killed, once it has ended.
    """

    def __init__(
        self,
        recipe: Recipe,
        order: Order,
        on_line: Callable[[str], None] | None = None,
        on_chunk: Callable[[bytes], None] | None = None,
        *,
        sandbox: str = "full",
        running: dict[Program, None] | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.order = order
        self.killed_by: str | None = None
        self.killed = 0
        self._settings: SandboxSettings = recipe.settings
        self._sandbox = sandbox
        self._watchdog = watchdog
        self._is_past_lease = False
        self._on_chunk = on_chunk
        self._out = Capture(recipe.settings.output_bytes, on_line)
        self._err = Capture(recipe.settings.output_bytes, on_line)
        self._seconds: float | None = None
        try:
            self._process = SandboxProcess(recipe, order, watchdog)
        except OSError as error:
            self._close_sockets()
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"The sandbox could not be started ({error}); nothing was run.",
            ) from error
        self._running: dict[Program, None] = {} if running is None else running
        self._running[self] = None
        self._began = trio.current_time()

    @property
    def seconds(self) -> float:
        """How long it runs, or ran."""
        return trio.current_time() - self._began if self._seconds is None else self._seconds

    @property
    def is_paused(self) -> bool:
        """Whether it can do nothing until somebody lets it."""
        return False

    @property
    def _read_here(self) -> tuple[int, ...]:
        """The pipes that `serve` reads."""
        return self._process.stdout, self._process.stderr

    @property
    def was_admitted(self) -> bool:
        """Whether it was bounded before it began."""
        return self._process.is_admitted

    async def serve(self) -> None:
        """Read and watch until the program has ended."""
        process = self._process
        async with trio.open_nursery() as nursery:
            for pipe in self._read_here:
                nursery.start_soon(read_pipe, pipe, self._take)
            nursery.start_soon(process.follow_info)
            nursery.start_soon(self._watch)
            if self.order.sockets is not None:
                nursery.start_soon(self.order.sockets.serve)
            await process.wait()
            nursery.cancel_scope.cancel(reason="the program has ended")

    def kill(self, why: str) -> None:
        """End it; the first reason is the one that its result gives."""
        self.killed_by = self.killed_by or why
        self._process.kill()

    async def end(self) -> None:
        """Leave nothing of it behind; call it in a shield, it is bounded."""
        self._seconds = self.seconds
        self._is_past_lease = self._watchdog is not None and self._watchdog.is_over
        self._close_sockets()
        try:
            self.killed = await self._process.end(self._take)
        finally:
            self._running.pop(self, None)
        if (problem := self._process.problem) is not None:
            self._err.add(
                f"The sandbox could not be bounded ({problem}); nothing was run.\n".encode()
            )
        self._out.end()
        self._err.end()

    def _close_sockets(self) -> None:
        if self.order.sockets is not None:
            self.order.sockets.close()

    async def write(self, text: bytes) -> None:
        """Write to its input; raise `BrokenPipeError` when it does not read any more."""
        rest = memoryview(text)
        while rest:
            if self._process.stdin is None:
                raise BrokenPipeError
            await trio.lowlevel.wait_writable(self._process.stdin)
            with suppress(BlockingIOError):
                rest = rest[os.write(self._process.stdin, rest) :]

    def close_input(self) -> None:
        """Close its input. Idempotent."""
        self._process.close_stdin()

    def result(self) -> Ran:
        """Return how it ended; call it after `end`."""
        code = self._process.returncode
        proxy = None if self.order.sockets is None else self.order.sockets.proxy
        stderr = self._err.text()
        killed_by = self.killed_by
        if self._process.problem is not None:
            killed_by = "sandbox"
        elif killed_by is None and self._is_past_lease and code == 128 + signal.SIGKILL:
            killed_by = "lease"
        elif killed_by is None:
            out_of_memory = self._process.is_out_of_memory
            killed_by = "memory" if out_of_memory else _KILLED_BY_CODE.get(code or 0)
        return Ran(
            stdout=self._out.text(),
            stderr=stderr,
            exit_code=NOT_FOUND if code == 1 and _IS_MISSING.fullmatch(stderr) else code,
            duration_seconds=self.seconds,
            is_truncated=self._out.is_cut or self._err.is_cut,
            killed_by=killed_by,
            killed=self.killed,
            sandbox=self._sandbox,
            hosts=() if proxy is None else proxy.hosts,
            refused_hosts={} if proxy is None else proxy.refused,
        )

    def _take(self, fd: int, chunk: bytes) -> None:
        (self._out if fd == self._process.stdout else self._err).add(chunk)
        if self._on_chunk is not None:
            self._on_chunk(chunk)
        if self._out.total + self._err.total > FLOOD_FACTOR * self._settings.output_bytes:
            self.kill("output")

    async def _watch(self) -> None:
        while True:
            await trio.sleep(LOOK_SECONDS)
            exceeded = "memory" if self._process.check_memory() else self._excess()
            if self._process.foreign_mount() is not None:
                exceeded = "mount"
            if exceeded is not None:
                self.kill(exceeded)
                return

    def _excess(self) -> str | None:
        """Return what its processes use too much of, in the words of `killed_by`."""
        settings, pids = self._settings, self._process.processes()
        if self._files_in_memory() > settings.temporary_files:
            return "files"
        if len(pids) > settings.processes:
            return "processes"
        use = use_of(pids)
        if use.cpu_seconds > settings.cpu_seconds:
            return "cpu"
        if use.memory_bytes <= settings.memory_bytes:
            return None
        # Memory that forks share was counted for each of them.
        return "memory" if use_of(pids, exact=True).memory_bytes > settings.memory_bytes else None

    def _files_in_memory(self) -> int:
        """Return how many files the file systems in memory hold, which no limit of the kernel counts."""
        count, root = 0, self._process.root
        for folder in () if root is None else IN_MEMORY:
            with suppress(OSError):  # it is just ending
                if os.stat(f"{root}{folder}").st_dev == os.stat(folder).st_dev:
                    continue  # its own is still being built
                found = os.statvfs(f"{root}{folder}")
                count += found.f_files - found.f_ffree
        return count


async def run_program(program: Program, seconds: float) -> Ran:
    """Run it to its end, or for so long; on every way out nothing of it is left."""
    try:
        now, at = trio.current_time(), trio.current_effective_deadline()
        # A call that has no time for that has its own, shorter end.
        end = at - min(COLLECT_SECONDS, max(0.0, (at - now) / 10))
        with trio.move_on_at(min(now + seconds, end)) as scope:
            await program.serve()
        if scope.cancelled_caught:
            program.killed_by = program.killed_by or "timeout"
    finally:
        # It is bounded itself, and more closely.
        with trio.move_on_after(2 * REAP_SECONDS, shield=True):
            await program.end()
    return program.result()
