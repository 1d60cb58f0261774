"""The gate in front of effects: where several nodes share a record, none acts for longer than its lease.

The database takes nothing from a node that lost its lease, but it can't stop a tool that acts elsewhere. So a call
that acts begins only while this node's own count of its lease has time left, and what runs at the end is cancelled:
by then no other node has begun anything for its session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from ...runtime.definitions import Effect, ErrorType, ToolFailure
from .call import ReadyCall
from .outcome import CallOutcome, failed

NOT_BEGUN = (
    "This call did not run: its node has lost touch with the database, and another node may have the "
    "session. It can be asked for again."
)
CUT_OFF = (
    "This call was cut off: its node has lost touch with the database, and another node may have the "
    "session. Whether it did what it was to do is unknown."
)


class EffectGate:
    """Lets calls act while it is open.

    Args:
        may_begin: Whether an effect may begin now.
    """

    def __init__(self, may_begin: Callable[[], bool]) -> None:
        self._may_begin = may_begin
        self._running: set[trio.CancelScope] = set()

    async def run(
        self, ready: ReadyCall, execute: Callable[[], Awaitable[CallOutcome]]
    ) -> CallOutcome:
        """Run a call, unless it acts and the gate is closed; when that closes, the call is cut off."""
        if ready.effect is not Effect.READ and not self._may_begin():
            return failed(ToolFailure(ErrorType.INTERRUPTED, NOT_BEGUN))
        with trio.CancelScope() as scope:
            self._running.add(scope)
            try:
                return await execute()
            finally:
                self._running.discard(scope)
        return failed(ToolFailure(ErrorType.INTERRUPTED, CUT_OFF))

    def cut_off(self) -> None:
        """Cancel what runs; its programs are killed, within the bounds of a cancelled call."""
        for scope in self._running:
            scope.cancel(reason="the node lost its lease")
