"""`approval/…` and `grant/…`: people answer what models ask for."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Any

import msgspec
import trio

from ...actors.people.lineage import Lineage
from ...actors.permissions.decisions import policy_above
from ...config.policy.grant_binding import binding_of
from ...embedding.policy_check import CheckedCall, Judge
from ...embedding.runtime import host_of
from ...runtime.approval import ApprovalAnswer
from ...runtime.channel import UserQuestion
from ...runtime.errors import NotFoundError, PermissionRefused
from ...runtime.handles import PersonAnswer
from ...runtime.messages import WakeSession
from ...runtime.store.rows import ApprovalRow
from ...runtime.wire import approvals as wire
from ...runtime.wire.fields import Role
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..feeds.frames import wire_json
from ..shared.pages import byte_page, page

MAX_DEPTH = 100
"""Sessions between one and the main one above it: far more than limits let there be."""

LIMITED_SCOPES = ("call", "turn", "session")
"""Scopes for which an answer by a token with limits may be remembered: they reach no session that the
token does not see."""

MAX_PARAMETERS_BYTES = 64 * 1024
"""Of a tool's schema, which may be a stranger's: a form of more is none that a person fills in, and is not sent."""
MAX_PARAMETERS_DEPTH = 64
"""As of schemas of servers: clients read it by recursion."""

methods = MethodTable()


async def _approval(caller: Caller, approval_id: str) -> ApprovalRow:
    rows = await caller.runtime.store.approvals(approval_id=approval_id, within=caller.visible)
    for row in rows:
        return row
    raise NotFoundError(f"there is no approval {approval_id}")


@methods.add("approval/list", Role.OBSERVER)
async def list_approvals(caller: Caller, params: wire.ListApprovals) -> wire.Approvals:
    """Return a page of approval questions, latest first."""

    async def read(last: ApprovalRow | None, count: int) -> list[ApprovalRow]:
        return await caller.runtime.store.approvals(
            session_id=params.session_id,
            state=params.state,
            before=params.before if last is None else last.approval_id,
            within=caller.visible,
            limit=count,
        )

    rows, has_more = await byte_page(read, page(params.limit))
    return wire.Approvals(rows, has_more)


@methods.add("approval/get", Role.OBSERVER, is_slow=True, about="approval_id")
async def get_approval(caller: Caller, params: wire.OneApproval) -> wire.AskedApproval:
    """Return a waiting question as a person would see it now; other arguments take an approver."""
    await _approval(caller, params.approval_id)
    if params.arguments is not None and not caller.credential.role.includes(Role.APPROVER):
        # A preview reads what the arguments name.
        raise PermissionRefused(
            f"other arguments take the role {Role.APPROVER}; this token has "
            f"{caller.credential.role}"
        )
    request = await caller.runtime.approval(params.approval_id, arguments=params.arguments)
    scopes = request.scopes
    if caller.is_limited:
        scopes = tuple(scope for scope in scopes if scope in LIMITED_SCOPES)
    covers = binding_of(request.tool, request.arguments, tier=request.tier) if scopes else None
    own = {"scopes": scopes, "covers": covers, "parameters": _sent(request.parameters)}
    return wire.AskedApproval(**msgspec.structs.asdict(request) | own)


def _sent(parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a tool's schema if it is JSON of a size and depth that are worth a form; else nothing."""
    try:
        if len(wire_json(parameters)) > MAX_PARAMETERS_BYTES:
            return None
    except (TypeError, ValueError, RecursionError):
        return None
    level: list[Any] = [parameters]
    for _ in range(MAX_PARAMETERS_DEPTH):
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
    return None if level else parameters


@methods.add("approval/resolve", Role.APPROVER, about="approval_id")
async def resolve_approval(caller: Caller, params: wire.Resolve) -> Nothing:
    """Answer an approval question; the answer is on record when this returns."""
    row = await _approval(caller, params.approval_id)
    remember = params.remember
    if remember is not None and caller.is_limited and remember.scope not in LIMITED_SCOPES:
        raise PermissionRefused(
            f"this token is limited to agents or sessions, and {remember.scope!r} is for others too: "
            f"its answers are remembered for {', '.join(LIMITED_SCOPES)}"
        )
    answer = ApprovalAnswer(
        decision=params.decision,
        arguments=params.arguments,
        remember=None if remember is None else remember.scope,
        pattern=None if remember is None else remember.pattern,
        reason=params.reason,
        answered_by=caller.name,
    )
    await caller.runtime.answer(params.approval_id, answer)
    await _go_on(caller, row.session_id)
    return Nothing()


