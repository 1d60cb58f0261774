"""The turns and calls that run right now, and the status of a runtime that programs can ask for."""

from __future__ import annotations

from typing import Self

import msgspec
import trio


class RunningTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A running turn, and for how many seconds it has run."""

    session_id: str
    turn_id: str
    seconds: float


class RunningCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose tool runs, not one that waits for a person, a lock or a slot."""

    session_id: str
    turn_id: str
    call_id: str
    tool: str
    seconds: float


class RunningProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs in the background of a session.

    Attributes:
        process_id: Its name in its session, as the tool `process` takes it.
        command: The command line.
        seconds: How long it has run.
    """

    session_id: str
    process_id: str
    command: str
    seconds: float


class ActorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an actor.

    Attributes:
        is_running: Whether it takes messages; one that was given up does not.
        waiting: Messages in its mailbox, of `capacity`.
        restarts: How often it crashed and was restarted.
    """

    name: str
    is_running: bool
    waiting: int
    capacity: int
    restarts: int


class RuntimeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a runtime at one moment.

    Attributes:
        sessions: The ids of the loaded sessions.
        turns: The running turns.
        calls: The calls whose tools run.
        background: Programs that run in the background: those of `shell` with `background`.
        storage_failed: Why the store can't be used now, and what to do; empty if it can. On a full
            disk nothing new begins until there is room.
        storage_warning: What to do because the store has reached, or soon reaches, `max_store_mib` of
            `[sessions]`; empty if there is room, as of the last check.
        actors: The shared actors, then at most a hundred of the loaded sessions: first those that
            were given up, then those with most waiting messages, then those that crashed. A daemon
            reports them in `Status.actors` instead.

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


class TurnActivity:
    """A turn that is reported while its block runs: a class, as a generator takes five times the room of each turn."""

    __slots__ = ("_key", "_turns")

    def __init__(self, turns: dict[tuple[str, str], float], key: tuple[str, str]) -> None:
        self._turns = turns
        self._key = key

    def __enter__(self) -> None:
        self._turns[self._key] = trio.current_time()

    def __exit__(self, *_: object) -> None:
        self._turns.pop(self._key, None)


class CallActivity:
    """A call that is reported while its block runs.

    Attributes:
        since: When it began.
        is_cancelled: Whether `Activity.cancel` cancelled the scope.
    """

    __slots__ = ("_calls", "_ended", "_key", "_scope", "is_cancelled", "since")

    def __init__(
        self,
        calls: dict[tuple[str, str, str, str], CallActivity],
        key: tuple[str, str, str, str],
    ) -> None:
        self._calls = calls
        self._key = key
        self._ended: trio.Event | None = None
        self._scope: trio.CancelScope | None = None
        self.since = trio.current_time()
        self.is_cancelled = False

    def open_scope(self, seconds: float) -> trio.CancelScope:
        """Return the scope for the tool to run in, which ends so long after the beginning."""
        # Made with its deadline: to move that of a scope costs more than to make one.
        scope = self._scope = trio.CancelScope(deadline=self.since + seconds)
        if self.is_cancelled:
            scope.cancel()
        return scope

    async def cancel(self, reason: str) -> None:
        """Cancel the scope, and wait until the block is left."""
        self.is_cancelled = True
        if self._scope is not None:
            self._scope.cancel(reason=reason)
        if self._ended is None:
            self._ended = trio.Event()
        await self._ended.wait()

    def __enter__(self) -> Self:
        self._calls[self._key] = self
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.pop(self._key, None)
        if self._ended is not None:
            self._ended.set()


class Activity:
    """The running turns and calls of one runtime, as the actors that run them report."""

    def __init__(self) -> None:
        self._turns: dict[tuple[str, str], float] = {}
        self._calls: dict[tuple[str, str, str, str], CallActivity] = {}

    def turn(self, session_id: str, turn_id: str) -> TurnActivity:
        """Return the report of a turn that runs in its block."""
        return TurnActivity(self._turns, (session_id, turn_id))

    def call(self, session_id: str, turn_id: str, call_id: str, tool: str) -> CallActivity:
        """Return the report of a call that runs in its block; `cancel` cancels its scope."""
        return CallActivity(self._calls, (session_id, turn_id, call_id, tool))

    async def cancel(self, session_id: str, call_id: str, reason: str) -> bool:
        """Cancel one running call; return `True` when its tool has ended, `False` if none ran."""
        for (its_session, _, its_id, _), running in self._calls.items():
            if (its_session, its_id) == (session_id, call_id):
                await running.cancel(reason)
                return True
        await trio.lowlevel.checkpoint()
        return False

    def turn_of(self, session_id: str) -> str | None:
        """Return the turn of a session that runs; `None` without one."""
        turns = (turn_id for its_session, turn_id in self._turns if its_session == session_id)
        return next(turns, None)

    def turns(self) -> tuple[RunningTurn, ...]:
        """Return the running turns in the order of their start."""
        now = trio.current_time()
        return tuple(
            RunningTurn(session_id=session_id, turn_id=turn_id, seconds=now - since)
            for (session_id, turn_id), since in self._turns.items()
        )

    def calls(self) -> tuple[RunningCall, ...]:
        """Return the running calls in the order of their start."""
        now = trio.current_time()
        return tuple(
            RunningCall(session_id=s, turn_id=t, call_id=c, tool=tool, seconds=now - running.since)
            for (s, t, c, tool), running in self._calls.items()
        )
