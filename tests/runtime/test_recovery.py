from __future__ import annotations

import json

import msgspec
import pytest

from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import (
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    SessionCreated,
    TurnEnded,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.history import LOST
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.recovery import closing_events, deepest_first
from callboard.runtime.store.rows import Append, CallRow, OpenTurn

PENDING = CallRow(
    call_id="c1", session_id="s1", turn_id="t1", name="write_file", status=CallStatus.PENDING,
    arguments="{}", result=None, display="", proposed_at_ms=1_000, started_at_ms=None,
    finished_at_ms=None, duration_ms=None,
)  # fmt: skip
RUNNING = msgspec.structs.replace(
    PENDING, call_id="c2", status=CallStatus.RUNNING, started_at_ms=1_500
)


def turn(*calls: CallRow) -> OpenTurn:
    return OpenTurn(session_id="s1", turn_id="t1", started_at_ms=900, calls=calls)


def test_a_turn_without_calls_just_ends() -> None:
    assert closing_events(turn(), 2_000) == (
        TurnEnded(
            turn_id="t1", outcome="failed", error_type="internal",
            message="The process ended while this turn ran.", duration_ms=1_100,
        ),
    )  # fmt: skip


def test_a_call_that_had_started_has_an_unknown_outcome() -> None:
    (call, _) = closing_events(turn(RUNNING), 2_000)
    assert isinstance(call, CallFinished)
    assert (call.call_id, call.name, call.turn_id) == ("c2", "write_file", "t1")
    assert (call.status, call.duration_ms, call.result) == (CallStatus.INTERRUPTED, 500, LOST)
    assert "unknown" in call.display


@pytest.mark.parametrize("status", [CallStatus.PENDING, CallStatus.WAITING])
def test_a_call_that_had_not_started_says_so(status: CallStatus) -> None:
    (call, _) = closing_events(turn(msgspec.structs.replace(PENDING, status=status)), 2_000)
    assert isinstance(call, CallFinished)
    assert (call.status, call.duration_ms) == (CallStatus.INTERRUPTED, 1_000)
    result = json.loads(call.result)
    assert (result["status"], result["error_type"]) == ("error", "interrupted")
    assert "had not started, or only read" in result["message"]


def test_results_come_in_the_order_of_the_calls_before_the_end() -> None:
    events = closing_events(turn(RUNNING, PENDING), 2_000)
    assert [event.call_id for event in events if isinstance(event, CallFinished)] == ["c2", "c1"]
    assert isinstance(events[-1], TurnEnded)


def test_a_clock_that_went_back_gives_no_negative_durations() -> None:
    events = closing_events(turn(RUNNING, PENDING), 0)
    assert [e.duration_ms for e in events if isinstance(e, CallFinished | TurnEnded)] == [0, 0, 0]


async def test_what_a_crash_left_open_is_closed_once() -> None:
    store = open_memory_store()
    begun: tuple[DurableEvent, ...] = (
        SessionCreated(agent="general", workspace="/work"),
        TurnStarted(turn_id="t1", input_ids=(), provider="p", model="m"),
        *(
            CallProposed(
                turn_id="t1", message_id="m", call_id=call_id, index=0, name="x", arguments=""
            )
            for call_id in ("c1", "c2")
        ),
        CallStarted(turn_id="t1", call_id="c1"),
    )
    await store.commit([Append("s1", begun)])
    (left,) = await store.open_turns()
    closing = Append(left.session_id, closing_events(left, 10**13))
    (first, second) = await store.commit([closing, closing])
    assert isinstance(first, tuple)
    assert [stored.seq for stored in first] == [6, 7, 8]
    assert second == ()
    assert await store.open_turns() == []
    assert {call.status for call in await store.calls()} == {CallStatus.INTERRUPTED}
    await store.aclose()


def test_a_call_that_waits_for_a_suspended_session_stays_open() -> None:
    waiting = msgspec.structs.replace(turn(PENDING, RUNNING), delegated=("c2",))
    closed, suspended = closing_events(waiting, 2_000)
    assert isinstance(closed, CallFinished)
    assert closed.call_id == "c1"
    assert suspended == TurnSuspended(turn_id="t1", call_ids=("c2",))
    is_so = msgspec.structs.replace(waiting, calls=(RUNNING,), is_suspended=True)
    assert closing_events(is_so, 2_000) == ()


def test_turns_below_come_before_those_above() -> None:
    parents = {"a": None, "b": "a", "c": "b", "d": "a", "e": "gone"}
    turns = [
        OpenTurn(session_id=name, turn_id=name, started_at_ms=0, calls=(), parent_id=parent)
        for name, parent in parents.items()
    ]
    ordered = [each.session_id for each in deepest_first(turns)]
    assert sorted(ordered) == sorted(parents)
    for name, parent in parents.items():
        assert parent not in ordered or ordered.index(name) < ordered.index(parent)


def test_a_circle_on_record_ends() -> None:
    circle = [
        OpenTurn(session_id=name, turn_id=name, started_at_ms=0, calls=(), parent_id=parent)
        for name, parent in (("a", "b"), ("b", "a"))
    ]
    assert len(deepest_first(circle)) == 2
