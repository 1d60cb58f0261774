"""A person has a conversation summed up: what the model reads from then on, what it costs, and what fails."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio.testing

import callboard
from callboard.actors.model.compaction import INSTRUCTION
from callboard.providers.testing.script import Step, reply, stall, status
from callboard.runtime.events import HistoryCompacted, MessageCompleted
from support.stage import on_both_stores, open_stage

NOW: tuple[str, dict[str, str]] = ("get_current_time", {})


@on_both_stores
async def test_a_summary_stands_in_the_place_of_what_was_said(tmp_path: Path, store: str) -> None:
    steps: list[Step] = [
        reply(calls=[NOW]),
        reply("x" * 500),
        reply("Two."),
        reply("NOTES"),
        reply("Three."),
    ]
    async with open_stage(tmp_path, steps, store=store) as stage:
        session = await stage.runtime.create_session()
        await session.run("One.")
        await session.run("Two?")
        answer = await session.run("/compact the time", compact=True)
        assert answer == "A summary stands in the place of the 2 oldest rounds from now on."
        asked = stage.server.requests[-1].body
        assert "tools" not in asked
        assert asked["messages"][0]["content"].startswith(INSTRUCTION)
        assert asked["messages"][0]["content"].endswith("says what matters in them: the time")
        events = [each.event for each in await stage.runtime.store.events(session.session_id)]
        [compacted] = [each for each in events if isinstance(each, HistoryCompacted)]
        assert compacted.summary == "NOTES"
        assert compacted.usage is not None
        said = [each for each in events if isinstance(each, MessageCompleted)][-1]
        assert (said.provider, said.model) == ("", "")
        assert compacted.is_wanted
        used = await stage.runtime.store.usage(session_id=session.session_id)
        spent = await stage.runtime.store.spending(session.session_id)
        assert spent is not None
        assert len(used) == len(spent.calls) == len(stage.server.requests)
        assert await session.run("Three?") == "Three."
        short = stage.sent[-1]
        read = [(each["role"], each["content"]) for each in short[2:]]
        assert "NOTES" in short[1]["content"]
        assert short[1]["content"].endswith("Two?")
        assert read[:2] == [("assistant", "Two."), ("user", "/compact the time")]
    if store == "disk":
        async with open_stage(tmp_path, [reply("Still here.")], store=store) as stage:
            same = await stage.runtime.get_session(session.session_id)
            assert await same.run("Four?") == "Still here."
            assert stage.sent[-1][: len(short)] == short


async def test_nothing_is_lost_where_no_model_sums_up(
    tmp_path: Path,
) -> None:
    wrong = status(400, {"error": {"message": "no"}})
    steps: list[Step] = [reply("One. " * 200), wrong, wrong, reply("Two.")]
    async with open_stage(tmp_path, steps) as stage:
        session = await stage.runtime.create_session()
        await session.run("One?")
        for _ in range(2):
            with pytest.raises(callboard.ProviderError, match="no"):
                await session.run("/compact", compact=True)
        assert await session.run("Two?") == "Two."
        events = [each.event for each in await stage.runtime.store.events(session.session_id)]
        assert not [each for each in events if isinstance(each, HistoryCompacted)]
        assert "One." in str(stage.sent[-1])


async def test_summing_up_is_cancelled_and_done_again(tmp_path: Path) -> None:
    steps: list[Step] = [
        reply("One."),
        stall("NO"),
        reply("NOTES"),
        reply("MORE NOTES"),
        reply("Two."),
    ]
    async with open_stage(tmp_path, steps) as stage:
        session = await stage.runtime.create_session()
        await session.run("One?")
        async with session.prompt("/compact", compact=True) as turn:
            while len(stage.server.requests) < 2:  # noqa: ASYNC110  nobody hears a summary
                await trio.testing.wait_all_tasks_blocked()
            await session.cancel("enough")
            with pytest.raises(callboard.CallboardError):
                await turn.answer()
        for again in (session.retry, session.regenerate):
            async with again() as turn:
                assert "place of the oldest round from" in await turn.answer()
        await session.run("Two?")
        assert "MORE NOTES" in stage.sent[-1][1]["content"]
        assert "/compact" in str(stage.sent[-1])
