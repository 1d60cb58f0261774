"""Whatever a function of the program raises, it costs one call or one turn, never the runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import reply
from support.stage import open_in, open_local_stage, play, read_result


class Rogue(BaseException):
    """No `Exception`, and nobody's word for the end of anything."""


ENDS: dict[str, Callable[[], BaseException]] = {
    "an exception": lambda: ValueError("odd"),
    "sys.exit": lambda: SystemExit(3),
    "a generator's end": GeneratorExit,
    "an exception of its own": lambda: Rogue("odd"),
    "a group": lambda: BaseExceptionGroup("two", [Rogue("odd"), SystemExit(3)]),
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


@callboard.tool(tier="read_only")
def look() -> str:
    """Looks: a sibling that all of this leaves alone."""
    return "seen"


async def play_beside(tool: Any, folder: Path, **options: Any) -> dict[str, Any]:
    """The result of a call of this tool, whose sibling and next turn are as ever."""
    steps = [
        reply(calls=[(tool.definition.name, {}), ("look", {})]),
        reply("Done."),
        reply("Still here."),
    ]
    async with open_local_stage(folder, steps, tools=[tool, look], **options) as (runtime, _):
        played = await play(await runtime.create_session(), "Go.")
        assert played.text == "Done."
        assert await (await runtime.create_session()).run("And now?") == "Still here."
    results = {result.name: result for result in played.results}
    assert results["look"].status == "success"
    return read_result(results[tool.definition.name])


@each_end
@pytest.mark.parametrize("hook", ["approval", "resources", "raise_tier", "effect"])
async def test_a_function_that_judges_a_call(
    hook: str, end: Callable[[], BaseException], tmp_path: Path
) -> None:
    def judge(*given: Any) -> Any:
        raise end()

    options: dict[str, Any] = {hook: judge}

    @callboard.tool(tier="read_only", **options)
    async def act() -> None:
        """Acts."""
        pytest.fail("it must not run")

    failed = await play_beside(act, tmp_path)
    assert failed["error_type"] == "execution_error"
    assert type(end()).__name__ in failed["message"]


@each_end
async def test_an_approver(end: Callable[[], BaseException], tmp_path: Path) -> None:
    async def ask(request: callboard.ApprovalRequest) -> bool:
        raise end()

    @callboard.tool(approval="always")
    async def act() -> None:
        """Acts."""
        pytest.fail("nobody allowed it")

    denied = await play_beside(act, tmp_path, on_approval=ask)
    assert denied["error_type"] == "permission_denied"
    assert "the approval handler failed" in denied["message"]


@each_end
async def test_a_tool(end: Callable[[], BaseException], tmp_path: Path) -> None:
    @callboard.tool(tier="read_only")
    async def act() -> None:
        """Acts."""
        raise end()

    failed = await play_beside(act, tmp_path)
    assert failed["error_type"] == "execution_error"


@pytest.mark.parametrize(
    "end", [*ENDS.values(), KeyboardInterrupt], ids=[*ENDS, "a keyboard interrupt"]
)
async def test_a_tool_in_a_thread(end: Callable[[], BaseException], tmp_path: Path) -> None:
    @callboard.tool(tier="read_only")
    def act() -> None:
        """Acts."""
        raise end()

    failed = await play_beside(act, tmp_path)
    assert failed["error_type"] == "execution_error"
    assert type(end()).__name__ in failed["message"] or "sub-exceptions" in failed["message"]


@each_end
async def test_a_model_in_the_process(end: Callable[[], BaseException], tmp_path: Path) -> None:
    asked = 0

    class Model:
        async def run(self, request: ModelRequest, emit: Emit) -> None:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise end()
            await callboard.ScriptedModel([reply("Better.")]).run(request, emit)

    async with open_in(tmp_path, Model()) as runtime:
        session = await runtime.create_session()
        with pytest.raises(callboard.CallboardError, match="The model crashed"):
            await session.run("Go.")
        assert await session.run("And now?") == "Better."


async def test_ctrl_c_while_a_tool_runs_still_ends_the_program(tmp_path: Path) -> None:
    """The control: what a person raises through the tool is no crash of it."""

    @callboard.tool(tier="read_only")
    async def act() -> None:
        """Is what Trio's main thread does when Ctrl-C comes."""
        raise KeyboardInterrupt

    steps = [reply(calls=[("act", {})])]
    with pytest.RaisesGroup(KeyboardInterrupt, allow_unwrapped=True, flatten_subgroups=True):
        async with open_local_stage(tmp_path, steps, tools=[act]) as (runtime, _):
            await play(await runtime.create_session(), "Go.")
