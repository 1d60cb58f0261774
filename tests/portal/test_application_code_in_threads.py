"""Whatever a function raises that the portal calls, it costs one call, never the runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import callboard
from callboard.portals import aio, plain
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import CallStatus
from callboard.tools.tool import Tool
from support.portal.programs import on_asyncio


class Rogue(BaseException):
    """No `Exception`."""


ENDS: dict[str, Callable[[], BaseException]] = {
    "an exception": lambda: ValueError("odd"),
    "sys.exit": lambda: SystemExit(3),
    "an asyncio cancel": asyncio.CancelledError,
    "a keyboard interrupt": KeyboardInterrupt,
    "an exception of its own": lambda: Rogue("odd"),
}
STEPS = [reply(calls=[("act", {})]), reply("Done."), reply("Still here.")]
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


def start(folder: Path, tool: Tool, on_approval: object) -> plain.Runtime:
    return callboard.start_in_thread(
        model=callboard.ScriptedModel(STEPS), workspace=folder, tools=[tool], environ={},
        on_approval=on_approval, strict=True,  # type: ignore[arg-type]
    )  # fmt: skip


@callboard.tool(approval="always", name="act")
def never() -> None:
    """Acts."""
    pytest.fail("nobody allowed it")


def play(runtime: plain.Runtime) -> tuple[CallStatus | None, str]:
    """How the call of the first turn ended; the runtime is as it was behind it."""
    session = runtime.create_session()
    assert session.run("Go.") == "Done."
    assert runtime.create_session().run("And now?") == "Still here."
    [call] = runtime.store.calls(session_id=session.session_id)
    return call.status, str(call.result)


@each_end
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_an_approver(end: Callable[[], BaseException], is_async: bool, tmp_path: Path) -> None:
    def ask(request: callboard.ApprovalRequest) -> bool:
        raise end()

    async def ask_there(request: callboard.ApprovalRequest) -> bool:
        raise end()

    with start(tmp_path, never, ask_there if is_async else ask) as runtime:
        status, result = play(runtime)
    assert status is CallStatus.DENIED
    assert "the approval handler failed" in result


@each_end
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_tool(end: Callable[[], BaseException], is_async: bool, tmp_path: Path) -> None:
    def act() -> None:
        """Acts."""
        raise end()

    async def act_there() -> None:
        """Acts."""
        raise end()

    tool = callboard.tool(name="act")(act_there if is_async else act)
    with start(tmp_path, tool, "allow") as runtime:
        status, result = play(runtime)
    assert status is CallStatus.ERROR
    assert "execution_error" in result


@pytest.mark.parametrize(
    "end",
    [ENDS["an exception"], ENDS["an asyncio cancel"], ENDS["an exception of its own"]],
    ids=["an exception", "an asyncio cancel", "an exception of its own"],
)
@on_asyncio
async def test_an_approver_on_an_event_loop(
    end: Callable[[], BaseException], tmp_path: Path
) -> None:
    """`sys.exit` is not among them: in asyncio it ends the loop, whoever's task says it."""

    async def ask(request: callboard.ApprovalRequest) -> bool:
        raise end()

    async with aio.open_runtime(
        model=callboard.ScriptedModel(STEPS), workspace=tmp_path, tools=[never], environ={},
        on_approval=ask, strict=True,
    ) as runtime:  # fmt: skip
        session = await runtime.create_session()
        assert await session.run("Go.") == "Done."
        [call] = await runtime.store.calls(session_id=session.session_id)
        assert call.status is CallStatus.DENIED
        assert await session.run("And now?") == "Still here."
