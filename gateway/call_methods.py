"""`call/cancel`: one running call, and nothing beside it."""

from __future__ import annotations

from ..embedded import host_of
from ..runtime.wire.calls import CancelCall
from ..runtime.wire.roles import Role
from ..runtime.wire.sessions import Cancelled
from .caller import Caller
from .methods import MethodTable

methods = MethodTable()


@methods.add("call/cancel", Role.OPERATOR, is_slow=True)
async def cancel_call(caller: Caller, params: CancelCall) -> Cancelled:
    """Cancels one call whose tool runs; answers when the tool has ended, and the turn goes on."""
    await caller.session(params.session_id)
    reason = f"cancelled by {caller.name}"
    activity = host_of(caller.runtime).activity
    return Cancelled(await activity.cancel(params.session_id, params.call_id, reason))
