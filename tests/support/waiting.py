"""A turn that waits for a person, in a process that is killed while it does.

As a program, `python waiting.py FOLDER SECONDS STEPS`, it prompts until two calls have questions, names
its session, and waits to be killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import trio

import callboard
from callboard.actors.permissions.asking import Approver
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.store.sqlite_store import open_reader
from callboard.tools.tool import Tool
from support.flows.killed import killed_when_ready, say_ready
from support.stage import open_in

ASKING = [reply(calls=[("note", {"text": "one"}), ("note", {"text": "two"}), ("plain", {})])]
STEPS = {"asking": ASKING, "wrong": [reply(calls=[("note", {"text": 3})])] * 2 + ASKING}
"""What the model says: `wrong` calls the tool wrongly in two answers before."""


def tools_of(folder: Path) -> list[Tool]:
    @callboard.tool(
        approval="always", preview=lambda a, _: f"notes {a.text}, said process {os.getpid()}"
    )
    async def note(text: str) -> str:
        """Notes a text, once it is allowed to."""
        await trio.lowlevel.checkpoint()
        with (folder / "noted").open("a") as file:
            file.write(f"{text}\n")
        return text

    @callboard.tool
    async def plain() -> str:
        """Asks nobody."""
        await trio.lowlevel.checkpoint()
        return "plain"

    return [note, plain]


def noted(folder: Path) -> list[str]:
    """What the tool noted, in all processes."""
    path = folder / "noted"
    return sorted(path.read_text().split()) if path.exists() else []


def open_on(
    folder: Path,
    steps: Sequence[ScriptStep],
    approver: Approver | Literal["allow", "wait"],
    **options: Any,
) -> AbstractAsyncContextManager[callboard.Runtime]:
    """A runtime on the folder's data."""
    options.setdefault("policy", "balanced")
    return open_in(folder, steps, "disk", tools=tools_of(folder), on_approval=approver, **options)


async def wait_for_the_kill(folder: Path, seconds: float, steps: str) -> None:
    settings = Settings(limits=Limits(approval_seconds=seconds))
    async with open_on(folder, STEPS[steps], "wait", settings=settings) as runtime:
        session = await runtime.create_session()

        async def be_ready() -> None:
            while not await is_waiting(runtime):  # noqa: ASYNC110  commits tell nobody
                await trio.sleep(0.01)
            say_ready(session.session_id)

        async with trio.open_nursery() as nursery, session.prompt("Go.") as turn:
            nursery.start_soon(be_ready)
            async for _ in turn:
                pass


async def is_waiting(runtime: callboard.Runtime) -> bool:
    """Whether two calls have questions, and the third has its result."""
    finished = {row.name for row in await runtime.store.calls() if row.status.is_final}
    return "plain" in finished and len(await runtime.approvals()) == 2


def killed_while_waiting(folder: Path, seconds: float = 600.0, steps: str = "asking") -> str:
    """Lets a process ask, kills it, and gives its session's id."""
    return killed_when_ready(__file__, folder, seconds, steps)


async def go_on(runtime: callboard.Runtime, session_id: str) -> list[callboard.TurnEvent]:
    """Resumes the turn that waited, and reads it to its end."""
    turn = await (await runtime.get_session(session_id)).resume()
    assert turn is not None
    async with turn:
        return [event async for event in turn]


async def questions(folder: Path) -> dict[str, str]:
    """By text the ids of the questions on record, in the state `waiting`."""
    reader = await open_reader(folder / "data")
    rows = await reader.approvals(state="waiting")
    await reader.aclose()
    return {row.arguments: row.approval_id for row in rows}


if __name__ == "__main__":
    trio.run(wait_for_the_kill, Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
