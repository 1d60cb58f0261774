"""What a program passes that has another type than it says; it costs one call, never a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.definitions import CallStatus, ErrorType, ToolFailure, ToolResult
from callboard.runtime.errors import ValidationError
from callboard.runtime.events import CallFinished
from callboard.runtime.messages import ApprovalAnswer, ApprovalRequest
from support.stage import open_in

wrong: Any = None
wrong_path: Any = 3


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("it has no words either")


@callboard.tool(tier="read_only")
async def names_a_status() -> str:
    """Fails with a detail that is named as a field of our own."""
    raise ToolFailure(ErrorType.NETWORK_ERROR, "The server failed.", status=503)


@callboard.tool(tier="read_only")
async def is_mute() -> str:
    """Raises what can't be printed."""
    raise Mute


@callboard.tool(tier="read_only")
async def shows_nothing() -> ToolResult:
    """Has no display where one is wanted."""
    return ToolResult(output=1, display=wrong)


@callboard.tool(tier="read_only")
async def names_artifacts() -> ToolResult:
    """Lists names where artifacts are wanted."""
    artifacts: Any = ["a.txt"]
    return ToolResult(output=1, artifacts=artifacts)


@pytest.mark.parametrize(
    "odd",
    [names_a_status, is_mute, shows_nothing, names_artifacts],
    ids=lambda t: t.definition.name,
)
async def test_a_tool_that_answers_oddly_has_one_failed_call(odd: Any, tmp_path: Path) -> None:
    model = ScriptedModel([reply(calls=[(odd.definition.name, {})]), reply("Sorry.")])
    async with open_in(tmp_path, model, tools=[odd]) as runtime:
        session = await runtime.create_session()
        assert await session.run("Go.") == "Sorry."
        events = [stored.event for stored in await runtime.store.events(session.session_id)]
    (finished,) = (event for event in events if isinstance(event, CallFinished))
    assert finished.status is CallStatus.ERROR
    assert msgspec.json.decode(finished.result)["status"] == "error"


async def test_an_input_that_is_no_text_is_refused_alone(tmp_path: Path) -> None:
    async with open_in(tmp_path, [reply("Hello.")]) as runtime:
        session = await runtime.create_session()
        with pytest.raises(ValidationError):
            await session.run(wrong)
        assert await session.run("Hi.") == "Hello."


@pytest.mark.parametrize("odd", [{"arguments": {"x": 1}}, {"reason": None}], ids=str)
async def test_an_odd_approval_allows_nothing(odd: dict[str, Any], tmp_path: Path) -> None:
    ran: list[int] = []

    @callboard.tool(approval="always")
    async def act(x: int = 0) -> None:
        """Acts."""
        ran.append(x)

    async def approve(request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer(decision="allow", **odd)

    model = ScriptedModel([reply(calls=[("act", {})]), reply("Sorry.")])
    async with open_in(tmp_path, model, tools=[act], on_approval=approve) as runtime:
        session = await runtime.create_session()
        assert await session.run("Go.") == "Sorry."
        await runtime.store.events(session.session_id)
    assert not ran


async def test_a_workspace_that_is_none_is_named(tmp_path: Path) -> None:
    async with callboard.open_runtime(model="rehearsal", workspace=tmp_path) as runtime:
        with pytest.raises(ValidationError, match="it is the whole file system") as caught:
            await runtime.create_session(workspace="/")
        with pytest.raises(ValidationError, match="workspace is 3: pass the path of a folder"):
            await runtime.create_session(workspace=wrong_path)
    assert "--workspace" not in str(caught.value)
