"""What runs right now: turns and calls as they begin and end, and the status that programs ask for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import msgspec
import trio


class RunningTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that runs; `seconds` is for how long."""

    session_id: str
    turn_id: str
    seconds: float


class RunningCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose tool runs; one that waits for a person, a key or a slot does not yet."""

    session_id: str
    turn_id: str
    call_id: str
    tool: str
    seconds: float


class RunningProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs in the background of a session.

    Attributes:
        process_id: Its name in its session, as the tool `process` takes it.
        command: As a person would write it.
        seconds: Since its start.
    """

    session_id: str
    process_id: str
    command: str
    seconds: float


class ActorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How an actor is.

    Attributes:
        is_running: Whether it takes messages; one that was given up does not.
        waiting: Messages in its mailbox, of `capacity`.
        restarts: How often it crashed and was started anew.
    """

    name: str
    is_running: bool
    waiting: int
    capacity: int
    restarts: int


class RuntimeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime does at one moment.

    Attributes:
        sessions: The ids of the sessions that are loaded.
        turns: The turns that run, and since when.
        calls: The calls whose tools run.
        background: The programs that run beside the calls, those of `shell` with `background`.
        storage_failed: Why the store can't be relied on now, and what to do; empty when it can. On a
            full disk nothing new begins until there is room.
        storage_warning: What to do before the store is as large as `max_store_mib` of `[sessions]` lets
            it be, or since it is; empty when there is room, as of the last look.
        actors: Those that all sessions share, then those of the loaded sessions, at most a hundred:
            which are given up, then those for which most messages wait, then which have crashed. A
            daemon tells them beside this, in `Status.actors`.

    Example:
        async with callboard.open_runtime(model="rehearsal") as runtime:
            await (await runtime.create_session()).run("What time is it in Tokyo?")
            status = await runtime.status()
            print(len(status.sessions), "loaded,", len(status.turns), "at work")
    """

    sessions: tuple[str, ...]
    turns: tuple[RunningTurn, ...] = ()
    calls: tuple[RunningCall, ...] = ()
    background: tuple[RunningProgram, ...] = ()
    storage_failed: str = ""
    storage_warning: str = ""
    actors: tuple[ActorStatus, ...] = ()


class _Running:
    """A call from its start to its end."""

    __slots__ = ("ended", "scope", "since")

    def __init__(self) -> None:
        self.since = trio.current_time()
        self.scope = trio.CancelScope()
        self.ended = trio.Event()


class Activity:
    """The turns and calls of one runtime; whoever runs one says so."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], float] = {}
        self._calls: dict[tuple[str, str, str, str], _Running] = {}

    @contextmanager
    def turn(self, session_id: str, turn_id: str) -> Generator[None]:
        """A turn runs in the block."""
        key = session_id, turn_id
        self._turns[key] = trio.current_time()
        try:
            yield
        finally:
            self._turns.pop(key, None)

    @contextmanager
    def call(self, session_id: str, turn_id: str, call_id: str, tool: str) -> Generator[None]:
        """A call runs in the block, which `cancel` leaves early without an exception."""
        key = session_id, turn_id, call_id, tool
        running = self._calls[key] = _Running()
        try:
            with running.scope:
                yield
        finally:
            self._calls.pop(key, None)
            running.ended.set()

    async def cancel(self, session_id: str, call_id: str, reason: str) -> bool:
        """Cancels a call that runs, alone; returns when its tool has ended (`False`: none ran)."""
        for (its_session, _, its_id, _), running in self._calls.items():
            if (its_session, its_id) == (session_id, call_id):
                running.scope.cancel(reason=reason)
                await running.ended.wait()
                return True
        await trio.lowlevel.checkpoint()
        return False

    def is_busy(self, session_id: str) -> bool:
        """Whether a turn of a session runs."""
        return any(its_session == session_id for its_session, _ in self._turns)

    def turns(self) -> tuple[RunningTurn, ...]:
        """Those that run, in the order of their start."""
        now = trio.current_time()
        return tuple(
            RunningTurn(session_id=session_id, turn_id=turn_id, seconds=now - since)
            for (session_id, turn_id), since in self._turns.items()
        )

    def calls(self) -> tuple[RunningCall, ...]:
        """Those that run, in the order of their start."""
        now = trio.current_time()
        return tuple(
            RunningCall(session_id=s, turn_id=t, call_id=c, tool=tool, seconds=now - running.since)
            for (s, t, c, tool), running in self._calls.items()
        )
