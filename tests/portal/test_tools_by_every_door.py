"""Tools without a model, and tools that come and go: the same by every door of a program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from support.gateway.daemon_scene import open_client, open_daemon
from support.stage import make_workspace, open_in

Calls = list[tuple[str, dict[str, Any]]]
CALLS: Calls = [
    ("list_directory", {"path": ".", "includeHidden": True}),
    ("write_file", {"path": "new.txt", "content": "new"}),
    ("write_file", {"path": "old.txt", "content": "other"}),
    ("read_file", {"path": "missing.txt"}),
    ("read_file", {"path": 5}),
    ("nothing", {}),
]


async def through_trio(folder: Path, calls: Calls, answer: Any) -> list[callboard.CalledTool]:
    async with open_in(folder, [], on_approval=answer) as runtime:
        return await runtime.call_tools(calls)


async def through_websocket(folder: Path, calls: Calls, answer: Any) -> list[callboard.CalledTool]:
    async with (
        open_daemon(on_approval=answer, workspace=make_workspace(folder)) as daemon,
        open_client(daemon) as client,
    ):
        session = await daemon.runtime.create_session()
        return await client.call_tools(calls, session_id=session.session_id)


def through_asyncio(folder: Path, calls: Calls, answer: Any) -> list[callboard.CalledTool]:
    async def main() -> list[callboard.CalledTool]:
        async with callboard.aio.open_runtime(
            model="rehearsal", workspace=make_workspace(folder), environ={}, on_approval=answer
        ) as runtime:
            session = await runtime.create_session()
            return await runtime.call_tools(calls, session=session)

    return asyncio.run(main())


def through_threads(folder: Path, calls: Calls, answer: Any) -> list[callboard.CalledTool]:
    with callboard.start_in_thread(
        model="rehearsal", workspace=make_workspace(folder), environ={}, on_approval=answer
    ) as runtime:
        return runtime.call_tools(calls)


DOORS: dict[str, Callable[..., Any]] = {
    "trio": lambda *given: trio.run(through_trio, *given),
    "websocket": lambda *given: trio.run(through_websocket, *given),
    "asyncio": through_asyncio,
    "threads": through_threads,
}


@pytest.mark.parametrize("door", DOORS)
def test_each_door_gives_the_outcomes_in_the_order_of_the_calls(tmp_path: Path, door: str) -> None:
    workspace = make_workspace(tmp_path)
    (workspace / "old.txt").write_text("old")
    answer = "deny" if door in {"trio", "threads"} else "allow"
    found = DOORS[door](tmp_path, CALLS, answer)
    assert [each.name for each in found] == [name for name, _ in CALLS]
    over = "denied" if answer == "deny" else "success"
    assert [each.status for each in found] == ["success", "success", over, *["error"] * 3]
    listed, written, _, missing, wrong, unknown = found
    assert [entry["name"] for entry in listed.output["entries"]] == ["old.txt"]
    assert "includeHidden was taken as include_hidden" in listed.note
    assert [(made.kind, made.id) for made in written.artifacts] == [("file", "new.txt")]
    assert (workspace / "new.txt").read_text() == "new"
    assert (workspace / "old.txt").read_text() == ("old" if answer == "deny" else "other")
    errors = [each.error["error_type"] for each in (missing, wrong, unknown)]
    assert errors == ["file_not_found", "validation_error", "tool_not_found"]
    assert len({each.call_id for each in found}) == len(CALLS)


@callboard.tool(tier="read_only", effect="read")
def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


def test_asyncio_and_plain_programs_do_it_too(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        async with callboard.aio.open_runtime(
            model="rehearsal", workspace=tmp_path, environ={}
        ) as runtime:
            await runtime.register(double)
            found = [(await runtime.call_tool("double", {"number": 4})).output]
            await runtime.unregister("double")
            return [*found, runtime.definitions_for("openai")[0]["function"]["name"]]

    assert asyncio.run(main()) == [8, "get_current_time"]
    with callboard.start_in_thread(model="rehearsal", workspace=tmp_path, environ={}) as runtime:
        runtime.register(double)
        assert runtime.call_tool("double", {"number": 4}).output == 8
        runtime.unregister("double")
