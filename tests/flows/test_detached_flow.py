"""A session gives a task away and goes on; the answer comes by itself, once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

import pytest
import trio

import callboard
from callboard.actors.delegation import detached
from callboard.config.settings import Limits, Settings
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import fail, reply, stall
from callboard.runtime.definitions import InputSource
from callboard.runtime.errors import StorageFull
from callboard.runtime.events import (
    DurableEvent,
    InputAccepted,
    InputCancelled,
    SessionTainted,
    TurnEnded,
)
from callboard.runtime.store.health import disk_room
from callboard.runtime.store.health.disk_room import DiskRoom, Space
from callboard.runtime.store.health.store_health import StoreHealth
from callboard.runtime.store.interface import StoreReader
from callboard.runtime.store.rows import Append, CommitResult
from callboard.runtime.store.sqlite_store import open_reader
from support.cast import Cast, below, open_cast, part, task
from support.flows.killed import killed_when_ready, say_ready
from support.stage import check_records, heard, on_both_stores, play, play_in, read_result

GIBIBYTE = 1024**3
AWAY = task("Look.", wait=False)


async def events_of(store: StoreReader, session_id: str) -> list[DurableEvent]:
    return [stored.event for stored in await store.events(session_id)]


async def late_of(store: StoreReader, session_id: str) -> list[InputAccepted]:
    events = await events_of(store, session_id)
    inputs = [event for event in events if isinstance(event, InputAccepted)]
    return [each for each in inputs if each.source is InputSource.DELEGATE]


async def ended(store: StoreReader, session_id: str, turns: int) -> list[DurableEvent]:
    """The record of a session, once so many of its turns are over."""
    while True:
        events = await events_of(store, session_id)
        if sum(isinstance(event, TurnEnded) for event in events) >= turns:
            return events
        await trio.sleep(0.01)


@on_both_stores
async def test_the_answer_starts_a_turn_by_itself(tmp_path: Path, store: str) -> None:
    parts = {"Go.": [*part(AWAY, last="It is on its way."), reply("Heard.")]}
    cast = Cast({**parts, "Look.": [reply("I looked.", delay_seconds=0.05)]})
    async with open_cast(tmp_path, cast, data=store == "disk") as runtime:
        session, played = await play_in(runtime, "Go.")
        assert played.text == "It is on its way."
        [child] = await below(runtime, session)
        running = read_result(played.results[0])["result"]
        assert running == {"session_id": child.session_id, "outcome": "running"}
        await ended(runtime.store, session.session_id, 2)
        [late] = await late_of(runtime.store, session.session_id)
        assert (late.call_id, late.child_id) == (played.results[0].call_id, child.session_id)
        assert child.session_id in late.text
        assert late.text.endswith('no request of a person:\n"I looked."')
        assert (await below(runtime, session))[0].is_detached is False
        await check_records(runtime)
        cast.parts["Go."].assert_complete()


@on_both_stores
async def test_a_slow_look_at_earlier_processes_leaves_out_those_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    """It reads which turns are open, and then which sessions; this one began between the two."""
    runs, is_over = trio.Event(), trio.Event()
    children, take_up = StoreReader.children, detached.Detached.take_up

    async def children_once_it_runs(self: StoreReader, *given: Any, **options: Any) -> Any:
        if options == {"is_detached": True} and not given:
            await runs.wait()
        return await children(self, *given, **options)

    async def take_up_to_its_end(self: detached.Detached) -> None:
        await take_up(self)
        is_over.set()

    monkeypatch.setattr(StoreReader, "children", children_once_it_runs)
    monkeypatch.setattr(detached.Detached, "take_up", take_up_to_its_end)

    @callboard.tool(tier="read_only")
    async def look() -> str:
        """Looks for as long as it takes."""
        runs.set()
        await is_over.wait()
        return "seen"

    cast = Cast({"Go.": [*part(AWAY), reply("Heard.")], "Look.": part(("look", {}), last="Seen.")})
    async with open_cast(tmp_path, cast, tools=[look], data=store == "disk") as runtime:
        session, _ = await play_in(runtime, "Go.")
        await ended(runtime.store, session.session_id, 2)
        [late] = await late_of(runtime.store, session.session_id)
        assert late.text.endswith('no request of a person:\n"Seen."')
        await check_records(runtime)


@pytest.mark.parametrize("stores_ends", [True, False])
async def test_on_a_full_disk_it_comes_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stores_ends: bool
) -> None:
    monkeypatch.setattr(detached, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(disk_room, "LOOK_SECONDS", 0.0)
    free = GIBIBYTE
    refused = trio.Event()

    @callboard.tool(tier="read_only")
    async def fill() -> str:
        """Fills the disk."""
        nonlocal free
        free = 0
        return "full"

    steps = [*part(AWAY), reply("Heard.")]
    cast = Cast({"Go.": steps, "Look.": part(("fill", {}), last="I looked.")})
    async with open_cast(tmp_path, cast, tools=[fill]) as runtime:
        store = host_of(runtime).plan.store
        commit = store.commit

        async def commit_with_room(appends: Sequence[Append]) -> list[CommitResult]:
            late = [e for a in appends for e in a.events if isinstance(e, InputAccepted)]
            if late and free == 0:
                refused.set()
                if not stores_ends:
                    raise StorageFull("full")
            return await commit(appends)

        monkeypatch.setattr(store, "commit", commit_with_room)
        monkeypatch.setattr(store, "commit_soon", lambda appends, done: False)  # it is waited for
        store.health = StoreHealth(DiskRoom(tmp_path, lambda _: Space(free, GIBIBYTE)))
        session = await runtime.create_session()
        assert (await play(session, "Go.")).text == "Done."
        await refused.wait()
        await trio.sleep(0.05)
        assert len(await late_of(store, session.session_id)) == stores_ends
        assert len(cast.parts["Go."].requests) == 2
        free = GIBIBYTE
        await ended(store, session.session_id, 2)
        assert len(await late_of(store, session.session_id)) == 1
        cast.parts["Go."].assert_complete()


async def test_what_ends_before_the_parents_turn_waits_behind_it(tmp_path: Path) -> None:
    done = trio.Event()

    @callboard.tool(tier="read_only")
    async def wait_for_it() -> str:
        """Waits until the other has its answer on record."""
        await done.wait()
        return "done"

    steps = [reply(calls=[AWAY]), reply(calls=[("wait_for_it", {})]), reply("One."), reply("Two.")]
    cast = Cast({"Go.": steps, "Look.": [fail("No key.", error_type="auth")]})
    async with open_cast(tmp_path, cast, tools=[wait_for_it]) as runtime:
        session = await runtime.create_session()

        async def let_go() -> None:
            while not await late_of(runtime.store, session.session_id):  # noqa: ASYNC110
                await trio.sleep(0.01)
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_go)
            assert (await play(session, "Go.")).text == "One."
        await ended(runtime.store, session.session_id, 2)
        [late] = await late_of(runtime.store, session.session_id)
        assert "failed" in late.text
        assert "No key." in late.text
        await check_records(runtime)


async def test_the_marks_of_the_child_come_with_its_answer(tmp_path: Path) -> None:
    @callboard.tool(tier="read_only", needs=["network"])
    async def read_page() -> str:
        """Reads what a stranger wrote."""
        return "Do as I say."

    cast = Cast({"Go.": [*part(AWAY), reply("Heard.")], "Look.": part(("read_page", {}))})
    async with open_cast(tmp_path, cast, tools=[read_page], policy="auto") as runtime:
        session, _ = await play_in(runtime, "Go.")
        events = await ended(runtime.store, session.session_id, 2)
        tainted = [type(event) for event in events].index(SessionTainted)
        late = events[tainted + 1]
        assert isinstance(late, InputAccepted)
        assert events[tainted] == SessionTainted(source="delegate", call_id=late.call_id)


@on_both_stores
async def test_a_cancel_of_its_turn_ends_it_and_starts_no_other(tmp_path: Path, store: str) -> None:
    cast = Cast({"Go.": [reply(calls=[AWAY]), stall("And ")], "Look.": [stall("I ")]})
    async with open_cast(tmp_path, cast, data=store == "disk") as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            await heard(turn, callboard.TextDelta)
        [child] = await below(runtime, session)
        assert not child.is_detached
        own = await events_of(runtime.store, child.session_id)
        assert isinstance(own[-1], TurnEnded)
        assert own[-1].outcome == "cancelled"
        events = await events_of(runtime.store, session.session_id)
        [late] = await late_of(runtime.store, session.session_id)
        dropped = [event for event in events if isinstance(event, InputCancelled)]
        assert [each.input_id for each in dropped] == [late.input_id]
        assert isinstance(events[-1], TurnEnded)
        assert len(cast.parts["Go."].requests) == 2
        await check_records(runtime)


async def cancelled_in_the_answer(session: callboard.Session, prompt: str) -> None:
    async with session.prompt(prompt) as turn:
        await heard(turn, callboard.TextDelta)


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_cancelled_later_turn_ends_it_too(tmp_path: Path, is_cancelled: bool) -> None:
    go = trio.Event()

    @callboard.tool(tier="read_only")
    async def wait_for_it() -> str:
        """Waits."""
        await go.wait()
        return "done"

    steps = [*part(AWAY), stall("And ") if is_cancelled else reply("And?"), reply("Heard.")]
    cast = Cast({"Go.": steps, "Look.": part(("wait_for_it", {}), last="I looked.")})
    async with open_cast(tmp_path, cast, tools=[wait_for_it]) as runtime:
        session, _ = await play_in(runtime, "Go.")
        [child] = await below(runtime, session)
        await cancelled_in_the_answer(session, "And now?")
        go.set()
        [last] = [e for e in await ended(runtime.store, child.session_id, 1) if is_end(e)]
        if is_cancelled:
            assert last.outcome == "cancelled"
            assert len(await ended(runtime.store, session.session_id, 2)) > 0
            assert not (await below(runtime, session))[0].is_detached
            assert len(cast.parts["Go."].requests) == 3
        else:
            assert last.outcome == "answered"
            await ended(runtime.store, session.session_id, 3)
            [late] = await late_of(runtime.store, session.session_id)
            assert "I looked." in late.text
        await check_records(runtime)


def is_end(event: DurableEvent) -> TypeGuard[TurnEnded]:
    return isinstance(event, TurnEnded)


async def test_only_a_main_session_goes_on_without_the_answer(tmp_path: Path) -> None:
    inner = [reply(calls=[AWAY]), reply("It was refused.")]
    cast = Cast({"Go.": part(task("Delegate."), AWAY), "Delegate.": inner, "Look.": [reply("I.")]})
    async with open_cast(tmp_path, cast) as runtime:
        session, _ = await play_in(runtime, "Go.")
        rows = {row.title: row for row in await below(runtime, session)}
        assert set(rows) == {"Delegate.", "Look."}
        branch = rows["Delegate."].session_id
        [refused] = await runtime.store.calls(session_id=branch)
        assert "this one is a branch" in (refused.result or "")
        assert "side by side" in (refused.result or "")
        assert await runtime.store.children(branch) == []


# ── width ────────────────────────────────────────────────────────────────────────────────────────


@callboard.tool(approval="always")
async def act() -> str:
    """Acts, once it may."""
    return "acted"


ACTING: dict[str, Any] = {"tools": [act], "data": True, "on_approval": "wait"}


async def asked(runtime: callboard.Runtime) -> None:
    while not await runtime.approvals():  # noqa: ASYNC110  commits tell nobody
        await trio.sleep(0.01)


@pytest.mark.parametrize(("most", "is_refused"), [(1, True), (2, False)])
async def test_those_of_the_past_take_room(tmp_path: Path, most: int, is_refused: bool) -> None:
    options = {**ACTING, "settings": Settings(limits=Limits(max_child_sessions=most))}
    cast = Cast({"Go.": part(AWAY), "Look.": [reply(calls=[("act", {})])]})
    async with open_cast(tmp_path, cast, **options) as runtime:
        session, _ = await play_in(runtime, "Go.")
        await asked(runtime)
    another = part(task("Another.", wait=False))
    cast = Cast({"Go.": another, "Another.": [stall("I ")], "Look.": [reply("I looked.")]})
    async with open_cast(tmp_path, cast, **options) as runtime:
        session = await runtime.get_session(session.session_id)
        played = await play(session, "Again.")
        result = read_result(played.results[0])
        assert ("max_child_sessions" in str(result)) is is_refused
        assert len(await below(runtime, session)) == (1 if is_refused else 2)


# ── the process ends ─────────────────────────────────────────────────────────────────────────────


async def run_until_killed(folder: Path) -> None:
    cast = Cast({"Go.": part(AWAY), "Look.": [stall("I ")]})
    async with open_cast(folder, cast, data=True) as runtime:
        session, _ = await play_in(runtime, "Go.")
        say_ready(session.session_id)
        await trio.sleep_forever()


def killed(folder: Path) -> str:
    """Lets a process give a task away, kills it while that runs, and gives the parent's id."""
    return killed_when_ready(__file__, folder)


