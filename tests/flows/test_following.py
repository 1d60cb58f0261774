"""Following a session: all that happens in it, whoever prompted."""

from __future__ import annotations

import asyncio  # ruff: ignore[banned-api] one of the ways
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.actors.session import subscribers as audience
from callboard.portals import aio
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ActorStopped, ConflictError, OverloadedError
from callboard.runtime.events import InputAccepted, TurnEnded
from support.flows.deferring import ASK, LATER, Setting, pending
from support.stage import make_workspace


async def test_it_hears_prompts_of_others_and_turns_of_themselves(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    async with setting.open([ASK, *LATER], "wait") as runtime:
        session_id = await pending(runtime)
        [row] = await runtime.approvals()
        session = await runtime.get_session(session_id)
        heard: list[Any] = []
        async with session.follow() as events:
            await runtime.answer(row.approval_id, "allow")
            await (await runtime.get_session(session_id)).run("And?")
            async for event in events:
                heard.append(event)
                if sum(isinstance(each, TurnEnded) for each in heard) == 2:
                    break
            stored = await runtime.store.events(session_id)
            assert (events.seq, events.at_ms) == (stored[-1].seq, stored[-1].at_ms)
        later = [event for event in heard if not isinstance(event, InputAccepted)]
        assert any(isinstance(event, callboard.CallFinished) for event in later)
        assert any(isinstance(event, callboard.TextDelta) for event in later)
        assert sum(isinstance(event, InputAccepted) for event in heard) == 2


async def test_who_reads_too_slowly_is_cut_off_and_no_turn_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience, "MAX_FOLLOWER_UPDATES", 5)
    setting = Setting(tmp_path)
    async with setting.open([reply("Hello."), reply("Again.")]) as runtime:
        session = await runtime.create_session()
        async with session.follow() as slow:
            assert await session.run("Hi.") == "Hello."
            assert await session.run("Hi again.") == "Again."
            read = [await slow.next_event() for _ in range(5)]
            assert None not in read
            with pytest.raises(OverloadedError, match="fell behind"):
                await slow.next_event()


async def test_it_ends_when_it_is_left_and_with_the_runtime(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    async with setting.open([]) as runtime:
        session = await runtime.create_session()
        left = session.follow()
        with pytest.raises(ConflictError, match="enter it first"):
            await left.next_event()
        async with left:
            pass
        assert await left.next_event() is None
        with pytest.raises(ConflictError, match="once"):
            await left.__aenter__()
        kept = session.follow()
        await kept.__aenter__()
    with pytest.raises(ActorStopped):
        await kept.next_event()


def test_plain_programs_follow_too(tmp_path: Path) -> None:
    model = callboard.ScriptedModel([reply("Hello.")])
    with callboard.start_in_thread(
        model=model, workspace=make_workspace(tmp_path), environ={}
    ) as runtime:
        session = runtime.create_session()
        with session.follow() as events:
            session.run("Hi.")
            last = next(event for event in events if isinstance(event, TurnEnded))
        assert list(events) == []
    assert last.outcome == "answered"


def test_asyncio_programs_follow_too(tmp_path: Path) -> None:
    model = callboard.ScriptedModel([reply("Hello.")])

    async def main() -> str:
        async with aio.open_runtime(
            model=model, workspace=make_workspace(tmp_path), environ={}
        ) as runtime:
            session = await runtime.create_session()
            async with session.follow() as events:
                await session.run("Hi.")
                async for event in events:
                    if isinstance(event, TurnEnded):
                        return event.outcome
        return ""

    assert asyncio.run(main()) == "answered"


async def test_progress_that_nobody_has_time_for_is_dropped(tmp_path: Path) -> None:
    @callboard.tool
    async def talk(context: callboard.ToolContext) -> None:
        """Says more at once than anybody can hear."""
        for number in range(2 * audience.MAX_FOLLOWER_UPDATES):
            context.progress(str(number))

    model = callboard.ScriptedModel([reply(calls=[("talk", {})]), reply("Done.")])
    async with callboard.open_runtime(
        model=model, workspace=make_workspace(tmp_path), tools=[talk], environ={}
    ) as runtime:
        session = await runtime.create_session()
        async with session.follow() as follower:
            async with session.prompt("Go.") as turn:
                consumed = [event async for event in turn]
            followed = []
            async for update in follower:
                followed.append(update)
                if isinstance(update, TurnEnded):
                    break
    for heard in (consumed, followed):
        lines = [each for each in heard if isinstance(each, callboard.CallProgress)]
        assert 0 < len(lines) <= audience.MAX_WAITING_PROGRESS
