"""`policy/check`: what would become of a call."""

from __future__ import annotations

from pathlib import Path

import trio

from ..embedded import host_of
from ..policy_verdict import CheckedCall, Judge, PolicyAnswer
from ..runtime.errors import NotFoundError
from ..runtime.wire.policy import CheckPolicy
from ..runtime.wire.roles import Role
from .caller import Caller
from .methods import MethodTable

methods = MethodTable()


@methods.add("policy/check", Role.OPERATOR, is_slow=True)
async def check_policy(caller: Caller, params: CheckPolicy) -> PolicyAnswer:
    """Says whether a call of a session would run, ask or be denied, and which rule decides."""
    session = await caller.session(params.session_id)
    plan = host_of(caller.runtime).plan
    agent = plan.agents.get(session.agent)
    if agent is None:
        raise NotFoundError(f"the agent {session.agent!r} is not configured any more")
    judge = Judge(
        agent=agent, policies=plan.policies, registry=plan.registry, forbidden=plan.forbidden
    )
    call = CheckedCall(
        tool=params.tool,
        arguments=params.arguments,
        kind=session.kind,
        channel=plan.channel.name if plan.channel is not None else None,
        workspace=Path(session.workspace),
        is_tainted=session.is_tainted,
        has_private=session.has_private,
    )
    return await trio.to_thread.run_sync(judge.answer, call)
