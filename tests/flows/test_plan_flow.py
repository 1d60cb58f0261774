"""The plan of a session: on record, the whole of it each time, and not lost with a long history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard.actors.conversation.conversation import Conversation
from callboard.providers.testing.script import reply
from callboard.runtime.event_types.plan import PlanItem
from callboard.runtime.events import HistoryCompacted, PlanSet, Stored
from callboard.runtime.history import Input
from support.stage import on_both_stores, open_in, play, play_in, read_result

FIRST = [{"text": "look", "status": "in_progress"}, {"text": "leap"}]
SECOND = [{"text": "look", "status": "done"}, {"text": "leap", "status": "in_progress"}]


@on_both_stores
async def test_the_last_plan_is_the_plan(tmp_path: Path, store: str) -> None:
    plans = [reply(calls=[("plan", {"items": items})]) for items in (FIRST, SECOND, SECOND)]
    async with open_in(tmp_path, [*plans, reply("Done.")], store, policy="strict") as runtime:
        session, played = await play_in(runtime, "Go.")
        told = [event.items for event in played.events if isinstance(event, PlanSet)]
        first = read_result(played.results[0])["result"]
        assert first == {"plan": ["[>] look", "[ ] leap"], "progress": "0 of 2 done, now: look"}
        assert told == [
            (PlanItem("look", "in_progress"), PlanItem("leap")),
            *[(PlanItem("look", "done"), PlanItem("leap", "in_progress"))] * 2,
        ]
        conversation = Conversation()
        conversation.fold_all(await runtime.store.events(session.session_id))
        assert conversation.plan == told[-1]


def test_a_summary_keeps_the_plan() -> None:
    conversation = Conversation()
    items = (PlanItem("look", "done"), PlanItem("leap"))
    compacted = HistoryCompacted(turn_id="t1", rounds=0, summary="We met.", provider="p", model="m")
    conversation.fold(Stored("s1", 1, 0, PlanSet(turn_id="t1", call_id="c1", items=items)))
    conversation.fold(Stored("s1", 2, 0, compacted))
    (item,) = conversation.rounds[0].items
    assert isinstance(item, Input)
    assert item.text.endswith("We met.\n\nYour plan, as you set it:\n\n[x] look\n[ ] leap")


@pytest.mark.parametrize(
    "items",
    [
        [{"text": ""}],
        [{"text": "  "}],
        [{"text": "x" * 301}],
        [{"text": "x", "status": "dropped"}],
        [{"text": "x"}] * 51,
        ["x"],
    ],
)
async def test_what_is_no_plan_is_refused(tmp_path: Path, items: list[Any]) -> None:
    async with open_in(
        tmp_path, [reply(calls=[("plan", {"items": items})]), reply("No.")]
    ) as runtime:
        played = await play(await runtime.create_session(), "Go.")
        assert read_result(played.results[0])["error_type"] == "validation_error"
        assert not any(isinstance(event, PlanSet) for event in played.events)
