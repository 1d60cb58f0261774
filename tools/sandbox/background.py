"""Background programs: they run beside the calls of their session, and end with it at the latest.

A call that was begun before its session ended must not start a program after that end. So it notes how often
the session has ended (`ends_of`) when it begins, and `start` compares.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import trio

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.processes import BackgroundProcess, ProcessOutput, Ran

if TYPE_CHECKING:
    from .running.program import Program

MAX_RUNNING_PER_SESSION = 8
"""A server, a watcher, a build: nobody follows more."""
MAX_RUNNING = 32
"""In all sessions; each holds some 25 descriptors."""
MAX_KEPT_PER_SESSION = 32
"""Programs that a session can ask about; the oldest that have ended are forgotten."""
MAX_ENDS = 4096
"""Sessions whose ends are counted: so many others do not end while one call lasts."""
MAX_UNREAD_BYTES = 256 * 1024
"""The end of output that nobody has asked for yet."""

MakeProgram: TypeAlias = "Callable[[Callable[[bytes], None]], Program]"


class BackgroundPrograms:
    """The background programs of a runtime; `serve` must run for them to be started."""

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        self._by_session: dict[str, dict[str, _Running]] = {}
        self._unseen: dict[str, int] = {}
        self._count = 0
        self._ends: OrderedDict[str, int] = OrderedDict()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled; when this returns, nothing of them is left."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    async def start(
        self,
        session_id: str,
        title: str,
        seconds: float,
        make: MakeProgram,
        *,
        ends: int = 0,
        on_end: Callable[[], Awaitable[None]] | None = None,
    ) -> BackgroundProcess:
        """Start one, which runs for so many seconds at most; `ends` is what `ends_of` returned when the call began.

        `on_end` is awaited when it has ended, before anybody hears of that.

        Raises `ToolFailure` when the session has ended since, or there are too many.
        """
        await trio.lowlevel.checkpoint()
        if ends != self.ends_of(session_id):
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR, "Nothing was started: the session has ended meanwhile."
            )
        if self._nursery is None:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR, "Nothing is started in the background here."
            )
        own = self._by_session.setdefault(session_id, {})
        self._check_room(own)
        self._count += 1
        running = _Running(f"p{self._count}", title, seconds, on_end)
        # Without a checkpoint between: whatever was started is served, and so ended.
        running.program = make(running.unread.add)
        self._nursery.start_soon(running.serve, name=f"background {running.process_id}")
        own[running.process_id] = running
        self._unseen.setdefault(session_id, time.time_ns())
        return running.shown()

    def list(self, session_id: str) -> tuple[BackgroundProcess, ...]:
        """Return those of a session, in the order of their start."""
        return tuple(each.shown() for each in self._by_session.get(session_id, {}).values())

    def knows(self, session_id: str, process_id: str) -> bool:
        """Whether one was started here, and the session has not ended since."""
        return process_id in self._by_session.get(session_id, {})

    def running(self) -> dict[str, int]:
        """Return how many run, by session."""
        counts = {
            session: sum(each.ran is None for each in own.values())
            for session, own in self._by_session.items()
        }
        return {session: count for session, count in counts.items() if count}

    def output(self, session_id: str, process_id: str) -> ProcessOutput:
        """Return what it has put out since the last time."""
        return self._find(session_id, process_id).unread.take()

    async def write(self, session_id: str, process_id: str, text: bytes) -> None:
        """Write to its input."""
        running = self._find(session_id, process_id)
        _check_runs(running)
        try:
            async with running.writing:
                await running.program.write(text)
        except (BrokenPipeError, trio.ClosedResourceError):
            _check_runs(running)
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR, f"{process_id} does not read its input any more."
            ) from None

    async def close_input(self, session_id: str, process_id: str) -> None:
        """Close its input, after what is still being written to it. Idempotent."""
        running = self._find(session_id, process_id)
        _check_runs(running)
        async with running.writing:
            running.program.close_input()

    async def kill(self, session_id: str, process_id: str) -> BackgroundProcess:
        """Kill it; return when nothing of it is left."""
        running = self._find(session_id, process_id)
        if running.ran is None:
            running.program.kill("kill")
        await running.ended.wait()
        return running.shown()

    async def wait(self, session_id: str, process_id: str) -> BackgroundProcess:
        """Wait until it has ended."""
        running = self._find(session_id, process_id)
        await running.ended.wait()
        return running.shown()

    async def end_session(self, session_id: str) -> None:
        """End those of a session, and forget them; return when nothing of them is left."""
        self._ends[session_id] = self._ends.pop(session_id, 0) + 1
        if len(self._ends) > MAX_ENDS:
            self._ends.popitem(last=False)
        own = self._by_session.pop(session_id, {})
        for running in own.values():
            if running.ran is None:
                running.program.kill("cancel")
        for running in own.values():
            await running.ended.wait()
        self._unseen.pop(session_id, None)

    def ends_of(self, session_id: str) -> int:
        """Return how often a session has ended; see `start`."""
        return self._ends.get(session_id, 0)

    def all_running(self) -> tuple[tuple[str, BackgroundProcess], ...]:
        """Return those that run, each with its session, in the order of their start."""
        return tuple(
            (session_id, each.shown())
            for session_id, own in self._by_session.items()
            for each in own.values()
            if each.ran is None
        )

    def describe_running(self, session_id: str) -> tuple[str, ...]:
        """Return those of a session that run, in words for a person."""
        return tuple(
            f"{each.process_id}: {each.command}"
            for its_session, each in self.all_running()
            if its_session == session_id
        )

    def unseen_since(self, session_id: str, now_ns: int) -> int | None:
        """Return since when those of a session may have written what nobody has looked for.

        `None` when none has run since. The caller looks, so the next time begins at `now_ns`.
        """
        since = self._unseen.get(session_id)
        if since is None:
            return None
        if session_id in self.running():
            self._unseen[session_id] = now_ns
        else:
            del self._unseen[session_id]
        return since

    def _find(self, session_id: str, process_id: str) -> _Running:
        own = self._by_session.get(session_id, {})
        if process_id not in own:
            there = ", ".join(own) or "none"
            raise ToolFailure(
                ErrorType.VALIDATION_ERROR,
                f"There is no background process {process_id[:32]!r} in this session. There are: "
                f"{there}.",
                field="id",
            )
        return own[process_id]

    def _check_room(self, own: dict[str, _Running]) -> None:
        here = sum(each.ran is None for each in own.values())
        if here >= MAX_RUNNING_PER_SESSION or sum(self.running().values()) >= MAX_RUNNING:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"{here} background processes of this session run; {MAX_RUNNING_PER_SESSION} may, "
                f"and {MAX_RUNNING} of all sessions. End one with process(action='kill').",
            )
        ended = [name for name, each in own.items() if each.ran is not None]
        for name in ended[: max(0, len(own) + 1 - MAX_KEPT_PER_SESSION)]:
            del own[name]


def _check_runs(running: _Running) -> None:
    if running.ran is not None:
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR,
            f"{running.process_id} has ended, and reads nothing any more. "
            "process(action='output') gives what it has put out.",
        )


class _Unread:
    """The output that nobody has asked for yet, as much of its end as is kept."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        excess = len(self._kept) - MAX_UNREAD_BYTES
        if excess > MAX_UNREAD_BYTES:  # seldom, since it moves what is kept
            self._drop(excess)

    def take(self) -> ProcessOutput:
        self._drop(len(self._kept) - MAX_UNREAD_BYTES)
        found = ProcessOutput(
            text=self._kept.decode(errors="replace"), left_out_bytes=self._left_out
        )
        self._kept.clear()
        self._left_out = 0
        return found

    def _drop(self, count: int) -> None:
        if count > 0:
            del self._kept[:count]
            self._left_out += count


class _Running:
    """One background program."""

    program: Program

    def __init__(
        self,
        process_id: str,
        title: str,
        seconds: float,
        on_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._on_end = on_end
        self.process_id = process_id
        self.unread = _Unread()
        self.ran: Ran | None = None
        self.ended = trio.Event()
        self.writing = trio.Lock()
        self._title = title
        self._seconds = seconds

    async def serve(self) -> None:
        try:
            from .running.program import run_program  # here: most runtimes run no program

            self.ran = await run_program(self.program, self._seconds)
        finally:
            if self.ran is None:  # cancelled, with nothing of it left
                self.ran = self.program.result()
            try:
                if self._on_end is not None:
                    await self._on_end()  # noqa: ASYNC102  it shields and bounds itself
            finally:
                self.ended.set()

    def shown(self) -> BackgroundProcess:
        return BackgroundProcess(
            process_id=self.process_id,
            command=self._title,
            runs=self.ran is None,
            ran=self.ran,
            seconds=self.program.seconds,
        )
