"""A turn waits for a person while its agent goes from the configuration: it can be cancelled, and what is below it does nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import TurnEnded
from support.cast import Cast, task
from support.cli.chat_scene import CTRL_C, leave
from support.cli.command import NOWHERE, Command
from support.cli.command import command as command
from support.portal.doors import options_of
from support.stage import check_records

LATE = '[agents.late]\nprompt = "Late."\n'
WRITE = ("write_file", {"path": "late.txt", "content": "late\n"})
PARTS = {
    "Write.": [reply(calls=[WRITE]), reply("Done.")],
    "Go.": [reply(calls=[("act", {})]), reply("Done.")],
    "Ask.": [reply(calls=[("ask_user", {"question": "Which door?"})]), reply("Done.")],
    "Give it away.": [reply(calls=[task("Go.")]), reply("Done.")],
}


def options_with(folder: Path) -> dict[str, Any]:
    @callboard.tool(approval="always")
    def act() -> str:
        """Acts, once it may."""
        (folder / "acted").touch()
        return "acted"

    return {**options_of(folder), "model": Cast(PARTS), "tools": [act]}


async def left_waiting(options: dict[str, Any], text: str, late: str = LATE, rest: str = "") -> str:
    """Leaves a turn of the agent that waits for a person, takes the agent away, and gives the session's id."""
    options["config"].write_text(late + rest)
    async with callboard.open_runtime(**options, on_approval="wait") as runtime:
        session = await runtime.create_session(agent="late")
        await session.submit(text)
        async with trio.open_nursery() as nursery, session.follow() as events:
            async for event in events:
                kind = type(getattr(event, "event", event)).__name__
                if kind in {"ApprovalAsked", "QuestionAsked", "ChildAsks"}:
                    break
            nursery.cancel_scope.cancel()
    options["config"].write_text(rest)
    return session.session_id


@pytest.mark.parametrize("text", ["Go.", "Ask.", "Give it away."])
async def test_it_is_cancelled_with_all_that_it_waits_for(tmp_path: Path, text: str) -> None:
    options = options_with(tmp_path)
    session_id = await left_waiting(options, text)
    async with callboard.open_runtime(**options) as runtime:
        session = await runtime.get_session(session_id)
        with pytest.raises(ConflictError, match="Its turn waits until then, or is"):
            await session.submit("And?")
        assert not await session.cancel("changed my mind", input_id="input_of_another")
        assert await session.cancel("changed my mind")
        assert not await session.cancel("once more")
        events = await runtime.store.events(session_id)
        [ended] = [each.event for each in events if isinstance(each.event, TurnEnded)]
        assert (ended.outcome, ended.message) == ("cancelled", "changed my mind")
        assert await runtime.approvals() == []
        assert await runtime.questions() == []
        assert {row.status for row in await runtime.store.calls()} == {"cancelled"}
        assert not await runtime.store.open_turns()
        await check_records(runtime)
        assert not (tmp_path / "acted").exists()
    options |= {"model": Cast(PARTS), "on_approval": "allow"}
    async with callboard.open_runtime(**options) as runtime:
        session = await runtime.get_session(session_id)
        await session.set_agent("general")
        assert await session.run(text) == "Done."  # nothing of it is left to go on with


async def test_a_session_below_it_does_nothing_until_its_parent_has_an_agent(
    tmp_path: Path,
) -> None:
    """Its own agent is one with more tools than the parent ever had."""
    options = options_with(tmp_path)
    parent_id = await left_waiting(options, "Give it away.", f'{LATE}tools = ["delegate", "act"]\n')
    async with callboard.open_runtime(**options, on_approval="allow") as runtime:
        [row] = await runtime.store.children(parent_id)
        child = await runtime.get_session(row.session_id)
        await child.set_agent("general")
        with pytest.raises(
            ConflictError, match=f"no more than {parent_id}, which .* had the agent"
        ):
            await child.submit("And?")
        assert not (tmp_path / "acted").exists()
        parent = await runtime.get_session(parent_id)
        await parent.set_agent("general")
        turn = await parent.resume()
        assert turn is not None
        async with turn:
            assert await turn.answer() == "Done."
        assert (tmp_path / "acted").exists()  # it was the parent's agent that it lacked
        await check_records(runtime)


async def test_a_person_cancels_it_in_a_chat(command: Command) -> None:
    config = command.home / "config" / "callboard.toml"
    options = {
        "model": Cast(PARTS),
        "config": config,
        "data": command.home / "data",
        "workspace": command.workspace,
        "environ": {},
        "policy": "strict",
    }
    session_id = await left_waiting(options, "Write.", LATE, NOWHERE)
    async with command.at_terminal("chat", "-c", "--model", "rehearsal") as terminal:
        await terminal.expect("may write_file run?")
        await terminal.type(CTRL_C)
        await terminal.expect("cancelled by a person")
        await leave(terminal)
    assert await command.outcomes() == ["cancelled"]
    assert session_id in terminal.seen
