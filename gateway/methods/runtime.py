"""`runtime/…`, `tool/…`, `turn/get`, `log/tail` and `call/cancel`: what the runtime has, and what it does."""

from __future__ import annotations

import os
import time

import msgspec

from ...embedding.runtime import host_of
from ...runtime.errors import NotFoundError
from ...runtime.identity import VERSION, now_ms
from ...runtime.redaction import redact
from ...runtime.store.lists import CallFilter, CallPage
from ...runtime.store.rows import CallRow
from ...runtime.turns.activity import RuntimeStatus
from ...runtime.wire.daemon import (
    AskDefinitions,
    ClusterState,
    Definitions,
    ListCalls,
    SandboxState,
    Status,
    ToolList,
)
from ...runtime.wire.fields import Role
from ...runtime.wire.sessions import CancelCall, Cancelled
from ...runtime.wire.turns import DelegatedSession, LogTail, OneTurn, TailLog, TurnRecord
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..feeds.frames import wire_json
from ..shared.pages import MAX_PAGE, PAGE_BYTES, page
from ..shared.turn_record import find_turn, inputs_of, page_of_turn
from .providers import default_of

STEP_CALLS = 10
"""Read of the record at a time, as a page of calls fills: arguments and results may be long."""

methods = MethodTable()


@methods.add("runtime/status", Role.OBSERVER)
async def status(caller: Caller, params: Nothing) -> Status:
    """Return the daemon's status."""
    daemon = caller.daemon
    heart, loop, configuration = daemon.heartbeat, daemon.stall_watch, daemon.configuration
    default = default_of(caller.runtime)
    now = await caller.runtime.status()
    return Status(
        uptime_seconds=time.monotonic() - daemon.started_at,
        model=default.model,
        model_reason=default.reason,
        connections=len(daemon.connections),
        is_stopping=daemon.is_stopping,
        version=VERSION,
        pid=os.getpid(),
        work=await _seen(caller, msgspec.structs.replace(now, actors=())),
        actors=() if caller.is_limited else now.actors,
        journal_seconds=None if heart is None else heart.journal_seconds,
        loop=None if loop is None else loop.state(),
        config=None if configuration is None else configuration.state,
        sandbox=None if caller.is_limited else _sandbox(caller),
        cluster=None if caller.is_limited else await _cluster(caller),
    )


async def _cluster(caller: Caller) -> ClusterState | None:
    node = host_of(caller.runtime).plan.node
    return None if node is None else await node.state()


def _sandbox(caller: Caller) -> SandboxState | None:
    sandbox = host_of(caller.runtime).plan.sandbox
    if sandbox is None:
        return None
    found = sandbox.known_status
    if found is None:
        return SandboxState()
    return SandboxState(strength=found.strength, reason=redact(found.reason), bounds=found.bounds)


async def _seen(caller: Caller, status: RuntimeStatus) -> RuntimeStatus:
    """Return the part of a status about sessions that the caller may know of."""
    if not caller.is_limited:
        return status
    rows = [await caller.runtime.store.session(each) for each in status.sessions]
    seen = {row.session_id for row in rows if row is not None and caller.sees(row)}
    return RuntimeStatus(
        sessions=tuple(each for each in status.sessions if each in seen),
        turns=tuple(each for each in status.turns if each.session_id in seen),
        calls=tuple(each for each in status.calls if each.session_id in seen),
        background=tuple(each for each in status.background if each.session_id in seen),
        storage_failed=status.storage_failed,
        storage_warning=status.storage_warning,
    )


@methods.add("runtime/shutdown", Role.ADMIN)
def shutdown(caller: Caller, params: Nothing) -> Nothing:
    """Stop the daemon in order, as SIGTERM does."""
    caller.afterwards(caller.daemon.stop)
    return Nothing()


@methods.add("tool/list", Role.OBSERVER)
async def list_tools(caller: Caller, params: Nothing) -> ToolList:
    """Return all tools, and why some can't be used now."""
    plan = host_of(caller.runtime).plan
    if plan.sandbox is not None:
        await plan.sandbox.ready()
    tools = list(caller.runtime.tools())
    reasons = ((each.name, plan.registry.withheld(each.name)) for each in tools)
    return ToolList(tools, {name: redact(why) for name, why in reasons if why is not None})


