"""What the store decides about deferred calls, and the inputs that bring their answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from callboard.runtime.approval import ApprovalDecision
from callboard.runtime.definitions import CallStatus, InputSource, Tier
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    SessionCreated,
    SessionDeleted,
    SessionRestored,
    TurnEnded,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.store.interface import Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.recovery import closing_events
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store

PERSON = InputAccepted(input_id="i1", text="Go.")
LATE = InputAccepted(
    input_id="i2", text="late", source=InputSource.DEFERRED, call_id="c", approval_id="a"
)
DEFERRED = CallDeferred(turn_id="t1", call_id="c", name="x", approval_id="a", result="{}")
STARTED = CallStarted(turn_id="t2", call_id="c", approval_id="a", digest="d")


@pytest.fixture(params=["memory", "disk"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    in_memory = request.param == "memory"
    opened = open_memory_store() if in_memory else await open_disk_store(tmp_path / "data")
    proposed = CallProposed(
        turn_id="t1", message_id="m", call_id="c", index=0, name="x", arguments="{}"
    )
    await put(opened, SessionCreated(agent="general", workspace="/work"), PERSON)
    await put(opened, turn("t1", "i1"), proposed)
    yield opened
    await opened.aclose()


async def put(store: Store, *events: DurableEvent) -> None:
    """Commits; raises what the store has against it."""
    [result] = await store.commit([Append("s", events)])
    if not isinstance(result, tuple):
        raise result


def turn(turn_id: str, input_id: str) -> TurnStarted:
    return TurnStarted(turn_id=turn_id, input_ids=(input_id,), provider="p", model="m")


def asked(approval_id: str = "a", *, is_deferred: bool = True) -> ApprovalAsked:
    return ApprovalAsked(
        approval_id=approval_id, turn_id="t1", call_id="c", name="x", tier=Tier.SYSTEM,
        reason="", arguments="{}", digest="d", is_deferred=is_deferred,
    )  # fmt: skip


def answer(decision: ApprovalDecision) -> ApprovalAnswered:
    return ApprovalAnswered(approval_id="a", call_id="c", decision=decision, answered_by="me")


async def state(store: Store, approval_id: str = "a") -> str:
    [row] = await store.approvals(approval_id=approval_id)
    return row.state


async def status(store: Store) -> CallStatus:
    [row] = await store.calls()
    return row.status


async def deferred(store: Store) -> None:
    """The call waits, and its turn is over."""
    await put(store, asked(), DEFERRED)
    await put(store, TurnEnded(turn_id="t1", outcome="answered"))


async def test_a_deferred_call_outlives_its_turn(store: Store) -> None:
    await deferred(store)
    assert (await state(store), await status(store)) == ("waiting", "deferred")
    assert await store.open_turns() == []
    await put(store, answer("allow"), LATE)
    assert (await state(store), await status(store)) == ("allowed", "deferred")
    await put(store, turn("t2", "i2"), STARTED)
    assert (await state(store), await status(store)) == ("used", "running")
    [open_turn] = await store.open_turns()
    assert [call.call_id for call in open_turn.calls] == ["c"]


async def test_only_a_call_that_waits_so_is_deferred(store: Store) -> None:
    with pytest.raises(ConflictError, match="does not wait"):
        await put(store, DEFERRED)
    await put(store, asked("b", is_deferred=False))
    with pytest.raises(ConflictError, match="does not wait"):
        await put(store, CallDeferred(**{**fields(DEFERRED), "approval_id": "b"}))
    await put(store, CallFinished(
        turn_id="t1", call_id="c", name="x", status=CallStatus.CANCELLED, result="{}"
    ))  # fmt: skip
    with pytest.raises(ConflictError, match="ended already"):
        await put(store, asked(), DEFERRED)


def fields(event: CallDeferred) -> dict[str, str]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


@pytest.mark.parametrize("decision", ["allow", "deny", "expired"])
async def test_a_late_answer_and_its_input_are_one(
    store: Store, decision: ApprovalDecision
) -> None:
    await deferred(store)
    with pytest.raises(ConflictError, match="with the input that brings it"):
        await put(store, answer(decision))
    with pytest.raises(ConflictError, match="not stored with it"):
        await put(store, LATE)
    await put(store, answer(decision), LATE)
    with pytest.raises(ConflictError, match="not open"):
        await put(store, answer(decision), LATE)
    [row] = await store.open_inputs("s")
    assert (row.input_id, row.source, row.approval_id) == ("i2", InputSource.DEFERRED, "a")


async def test_who_wakes_and_who_does_not(store: Store) -> None:
    assert [row.input_id for row in await store.open_inputs("s")] == ["i1"]
    assert await store.waking_sessions() == []  # its turn runs
    await put(store, asked(), DEFERRED)
    await put(store, answer("allow"), LATE)
    assert await store.waking_sessions() == []  # its turn comes behind the one that runs
    await put(store, TurnEnded(turn_id="t1", outcome="answered"))
    assert await store.waking_sessions() == ["s"]
    await put(store, turn("t2", "i2"), TurnSuspended(turn_id="t2", call_ids=("c",)))
    assert await store.waking_sessions() == ["s"]  # nobody else would resume it
    await put(store, TurnEnded(turn_id="t2", outcome="cancelled"))
    assert await store.waking_sessions() == []
    assert await store.open_inputs("s") == []
    assert await state(store) == "void"  # what was allowed has had its chance


async def test_a_prompt_that_waits_wakes_its_session_unless_it_is_deleted(store: Store) -> None:
    await put(store, InputAccepted(input_id="i2", text="And then?"))
    assert await store.waking_sessions() == []  # its turn comes behind the one that runs
    await put(store, TurnSuspended(turn_id="t1", call_ids=()))
    assert await store.waking_sessions() == []  # a person goes on with that
    await put(store, TurnEnded(turn_id="t1", outcome="cancelled"))
    assert await store.waking_sessions() == ["s"]
    await put(store, SessionDeleted())
    assert await store.waking_sessions() == []
    await put(store, SessionRestored())
    assert await store.waking_sessions() == ["s"]
    await put(store, turn("t2", "i2"))
    assert await store.waking_sessions() == []


async def test_a_cancelled_input_is_gone(store: Store) -> None:
    await deferred(store)
    await put(store, answer("allow"), LATE)
    await put(store, InputCancelled(input_id="i2", reason="no more"))
    assert await store.open_inputs("s") == []


@pytest.mark.parametrize("has_started", [True, False])
async def test_what_a_crash_leaves_of_a_late_turn(store: Store, has_started: bool) -> None:
    await deferred(store)
    await put(store, answer("allow"), LATE)
    await put(store, turn("t2", "i2"), *([STARTED] if has_started else []))
    [left] = await store.open_turns()
    closing = closing_events(left, left.seen_at_ms)
    if has_started:
        finished, ended = closing
        assert isinstance(finished, CallFinished)
        assert (finished.turn_id, finished.status) == ("t2", "interrupted")
        assert isinstance(ended, TurnEnded)
    else:
        voided, suspended = closing
        assert isinstance(voided, ApprovalAnswered)
        assert (voided.approval_id, voided.decision) == ("a", "void")
        assert suspended == TurnSuspended(turn_id="t2", call_ids=("c",))
    await put(store, *closing)


async def test_a_call_that_is_deferred_again_belongs_to_no_turn(store: Store) -> None:
    await deferred(store)
    await put(store, answer("allow"), LATE)
    await put(store, turn("t2", "i2"))
    void = ApprovalAnswered(approval_id="a", call_id="c", decision="void", answered_by="callboard")
    again = CallDeferred(turn_id="t2", call_id="c", name="x", approval_id="b", result="{}")
    await put(store, void, asked("b"), again)
    [left] = await store.open_turns()
    assert (left.calls, left.approvals) == ((), ())
    await put(store, TurnEnded(turn_id="t2", outcome="answered"))
    assert (await state(store, "b"), await status(store)) == ("waiting", "deferred")
