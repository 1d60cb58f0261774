"""A service actor crashes in the middle of turns: each turn says so, and the next prompt works."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import callboard
from callboard.actors.calls import dispatcher as tool_dispatcher
from callboard.actors.permissions.decisions import Decisions
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import CallFinished, DurableEvent, TurnEnded
from callboard.runtime.history import Input
from callboard.runtime.messages import ApprovalRequest, CheckPermissions
from callboard.tools.tool import Tool
from support.scene import Scene, assert_sound, open_scene

SERVICES = ("journal", "broker", "dispatcher", "directory")


class Obedient:
    """A model that asks for the tool that the input names, and then answers."""

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        said = request.rounds[-1].items[-1]
        step = reply(calls=[(said.text, {})]) if isinstance(said, Input) else reply("done")
        await ScriptedModel([step]).run(request, emit)


class Tools:
    """Tools, one of which hangs until told not to, and what they have done."""

    def __init__(self) -> None:
        self.hangs = True
        self.effects: list[str] = []

    def all(self) -> list[Tool]:
        @callboard.tool(tier="workspace")
        async def change() -> str:
            """Changes something, unless it hangs."""
            self.effects.append("begun")
            if self.hangs:
                await trio.sleep_forever()
            self.effects.append("changed")
            return "changed"

        @callboard.tool(tier="system", approval="always")
        async def ask_first() -> str:
            """Asks before it acts."""
            await trio.lowlevel.checkpoint()
            self.effects.append("acted")
            return "acted"

        @callboard.tool(tier="read_only")
        async def poison() -> str:
            """Never runs: who handles it crashes."""
            await trio.lowlevel.checkpoint()
            return "harmless"

        return [change, ask_first, poison]


def crash_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, on: str) -> list[str]:
    """Lets this function crash the first time that it meets a call of this tool."""
    usual = getattr(owner, name)
    crashed: list[str] = []

    def crashing(first: Any, *rest: Any) -> Any:
        checked = rest and isinstance(rest[0], CheckPermissions)
        calls = rest[0].questions if checked else first._request.calls
        if not crashed and any(call.name == on for call in calls):
            crashed.append(on)
            raise ZeroDivisionError("a fault in the actor")
        return usual(first, *rest)

    monkeypatch.setattr(owner, name, crashing)
    return crashed


async def turn(scene: Scene, session_id: str, text: str) -> TurnEnded:
    heard = await scene.submit(scene.directory, session_id, text)
    with trio.fail_after(60):
        return await heard.to_the_end()


def result_of(events: list[DurableEvent]) -> tuple[str, dict[str, Any]]:
    """Status and content of the first result on record."""
    first = next(event for event in events if isinstance(event, CallFinished))
    content: dict[str, Any] = json.loads(first.result)
    return first.status.value, content


async def test_a_crash_of_the_dispatcher_interrupts_the_running_call_and_the_next_prompt_works(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    crashed = crash_once(monkeypatch, tool_dispatcher.CallBatch, "_prepare", on="poison")
    tools = Tools()
    scene = Scene(tools=tools.all(), model=Obedient())
    await scene.create("s1")
    await scene.create("s2")
    async with open_scene(scene, *SERVICES):
        running = await scene.submit(scene.directory, "s1", "change")
        await trio.testing.wait_all_tasks_blocked()
        assert tools.effects == ["begun"]
        assert not crashed
        other = await turn(scene, "s2", "poison")
        with trio.fail_after(60):
            ended = await running.to_the_end()
        assert crashed
        assert "tool dispatcher crashed" in caplog.text
        for each in (ended, other):
            assert (each.outcome, each.error_type, each.unreaped) == ("failed", "internal", ())
            assert "tool dispatcher failed" in each.message
        status, result = result_of(await scene.events("s1"))
        assert status == "interrupted"
        assert result["error_type"] == "interrupted"
        tools.hangs = False
        for session_id, text in (("s1", "change"), ("s2", "poison")):
            assert (await turn(scene, session_id, text)).outcome == "answered"
    assert tools.effects == ["begun", "begun", "changed"]  # nothing ran again by itself
    for session_id in ("s1", "s2"):
        await assert_sound(scene.store, session_id)
        calls = await scene.store.calls(session_id=session_id)
        assert sorted(c.status for c in calls) == [CallStatus.INTERRUPTED, CallStatus.SUCCESS]


async def test_a_crash_of_the_broker_denies_the_open_question_and_the_next_prompt_works(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request.session_id)
        if len(asked) == 1:
            await trio.sleep_forever()
        return True

    crashed = crash_once(monkeypatch, Decisions, "decide", on="poison")
    tools = Tools()
    scene = Scene(tools=tools.all(), model=Obedient(), approver=approver)
    await scene.create("s1")
    await scene.create("s2")
    async with open_scene(scene, *SERVICES):
        waiting = await scene.submit(scene.directory, "s1", "ask_first")
        await trio.testing.wait_all_tasks_blocked()
        assert asked == ["s1"]
        assert not crashed
        other = await turn(scene, "s2", "poison")
        with trio.fail_after(60):
            ended = await waiting.to_the_end()
        assert crashed
        assert "permission broker crashed" in caplog.text
        assert (ended.outcome, other.outcome) == ("answered", "answered")
        for session_id in ("s1", "s2"):
            status, result = result_of(await scene.events(session_id))
            assert (status, result["error_type"]) == ("denied", "permission_denied")
        assert tools.effects == []
        assert (await turn(scene, "s1", "ask_first")).outcome == "answered"
        assert (await turn(scene, "s2", "poison")).outcome == "answered"
    assert asked == ["s1", "s1"]
    assert tools.effects == ["acted"]
    for session_id in ("s1", "s2"):
        await assert_sound(scene.store, session_id)
        calls = await scene.store.calls(session_id=session_id)
        assert sorted(c.status for c in calls) == [CallStatus.DENIED, CallStatus.SUCCESS]