@methods.add("tool/definitions", Role.OBSERVER)
def define_tools(caller: Caller, params: AskDefinitions) -> Definitions:
    """Return the tools of an agent as a provider of a wire format gets them."""
    if not caller.knows_agent(params.agent):
        raise NotFoundError(f"there is no agent {params.agent!r}")
    return Definitions(caller.runtime.definitions_for(params.format, agent=params.agent))


@methods.add("tool/history", Role.OBSERVER)
async def list_calls(caller: Caller, params: ListCalls) -> CallPage:
    """Return a page of stored calls, latest first."""
    if params.session_id is not None:
        await caller.session(params.session_id)
    wanted = CallFilter(
        limit=min(page(params.limit), STEP_CALLS),
        before=params.before,
        session_id=params.session_id,
        name=params.name,
        status=params.status,
        since_ms=params.since_ms,
        until_ms=params.until_ms,
        within=caller.visible,
    )
    return await _filled(caller, wanted, params.limit)


async def _filled(caller: Caller, wanted: CallFilter, limit: int) -> CallPage:
    """Return a page that ends at `limit` calls, or when it is large."""
    calls: list[CallRow] = []
    size = 0
    while True:
        step = await caller.runtime.store.call_page(wanted)
        calls += step.calls
        size += len(wire_json(step.calls))
        left = limit - len(calls)
        if step.next_before is None or left <= 0 or size > PAGE_BYTES:
            return CallPage(calls, step.next_before)
        wanted = msgspec.structs.replace(
            wanted, before=step.next_before, limit=min(left, STEP_CALLS)
        )


@methods.add("call/cancel", Role.OPERATOR, is_slow=True, about="session_id")
async def cancel_call(caller: Caller, params: CancelCall) -> Cancelled:
    """Cancel one running call; answers when its tool has ended. The turn goes on."""
    await caller.session(params.session_id)
    reason = f"cancelled by {caller.name}"
    activity = host_of(caller.runtime).activity
    return Cancelled(await activity.cancel(params.session_id, params.call_id, reason))


@methods.add("turn/get", Role.OBSERVER, is_slow=True)
async def get_turn(caller: Caller, params: OneTurn) -> TurnRecord:
    """Return the events of a turn with their times: what ran when, and what waited."""
    row = await caller.session(params.session_id)
    store, session_id, turn_id = caller.runtime.store, row.session_id, params.turn_id
    found = await find_turn(store, session_id, turn_id)
    if found is None and turn_id is not None:
        raise NotFoundError(f"{session_id} has no turn {turn_id}")
    if found is None:
        return TurnRecord(
            session_id=session_id,
            turn_id="",
            events=[],
            is_over=False,
            has_more=False,
            delegated=(),
            running=(),
            now_ms=now_ms(),
        )
    start, started, is_open = found
    begin = await inputs_of(store, started, start.seq, session_id)
    events, has_ended, has_more = await page_of_turn(
        store, session_id, started, begin, params.after_seq, texts=params.texts
    )
    running = host_of(caller.runtime).activity.calls()
    return TurnRecord(
        session_id=session_id,
        turn_id=started.turn_id,
        events=events,
        is_over=has_ended or not (is_open or has_more),
        has_more=has_more,
        delegated=await _delegated(caller, session_id, start.at_ms),
        running=tuple(
            each
            for each in running
            if (each.session_id, each.turn_id) == (session_id, started.turn_id)
        ),
        now_ms=now_ms(),
    )


async def _delegated(
    caller: Caller, session_id: str, since_ms: int
) -> tuple[DelegatedSession, ...]:
    """Return the sessions to which calls of a session delegated since then."""
    children = await caller.runtime.store.children(session_id)
    seen = [each for each in children if each.created_at_ms >= since_ms and caller.sees(each)]
    return tuple(
        DelegatedSession(
            session_id=each.session_id,
            call_id=each.parent_call_id,
            agent=each.agent,
            title=each.title,
            is_active=each.is_active,
        )
        for each in seen[:MAX_PAGE]
    )


@methods.add("log/tail", Role.ADMIN, is_slow=True)
async def tail_log(caller: Caller, params: TailLog) -> LogTail:
    """Return what the daemon logged last, with secrets masked; or wait for what it logs next."""
    if params.wait:
        await caller.daemon.log_end.wait(params.after, params.level)
    return caller.daemon.log_end.tail(params.after, params.level, page(params.limit))