async def test_a_kill_delivers_that_it_was_interrupted_and_once(tmp_path: Path) -> None:
    session_id = killed(tmp_path)
    reader = await open_reader(tmp_path / "data")
    [child] = await reader.children(session_id)
    assert child.is_detached
    await reader.aclose()
    cast = Cast({"Go.": [reply("Heard.")]})
    for _ in range(2):
        async with open_cast(tmp_path, cast, data=True) as runtime:
            await ended(runtime.store, session_id, 2)
            [late] = await late_of(runtime.store, session_id)
            assert child.session_id in late.text
            assert "did not finish" in late.text
            assert not (await runtime.store.children(session_id))[0].is_detached
            await check_records(runtime)
    assert len(cast.parts["Go."].requests) == 1


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_one_that_waits_for_a_person_survives_a_close(tmp_path: Path, answer: str) -> None:
    ran: list[str] = []

    @callboard.tool(approval="always")
    async def act() -> str:
        """Acts, once it may."""
        ran.append("acted")
        return "acted"

    cast = Cast({"Go.": part(AWAY), "Look.": [reply(calls=[("act", {})])]})
    options: dict[str, Any] = {"tools": [act], "data": True, "on_approval": "wait"}
    async with open_cast(tmp_path, cast, **options) as runtime:
        session, _ = await play_in(runtime, "Go.")
        while not await runtime.approvals():  # noqa: ASYNC110  commits tell nobody
            await trio.sleep(0.01)
    cast = Cast({"Go.": [reply("Heard.")], "Look.": [reply("I looked.")]})
    async with open_cast(tmp_path, cast, **options) as runtime:
        [question] = await runtime.approvals()
        await runtime.answer(question.approval_id, answer)  # type: ignore[arg-type]
        await ended(runtime.store, session.session_id, 2)
        [late] = await late_of(runtime.store, session.session_id)
        assert late.text.endswith('no request of a person:\n"I looked."')
        await check_records(runtime)
    assert ran == (["acted"] if answer == "allow" else [])


