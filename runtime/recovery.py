"""What closes a turn that a crash left open."""

from __future__ import annotations

import msgspec

from .definitions import CallStatus, ErrorType
from .errors import InternalError
from .events import CallFinished, DurableEvent, TurnEnded
from .history import LOST
from .store import CallRow, OpenTurn

NOT_RUN = msgspec.json.encode(
    {
        "status": "error",
        "error_type": ErrorType.INTERRUPTED,
        "message": "The process stopped before this call began to change anything: it had not "
        "started, or only read. It can be asked for again.",
    }
).decode()
"""The result of a call without `started`: that is committed before every effect, reads need none."""


def closing_events(turn: OpenTurn, now_ms: int) -> tuple[DurableEvent, ...]:
    """The one result of each open call, in their order, then the end of the turn.

    Durations reach until `now_ms`: when the process ended is not known.
    """
    return (
        *(_closed(call, now_ms) for call in turn.calls),
        TurnEnded(
            turn_id=turn.turn_id,
            outcome="failed",
            error_type=InternalError.type,
            message="The process ended while this turn ran.",
            duration_ms=max(now_ms - turn.started_at_ms, 0),
        ),
    )


def _closed(call: CallRow, now_ms: int) -> CallFinished:
    had_started = call.started_at_ms is not None
    since_ms = call.proposed_at_ms if call.started_at_ms is None else call.started_at_ms
    return CallFinished(
        turn_id=call.turn_id,
        call_id=call.call_id,
        name=call.name,
        status=CallStatus.INTERRUPTED,
        result=LOST if had_started else NOT_RUN,
        display="interrupted: its outcome is unknown"
        if had_started
        else "interrupted: did not run",
        duration_ms=max(now_ms - since_ms, 0),
    )
