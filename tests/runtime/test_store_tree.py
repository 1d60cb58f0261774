"""What stores know of the session tree; over memory and over a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callboard.runtime.definitions import InputSource, SessionKind
from callboard.runtime.events import (
    CallProposed,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    SessionCreated,
    SessionTainted,
    Stored,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.store.interface import Store
from callboard.runtime.store.rows import Append, OpenTurn
from support.both_stores import KINDS, opened_store

MAIN = SessionCreated(agent="general", workspace="/work")


def child(call_id: str, *, parent: str = "s1", is_detached: bool = False) -> SessionCreated:
    return SessionCreated(
        agent="general", workspace="/work", kind=SessionKind.BRANCH, parent_id=parent,
        parent_call_id=call_id, is_detached=is_detached,
    )  # fmt: skip


def late(child_id: str, input_id: str = "i1") -> InputAccepted:
    return InputAccepted(
        input_id=input_id, text="It says.", source=InputSource.DELEGATE, call_id="c1",
        child_id=child_id,
    )  # fmt: skip


def began(turn_id: str) -> TurnStarted:
    return TurnStarted(turn_id=turn_id, input_ids=(), provider="p", model="m")


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with opened_store(request.param, tmp_path / "data") as opened:
        yield opened


async def put(store: Store, session_id: str, *events: DurableEvent) -> tuple[Stored, ...]:
    (result,) = await store.commit([Append(session_id, events)])
    assert isinstance(result, tuple)
    return result


async def open_turn(store: Store, session_id: str) -> OpenTurn:
    [found] = [turn for turn in await store.open_turns() if turn.session_id == session_id]
    return found


async def test_children_are_found_by_parent_by_call_and_by_whether_they_are_detached(
    store: Store,
) -> None:
    await put(store, "s1", MAIN)
    await put(store, "s2", child("c1"))
    await put(store, "s3", child("c2", is_detached=True))
    await put(store, "s4", child("c1", parent="s2", is_detached=True))

    async def found(parent_id: str | None = None, **wanted: object) -> list[str]:
        rows = await store.children(parent_id, **wanted)  # type: ignore[arg-type]
        return [row.session_id for row in rows]

    assert await found() == ["s2", "s3", "s4"]
    assert await found("s1") == ["s2", "s3"]
    assert await found("s1", call_id="c2") == ["s3"]
    assert await found("s1", is_detached=False) == ["s2"]
    assert await found(is_detached=True) == ["s3", "s4"]
    assert await found("s4") == []
    [row] = await store.children("s1", call_id="c2")
    assert (row.parent_id, row.parent_call_id, row.is_detached) == ("s1", "c2", True)


async def test_main_sessions_are_listed_alone_when_wanted(store: Store) -> None:
    await put(store, "s1", MAIN)
    await put(store, "s2", child("c1"))
    assert [row.session_id for row in await store.sessions()] == ["s2", "s1"]
    mains = await store.sessions(limit=1, include_children=False)
    assert [row.session_id for row in mains] == ["s1"]


async def test_the_answer_of_a_detached_child_is_stored_once(store: Store) -> None:
    await put(store, "s1", MAIN)
    await put(store, "s2", child("c1", is_detached=True))
    tainted = SessionTainted(source="delegate")
    first = await put(store, "s1", tainted, late("s2"))
    assert [each.event for each in first] == [tainted, late("s2")]
    [row] = await store.children("s1")
    assert not row.is_detached
    again = await put(store, "s1", late("s2", "i2"), InputCancelled(input_id="i2", reason="late"))
    assert [each.seq for each in again] == [4]
    assert [each.seq for each in await store.events("s1")] == [1, 2, 3, 4]


@pytest.mark.parametrize("who", ["waited for", "unknown"])
async def test_no_other_sessions_answer_is_an_input(store: Store, who: str) -> None:
    await put(store, "s1", MAIN)
    await put(store, "s2", child("c1"))
    assert await put(store, "s1", late("s2" if who == "waited for" else "s9")) == ()


async def test_an_open_turn_says_which_calls_wait_for_suspended_sessions(store: Store) -> None:
    call = CallProposed(
        turn_id="t1", message_id="m", call_id="c1", index=0, name="delegate", arguments="{}"
    )
    await put(store, "s1", MAIN, began("t1"), call)
    await put(store, "s2", child("c1"), began("t2"))
    await put(store, "s3", child("c2", is_detached=True), began("t3"))
    turn = await open_turn(store, "s2")
    assert (turn.parent_id, turn.parent_call_id, turn.is_detached) == ("s1", "c1", False)
    assert (await open_turn(store, "s3")).is_detached
    assert (await open_turn(store, "s1")).delegated == ()
    for each, turn_id in (("s2", "t2"), ("s3", "t3")):
        await put(store, each, TurnSuspended(turn_id=turn_id, call_ids=("x",)))
    assert (await open_turn(store, "s1")).delegated == ("c1",)
    await put(store, "s2", TurnResumed(turn_id="t2"))
    assert (await open_turn(store, "s1")).delegated == ()
    # One that is suspended itself goes on with what it waited for, however that went on.
    await put(store, "s1", TurnSuspended(turn_id="t1", call_ids=("c1",)))
    await put(store, "s2", TurnEnded(turn_id="t2", outcome="answered"))
    assert (await open_turn(store, "s1")).delegated == ("c1",)