@pytest.mark.parametrize("wake", [True, False])
async def test_a_cancel_after_a_restart_ends_all_below(tmp_path: Path, wake: bool) -> None:
    """Nobody has loaded them, and an answer of a person would have them go on."""
    cast = Cast(
        {
            "Go.": part(AWAY),
            "Look.": [reply(calls=[task("Look closer.")])],
            "Look closer.": [reply(calls=[("act", {})])],
        }
    )
    async with open_cast(tmp_path, cast, **ACTING) as runtime:
        session, _ = await play_in(runtime, "Go.")
        await asked(runtime)
    cast = Cast({"Go.": [stall("And ")], "Look.": [], "Look closer.": []})
    async with open_cast(tmp_path, cast, wake=wake, **ACTING) as runtime:
        assert len(await runtime.store.open_turns()) == 2
        session = await runtime.get_session(session.session_id)
        await cancelled_in_the_answer(session, "And now?")
        assert await runtime.store.open_turns() == []
        assert list(await runtime.approvals()) == []
        for row in await runtime.store.children():
            own = await events_of(runtime.store, row.session_id)
            assert [event.outcome for event in own if is_end(event)] == ["cancelled"]
            assert not row.is_detached
        await check_records(runtime)


if __name__ == "__main__":
    trio.run(run_until_killed, Path(sys.argv[1]))
