"""The gate in front of effects: where several nodes share a record, none acts for longer than its lease.

A call that acts begins only while the gate is open, and what runs when it closes is cancelled: by then no other node
has begun anything for its session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...runtime.definitions import Effect, ErrorType, ToolFailure
from ...runtime.errors import StoreUnavailable
from ...runtime.kernel.lease_gate import LeaseGate
from ...tools.processes.function_process import hold_of_call
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


async def run_behind(
    gate: LeaseGate,
    ready: ReadyCall,
    execute: Callable[[], Awaitable[CallOutcome]],
    workspace: str = "",
) -> CallOutcome:
    """Run a call, unless it acts and the gate is closed; when that closes, the call is cut off.

    It waits for calls of other nodes that write the same files of its workspace.
    """
    holding = gate.holding if gate.holding is not None and ready.resources else None

    async def execute_holding() -> CallOutcome:
        assert holding is not None
        async with holding(workspace, ready.resources):
            return await execute()

    if ready.effect is not Effect.READ and not gate.is_open():
        return failed(ToolFailure(ErrorType.INTERRUPTED, NOT_BEGUN))
    token = hold_of_call.set(gate.hold)
    try:
        return await gate.run(execute if holding is None else execute_holding)
    except StoreUnavailable:
        return failed(ToolFailure(ErrorType.INTERRUPTED, CUT_OFF))
    finally:
        hold_of_call.reset(token)
