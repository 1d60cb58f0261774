"""Where many sessions have prompts that wait, a start wakes some at a time, and all in the end."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
import trio

import callboard
from callboard.actors import directory as waking
from callboard.actors.directory import MAX_WAKING
from callboard.embedding.runtime import host_of
from callboard.providers.provider import Emit, ModelRequest
from callboard.runtime.events import InputAccepted, SessionCreated, TurnEnded
from callboard.runtime.identity import new_id
from callboard.runtime.messages import AppendEvents
from support.stage import open_in

SESSIONS = 300 if os.environ.get("CALLBOARD_SOAK") else 40
PATIENCE_SECONDS = 120.0


class CountingModel:
    """Counts who asks it at a time; answers the first prompts of a session at once, and others never."""

    def __init__(self, *, answered: int) -> None:
        self.asked = self.at_once = self.most = 0
        self._answered = answered
        self._changed = trio.Event()

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """See `LocalModel`."""
        self.asked += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self._changed.set()
        try:
            for _ in range(20):  # others come meanwhile, as far as they are let
                await trio.lowlevel.checkpoint()
            if len(request.rounds) > self._answered:
                await trio.sleep_forever()
            await callboard.ScriptedModel([callboard.reply("Done.")]).run(request, emit)
        finally:
            self.at_once -= 1

    async def wait_asked(self, count: int) -> None:
        while self.asked < count:
            self._changed = trio.Event()
            await self._changed.wait()


async def queue_prompts(folder: Path, each: int = 1) -> list[str]:
    """Acknowledged prompts of many sessions, none of which had its turn."""
    (folder / "work").mkdir()
    names = [new_id("session") for _ in range(SESSIONS)]
    async with open_in(folder, "rehearsal", "disk", wake=False) as runtime:
        created = SessionCreated(agent="general", workspace=str(folder / "work"))

        async def put(name: str) -> None:
            accepted = [InputAccepted(input_id=new_id("input"), text="Go.") for _ in range(each)]
            await host_of(runtime).journal.ask(
                AppendEvents(session_id=name, events=(created, *accepted))
            )

        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(put, name)
    return names


async def test_all_have_turns_few_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "WAKE_SECONDS", math.inf)
    names, model = await queue_prompts(tmp_path), CountingModel(answered=1)
    ended: set[str] = set()
    async with open_in(tmp_path, model, "disk") as runtime:
        while len(ended) < SESSIONS:
            await trio.sleep(0.05)
            for name in [*names]:
                events = await runtime.store.events(name, after_seq=3)
                if any(isinstance(each.event, TurnEnded) for each in events):
                    ended.add(name)
                    names.remove(name)
    assert model.asked == SESSIONS
    assert 1 < model.most <= MAX_WAKING


async def test_turns_that_do_not_end_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "WAKE_SECONDS", 0.01)
    await queue_prompts(tmp_path)
    model = CountingModel(answered=0)
    async with open_in(tmp_path, model, "disk"):
        await model.wait_asked(SESSIONS)
    assert model.most == SESSIONS


async def test_a_session_with_more_prompts_holds_up_others_with_its_first_turn_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "WAKE_SECONDS", math.inf)
    await queue_prompts(tmp_path, each=2)
    model = CountingModel(answered=1)
    async with open_in(tmp_path, model, "disk"):
        with trio.fail_after(PATIENCE_SECONDS):
            await model.wait_asked(2 * SESSIONS)
    assert model.most >= SESSIONS  # all have begun their second turn, which does not end
