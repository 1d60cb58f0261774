"""A record that contradicts itself: its session says so, and nobody else is any worse for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

import callboard
from callboard.actors.session.session import Session
from callboard.embedding.runtime import host_of
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError
from callboard.runtime.events import (
    DurableEvent,
    InputAccepted,
    InputDelivered,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnSetAside,
    TurnStarted,
)
from callboard.runtime.messages import ImportRecords

BEGUN = (
    SessionCreated(agent="general", workspace="/w"),
    InputAccepted(input_id="i1", text="Hello."),
    TurnStarted(turn_id="t1", input_ids=("i1",), provider="p", model="m"),
)
FAILED = TurnEnded(turn_id="t1", outcome="failed")
CONTRADICTIONS: dict[str, tuple[DurableEvent, ...]] = {
    "two ends": (*BEGUN, FAILED, TurnEnded(turn_id="t2", outcome="failed")),
    "the end of another turn": (*BEGUN, TurnEnded(turn_id="t2", outcome="failed")),
    "other inputs set aside": (
        *BEGUN,
        FAILED,
        TurnSetAside(turn_id="t1", input_ids=("i1", "i2"), why="retry"),
    ),
    "an input that there is not": (*BEGUN, InputDelivered(turn_id="t1", input_id="i2")),
}


async def put(runtime: callboard.Runtime, *events: DurableEvent) -> str:
    """Has them on record without a look at them, as an earlier version may have had."""
    stored = tuple(Stored("session_bad", 0, 1, event) for event in events)
    await host_of(runtime).journal.ask(ImportRecords(events=stored))
    return "session_bad"


@pytest.mark.parametrize("name", CONTRADICTIONS)
async def test_a_session_that_can_not_be_read_says_so_and_is_deleted(name: str) -> None:
    model = callboard.ScriptedModel([callboard.reply("Here.")])
    async with callboard.open_runtime(model=model) as runtime:
        bad = await put(runtime, *CONTRADICTIONS[name])
        session = await runtime.get_session(bad)
        for _ in range(2):
            with pytest.raises(StorageError, match=r"contradicts itself at event [45], so it does"):
                await session.submit("Go.")
        with pytest.raises(StorageError, match="contradicts itself"):
            async with session.retry() as turn:
                await turn.answer()
        assert len(await runtime.store.events(bad)) == len(CONTRADICTIONS[name])
        assert (await runtime.store.messages(bad, limit=9))[0].content == "Hello."
        other = await runtime.create_session()
        assert await other.run("Go.") == "Here."
        await session.delete()
        assert await runtime.purge([bad]) == [bad]
        with pytest.raises(NotFoundError):
            await runtime.get_session(bad)


async def test_one_whose_inputs_wait_holds_up_no_other_after_a_start(tmp_path: Path) -> None:
    waiting = InputAccepted(input_id="i9", text="Go.")
    bad = CONTRADICTIONS["two ends"]
    async with callboard.open_runtime(model=callboard.ScriptedModel([]), data=tmp_path) as runtime:
        await put(runtime, *bad, waiting)
    model = callboard.ScriptedModel([callboard.reply("Here.")])
    async with callboard.open_runtime(model=model, data=tmp_path) as runtime:
        assert await (await runtime.create_session()).run("Go.") == "Here."
        assert [each.name for each in (await runtime.status()).actors if each.restarts] == []


async def test_a_runtime_that_closes_while_it_is_read_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begins, load = trio.Event(), Session._load

    async def load_late(session: Session) -> None:
        begins.set()
        await trio.testing.wait_all_tasks_blocked()  # who stops it has asked, and waits
        await load(session)

    async def ask(session: callboard.Session) -> None:
        with pytest.raises(StorageError, match="contradicts itself"):
            await session.submit("Go.")

    async with trio.open_nursery() as nursery:
        async with callboard.open_runtime(model=callboard.ScriptedModel([])) as runtime:
            bad = await runtime.get_session(await put(runtime, *CONTRADICTIONS["two ends"]))
            monkeypatch.setattr(Session, "_load", load_late)
            nursery.start_soon(ask, bad)
            await begins.wait()


async def test_a_turn_that_was_asked_nothing_is_not_run_again() -> None:
    begun = TurnStarted(turn_id="t1", input_ids=(), provider="p", model="m")
    model = callboard.ScriptedModel([callboard.reply("Here.")])
    async with callboard.open_runtime(model=model) as runtime:
        session = await runtime.get_session(await put(runtime, BEGUN[0], begun, FAILED))
        with pytest.raises(ConflictError, match="was asked nothing"):
            async with session.retry() as turn:
                await turn.answer()
        assert await session.run("Go.") == "Here."  # the session goes on
