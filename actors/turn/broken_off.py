"""The results of calls that have none of their own: they were cancelled, or ended with what ran them."""

from __future__ import annotations

import trio

from ...runtime.definitions import CallStatus, ErrorType
from ...runtime.events import CallFinished
from ...runtime.history import Call
from ...runtime.messages import BrokenOff
from ..calls.outcome import failure_outcome, told_to_stop


def cancelled_call(
    turn_id: str, call: Call, why: str, was: BrokenOff | None = None, *, killed: int | None = None
) -> CallFinished:
    """Return the result of a call that was cancelled.

    Args:
        turn_id: Its turn.
        call: The call.
        why: The reason, for the model.
        was: How far it had come.
        killed: Of a call that ran programs, how many were killed.
    """
    message, details = f"Not finished: {why}.", {}
    if killed is not None:
        from ...tools.programs.program_result import processes  # here: few cancelled calls ran any

        message = f"{message} {processes(killed).capitalize()}; none is left."
        details = {"killed": killed}
    if was is not None and was.server is not None:
        message = f"{message} {told_to_stop(was.server)}"
    status = CallStatus.CANCELLED
    return unfinished(turn_id, call, ErrorType.CANCELLED, message, status, was, **details)


def unfinished(
    turn_id: str,
    call: Call,
    error_type: ErrorType,
    message: str,
    status: CallStatus,
    was: BrokenOff | None,
    **details: int,
) -> CallFinished:
    """Return the result of a call that has none of its own."""
    outcome = failure_outcome(error_type, message, status=status, **details)
    duration = 0.0 if was is None else trio.current_time() - was.began_at
    return CallFinished(
        turn_id=turn_id,
        call_id=call.call_id,
        name=call.name,
        status=status,
        result=outcome.content,
        display=outcome.display,
        duration_ms=round(duration * 1000),
        server=None if was is None else was.server,
    )
