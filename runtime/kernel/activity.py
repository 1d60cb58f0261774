"""What goes on in a runtime right now: the turns and calls that run."""

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
