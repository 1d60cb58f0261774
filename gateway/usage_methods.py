"""`usage/get` and `session/set_budget`: what was used, and what may be."""

from __future__ import annotations

from ..config.usage_sums import UsageReport, UsageSums, read_usage
from ..embedded import host_of
from ..runtime.errors import PermissionRefused
from ..runtime.wire.roles import Role
from ..runtime.wire.usage import GetUsage, SetBudget
from .caller import Caller
from .methods import MethodTable, Nothing

methods = MethodTable()


@methods.add("usage/get", Role.OBSERVER, is_slow=True)
async def get_usage(caller: Caller, params: GetUsage) -> UsageReport:
    """What model calls took in tokens, and cost at present prices."""
    if params.session_id is not None:
        await caller.session(params.session_id)
    elif caller.is_limited:
        raise PermissionRefused("this token is not for all sessions: name one of its own")
    sums = UsageSums(params.by, host_of(caller.runtime).plan.prices)
    return await read_usage(
        caller.runtime.store, sums, session_id=params.session_id, since_ms=params.since_ms
    )


@methods.add("session/set_budget", Role.OPERATOR)
async def set_budget(caller: Caller, params: SetBudget) -> Nothing:
    """Gives a session another budget, from its next turn on."""
    await caller.session(params.session_id)
    session = await caller.runtime.get_session(params.session_id)
    await session.set_budget(params.budget)
    return Nothing()
