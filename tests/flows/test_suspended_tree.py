"""A process ends while a session two levels down asks a person: all three wait, and go on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.providers.testing.script import reply, stall
from callboard.runtime.errors import ConflictError, ValidationError
from callboard.runtime.events import (
    ApprovalAsked,
    CallFinished,
    CallStarted,
    SessionCreated,
    TurnEnded,
    TurnSuspended,
)
from callboard.runtime.messages import StopSessions
from callboard.tools.tool import Tool
from support.cast import Cast, open_cast, part, task
from support.flows.killed import killed_when_ready, say_ready
from support.stage import check_record, read_result
from support.waiting import go_on

PARTS = {
    "Go.": [reply(calls=[task("Middle."), ("plain", {})])],
    "Middle.": [reply(calls=[task("Leaf.", tools=["act", "plain"])])],
    "Leaf.": [reply(calls=[("act", {}), ("plain", {})])],
}
REST = {
    "Go.": [reply("The top is done.")],
    "Middle.": [reply("The middle is done.")],
    "Leaf.": [reply("The leaf is done.")],
}


def tools_of(folder: Path) -> list[Tool]:
    @callboard.tool(approval="always")
    async def act() -> str:
        """Acts, once it may."""
        with (folder / "acted").open("a") as file:
            file.write("acted\n")
        return "acted"

    @callboard.tool
    async def plain() -> str:
        """Asks nobody."""
        return "plain"

    return [act, plain]


def acted(folder: Path) -> int:
    path = folder / "acted"
    return len(path.read_text().splitlines()) if path.exists() else 0


def open_tree(folder: Path, parts: dict[str, Any], **options: Any) -> Any:
    return open_cast(folder, Cast(parts), data=True, tools=tools_of(folder), **options)


async def until_asked(runtime: callboard.Runtime) -> None:
    while True:
        plain = [call for call in await runtime.store.calls(name="plain") if call.result]
        if len(plain) == 2 and await runtime.approvals():
            return
        await trio.sleep(0.01)


async def ask_until_the_end(folder: Path) -> None:
    async with open_tree(folder, PARTS, on_approval="wait") as runtime:
        session = await runtime.create_session()

        async def be_ready() -> None:
            await until_asked(runtime)
            say_ready(session.session_id)

        async with trio.open_nursery() as nursery, session.prompt("Go.") as turn:
            nursery.start_soon(be_ready)
            async for _ in turn:
                pass


def killed(folder: Path) -> str:
    """Lets a process ask, kills it, and gives the main session's id."""
    return killed_when_ready(__file__, folder)


async def closed_in_order(folder: Path) -> str:
    """The same with a runtime that closes by itself."""
    async with open_tree(folder, PARTS, on_approval="wait") as runtime:
        session = await runtime.create_session()
        async with trio.open_nursery() as nursery:

            async def prompt() -> None:
                async with session.prompt("Go.") as turn:
                    with pytest.raises(ConflictError, match="suspended"):
                        async for _ in turn:
                            pass

            nursery.start_soon(prompt)
            await until_asked(runtime)
            await runtime._host.directory.ask(StopSessions(reason="the test closes"))
    return str(session.session_id)


async def check(runtime: callboard.Runtime) -> None:
    """No session was started twice, no call began twice, and nothing is left open."""
    rows = await runtime.sessions()
    assert len(rows) == 3
    for row in rows:
        stored = await runtime.store.events(row.session_id)
        check_record(stored)
        events = [each.event for each in stored]
        assert [type(event) for event in events].count(SessionCreated) == 1
        assert [type(event) for event in events].count(TurnSuspended) == 1
        started = [event.call_id for event in events if isinstance(event, CallStarted)]
        assert len(started) == len(set(started))
    assert await runtime.store.open_turns() == []