async def _go_on(caller: Caller, session_id: str) -> None:
    """Load the session whose suspended turn of an earlier process waits for this answer."""
    store, top = caller.runtime.store, session_id
    for _ in range(MAX_DEPTH):
        row = await store.session(top)
        if row is None or row.parent_id is None:
            break
        top = row.parent_id
    if any(turn.is_suspended and turn.session_id == top for turn in await store.open_turns()):
        await host_of(caller.runtime).directory.tell(WakeSession(session_id=top))


@methods.add("grant/list", Role.OBSERVER)
async def list_grants(caller: Caller, params: Nothing) -> wire.Grants:
    """Return the grants in force."""
    seen = []
    for grant in await caller.runtime.grants():
        session = await caller.runtime.store.session(grant.session_id)
        if session is not None and caller.sees(session):
            seen.append(grant)
    return wire.Grants(seen)


@methods.add("grant/revoke", Role.APPROVER, about="grant_id")
async def revoke_grant(caller: Caller, params: wire.OneGrant) -> Nothing:
    """Revoke a grant, at once and for queued calls too."""
    if caller.is_limited and not await _sees_grant(caller, params.grant_id):
        raise NotFoundError(f"there is no grant {params.grant_id}")
    await caller.runtime.revoke(params.grant_id, revoked_by=caller.name)
    return Nothing()


async def _sees_grant(caller: Caller, grant_id: str) -> bool:
    for grant in await caller.runtime.store.grants(grant_id=grant_id, include_ended=True):
        session = await caller.runtime.store.session(grant.session_id)
        return session is not None and caller.sees(session)
    return False


@methods.add("question/list", Role.OBSERVER)
async def list_questions(caller: Caller, params: wire.ListQuestions) -> wire.QuestionList:
    """Return a page of models' questions that wait for an answer, the first to expire first."""
    waiting = sorted(
        (
            each
            for each in await caller.runtime.questions()
            if params.session_id in {None, each.session_id, each.asked_in}
        ),
        key=_place,
    )

    async def read(last: UserQuestion | None, count: int) -> list[UserQuestion]:
        after = params.after if last is None else _place(last)
        found: list[UserQuestion] = []
        for each in waiting[bisect_right(waiting, after or "", key=_place) :]:
            if len(found) < count and await _is_seen(caller, each):
                found.append(each)
        return found

    rows, has_more = await byte_page(read, page(params.limit))
    return wire.QuestionList(rows, _place(rows[-1]) if has_more else None)


def _place(question: UserQuestion) -> str:
    """Return where a question is in the list, which says so also when it is answered and gone."""
    return f"{question.expires_at_ms:015}.{question.question_id}"


@methods.add("question/answer", Role.OPERATOR, about="question_id")
async def answer_question(caller: Caller, params: wire.AnswerQuestion) -> Nothing:
    """Answer a model's question; the answer is on record when this returns."""
    known = await caller.runtime.questions()
    question = next((each for each in known if each.question_id == params.question_id), None)
    if caller.is_limited and (question is None or not await _is_seen(caller, question)):
        raise NotFoundError(f"no question {params.question_id} is open")
    answer = PersonAnswer(text=params.text, option=params.option, answered_by=caller.name)
    await caller.runtime.answer_question(params.question_id, answer)
    if question is not None:
        await _go_on(caller, question.session_id)
    return Nothing()


async def _is_seen(caller: Caller, question: UserQuestion) -> bool:
    session = await caller.runtime.store.session(question.session_id)
    return session is not None and caller.sees(session)


@methods.add("policy/check", Role.OPERATOR, is_slow=True)
async def check_policy(caller: Caller, params: wire.CheckPolicy) -> wire.PolicyAnswer:
    """Say whether a call of a session would run, ask or be denied, and which rule decides."""
    session = await caller.session(params.session_id)
    host = host_of(caller.runtime)
    plan = host.plan
    tree = Lineage(plan.store, host.agents, host.channels, host.force.gone)
    lineage = await tree.above(session.parent_id)
    above, channel = policy_above(host.force.policies, lineage)
    judge = Judge(
        agent=await tree.agent_of(session, lineage),
        policies=host.force.policies,
        registry=plan.registry,
        forbidden=plan.forbidden,
        above=above,
    )
    call = CheckedCall(
        tool=params.tool,
        arguments=params.arguments,
        kind=session.kind,
        channel=host.channels.own(session.kind) or channel,
        workspace=Path(session.workspace),
        is_tainted=session.is_tainted,
        has_private=session.has_private,
    )
    return await trio.to_thread.run_sync(judge.answer, call)
