"""A call that is deferred, and the runtimes that have to do with it.

As a program, `python deferring.py FOLDER`, it has a deferred call allowed that never ends, names its
session, and waits to be killed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import trio

import callboard
from callboard.actors.permissions.asking import Approver
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.events import DurableEvent, TurnEnded
from callboard.runtime.store.rows import ApprovalRow
from callboard.tools.tool import Tool
from support.flows.killed import killed_when_ready, say_ready
from support.stage import check_messages, check_record, messages_of, open_in
from support.waiting import tools_of

ASK = reply(calls=[("note", {"text": "one"}), ("plain", {})])
LATER = [reply("It is pending."), reply("Now it is done."), reply("And more.")]
AGENT = callboard.Agent(defer=True)


class Setting:
    """A folder, and the runtimes that are opened on it."""

    def __init__(self, folder: Path, store: str = "disk") -> None:
        self.folder = folder
        self.data = folder / "data" if store == "disk" else None
        self.model = callboard.ScriptedModel([])

    @property
    def tools(self) -> list[Tool]:
        @callboard.tool(approval="always")
        async def ask() -> str:
            """Asks first."""
            await trio.lowlevel.checkpoint()
            return "asked"

        @callboard.tool(approval="always", raise_tier=lambda arguments: far_tier(arguments.far))
        async def reach(far: int) -> int:
            """Reaches; far is dangerous."""
            await trio.lowlevel.checkpoint()
            return far

        return [*tools_of(self.folder), ask, reach]

    def offline(self) -> AbstractAsyncContextManager[callboard.Runtime]:
        """Only answers: no turn begins."""
        return self.open([], wake=False)

    def open(
        self,
        steps: Sequence[ScriptStep],
        approver: Approver | Literal["allow", "deny", "wait"] | None = None,
        **options: Any,
    ) -> AbstractAsyncContextManager[callboard.Runtime]:
        self.model = callboard.ScriptedModel(steps)
        options = {"agents": [AGENT], "tools": self.tools, **options}
        return open_in(self.folder, self.model, data=self.data, on_approval=approver, **options)

    def inputs(self, at: int) -> list[str]:
        """What the model was told by people, and in their place, with a request."""
        messages = messages_of(self.model.requests[at])
        check_messages(messages)
        return [message["content"] for message in messages if message["role"] == "user"]


def far_tier(far: int) -> callboard.Tier:
    return callboard.Tier.ELEVATED if far > 5 else callboard.Tier.SYSTEM


def changed(arguments: dict[str, Any]) -> callboard.ApprovalAnswer:
    return callboard.ApprovalAnswer(decision="allow", arguments=json.dumps(arguments))


async def record(runtime: callboard.Runtime, session_id: str) -> list[DurableEvent]:
    stored = await runtime.store.events(session_id)
    check_record(stored)
    return [each.event for each in stored]


async def ended(runtime: callboard.Runtime, session_id: str, count: int) -> list[DurableEvent]:
    """The record, once so many turns have ended."""
    with trio.fail_after(30):
        while True:
            events = [each.event for each in await runtime.store.events(session_id)]
            if sum(isinstance(event, TurnEnded) for event in events) >= count:
                return await record(runtime, session_id)
            await trio.sleep(0.01)


async def pending(runtime: callboard.Runtime) -> str:
    """Lets a turn end with a call that is pending; gives the session."""
    session = await runtime.create_session()
    with trio.fail_after(30):
        assert await session.run("Go.") == "It is pending."
    return session.session_id


async def is_asked(runtime: callboard.Runtime, count: int = 1) -> list[ApprovalRow]:
    """The questions that wait, once there are so many."""
    with trio.fail_after(30):
        while len(rows := await runtime.approvals()) < count:  # noqa: ASYNC110  commits tell nobody
            await trio.sleep(0.01)
    return rows


async def be_killed(folder: Path) -> None:
    """Allows a deferred call that never ends, names its session, and waits for the end."""
    began = trio.Event()

    @callboard.tool(approval="always")
    async def stay() -> None:
        """Begins, and never ends."""
        with (folder / "began").open("a") as file:
            file.write("began\n")
        began.set()
        await trio.sleep_forever()

    setting = Setting(folder)
    steps = [reply(calls=[("stay", {})]), *LATER]
    async with setting.open(steps, "wait", tools=[stay]) as runtime:
        session_id = await pending(runtime)
        [row] = await runtime.approvals()
        await runtime.answer(row.approval_id, "allow")
        await began.wait()
        say_ready(session_id)
        await trio.sleep_forever()


def killed_in_the_late_turn(folder: Path) -> str:
    return killed_when_ready(__file__, folder)


if __name__ == "__main__":
    trio.run(be_killed, Path(sys.argv[1]))