@pytest.mark.parametrize("end", ["killed", "closed"])
@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_it_asks_again_and_answers_go_up(tmp_path: Path, end: str, answer: str) -> None:
    session_id = killed(tmp_path) if end == "killed" else await closed_in_order(tmp_path)
    asked: list[callboard.ApprovalRequest] = []

    async def person(request: callboard.ApprovalRequest) -> str:
        asked.append(request)
        return answer

    async with open_tree(tmp_path, REST, on_approval=person) as runtime:
        assert {turn.is_suspended for turn in await runtime.store.open_turns()} == {True}
        [waiting] = await runtime.approvals()
        events = await go_on(runtime, session_id)
        assert [request.approval_id for request in asked] == [waiting.approval_id]
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].outcome == "answered"
        [finished] = [event for event in events if isinstance(event, CallFinished)]
        assert read_result(finished)["result"]["answer"] == "The middle is done."
        rows = await runtime.store.events(waiting.session_id)
        assert sum(isinstance(each.event, ApprovalAsked) for each in rows) == 1
        await check(runtime)
    assert acted(tmp_path) == (answer == "allow")


async def test_an_answer_by_id_meanwhile_counts(tmp_path: Path) -> None:
    session_id = killed(tmp_path)
    async with open_tree(tmp_path, REST, on_approval="wait") as runtime:
        [waiting] = await runtime.approvals()
        await runtime.answer(waiting.approval_id, "allow")
        assert acted(tmp_path) == 0
        await go_on(runtime, session_id)
        await check(runtime)
    assert acted(tmp_path) == 1


async def test_an_answer_to_what_is_not_loaded_sees_the_tools_left(tmp_path: Path) -> None:
    session_id = killed(tmp_path)
    edited = callboard.ApprovalAnswer(decision="allow", arguments="{}")
    poorer = callboard.Agent(tools=("delegate", "plain"))  # what the main one has is all they have
    async with open_tree(tmp_path, REST, on_approval="wait", agents=[poorer]) as runtime:
        [waiting] = await runtime.approvals()
        with pytest.raises(ValidationError, match="act is not available"):
            await runtime.answer(waiting.approval_id, edited)
    async with open_tree(tmp_path, REST, on_approval="wait") as runtime:
        await runtime.answer(waiting.approval_id, edited)
        await go_on(runtime, session_id)
    assert acted(tmp_path) == 1


async def test_a_child_that_went_on_alone_is_not_run_again(tmp_path: Path) -> None:
    session_id = killed(tmp_path)
    async with open_tree(tmp_path, REST, on_approval="allow") as runtime:
        [middle] = await runtime.store.children(session_id)
        await go_on(runtime, middle.session_id)
        assert acted(tmp_path) == 1
        events = await go_on(runtime, session_id)
        [finished] = [event for event in events if isinstance(event, CallFinished)]
        assert read_result(finished)["result"]["answer"] == "The middle is done."
        await check(runtime)
    assert acted(tmp_path) == 1


async def test_leaving_the_resumed_turn_cancels_the_whole_tree(tmp_path: Path) -> None:
    session_id = killed(tmp_path)
    async with open_tree(tmp_path, REST, on_approval="wait") as runtime:
        turn = await (await runtime.get_session(session_id)).resume()
        assert turn is not None
        async with turn:
            await trio.testing.wait_all_tasks_blocked(0.05)
        assert await runtime.store.open_turns() == []
        assert await runtime.approvals() == []
        await check(runtime)
    assert acted(tmp_path) == 0


async def test_what_was_merely_interrupted_ends_and_does_not_go_on(tmp_path: Path) -> None:
    """The positive control: a child that waits for nobody holds no parent open."""
    parts = {"Go.": [reply(calls=[task("Hang.")])], "Hang.": [stall("I ")]}
    data = tmp_path / "data"
    async with open_tree(tmp_path, parts) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallProgress):
                    (tmp_path / "copy").mkdir()
                    for path in data.iterdir():
                        (tmp_path / "copy" / path.name).write_bytes(path.read_bytes())
                    break
    async with callboard.open_runtime(
        model=Cast({"Go.": part()}), data=tmp_path / "copy", workspace=tmp_path / "work", environ={}
    ) as runtime:
        assert await runtime.store.open_turns() == []
        [call] = await runtime.store.calls(name="delegate")
        assert call.status == "interrupted"
        [child] = await runtime.store.children(session.session_id)
        [ended] = [
            each.event
            for each in await runtime.store.events(child.session_id)
            if isinstance(each.event, TurnEnded)
        ]
        assert ended.outcome == "failed"


if __name__ == "__main__":
    trio.run(ask_until_the_end, Path(sys.argv[1]))
