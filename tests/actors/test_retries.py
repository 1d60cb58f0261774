"""How often a tool may be called wrongly: counted by answers, for a turn, in the results alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.actors.calls.outcome import MAX_ATTEMPTS, CallOutcome, CallRetries, failed
from callboard.runtime.definitions import Agent, CallStatus, ErrorType, SessionKind, ToolFailure
from callboard.runtime.events import CallFinished, ToolGivenUp
from callboard.runtime.history import Call
from callboard.runtime.messages import Ancestor, CallPlace, RunCalls
from support.scene import Scene, open_scene

WRONG = ToolFailure(ErrorType.VALIDATION_ERROR, "act: `n`: expected `int`.", field="n")


def told(outcome: CallOutcome) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(outcome.content)
    return decoded


def test_the_third_answer_gives_the_tool_up() -> None:
    now_left: dict[str, int] = {}
    for left in (2, 1, 0):
        attempts = CallRetries("t", dict(now_left))
        for _ in range(5):  # calls of one answer
            attempts.check("act")
            outcome = attempts.judged("act", failed(WRONG), None)
            assert told(outcome)["attempts_left"] == outcome.attempts_left == left
            assert ("Do not call act again" in told(outcome)["message"]) == (left == 0)
        now_left["act"] = left
        given_up = attempts.take_given_up()
        assert [(event.name, event.attempts, event.message) for event in given_up] == (
            [] if left else [("act", MAX_ATTEMPTS, "act: `n`: expected `int`.")]
        )
        assert attempts.take_given_up() == ()
    attempts = CallRetries("t", now_left)
    attempts.check("other")
    with pytest.raises(ToolFailure, match="called wrongly in 3 answers") as caught:
        attempts.check("act")
    refused = attempts.judged("act", failed(caught.value), None)
    assert (told(refused)["attempts_left"], refused.attempts_left) == (0, None)
    assert attempts.take_given_up() == ()


@pytest.mark.parametrize(
    "outcome",
    [
        CallOutcome(
            status=CallStatus.SUCCESS, content='{"status":"success","result":"attempts_left"}'
        ),
        failed(ToolFailure(ErrorType.EXECUTION_ERROR, "no", attempts_left=0)),
        failed(ToolFailure(ErrorType.PERMISSION_DENIED, "no", attempts_left=0)),
        failed(ToolFailure(ErrorType.EXECUTION_ERROR, "attempts_left")),
    ],
)
def test_other_results_are_no_attempts(outcome: CallOutcome) -> None:
    assert CallRetries("t", {}).judged("act", outcome, None) == outcome


# ── the parent hears of it ───────────────────────────────────────────────────────────────────────


class Branch:
    """A session that another one delegated to, and a tool that it calls wrongly."""

    def __init__(self, parent: str | None = "parent") -> None:
        @callboard.tool(tier="read_only")
        async def count(to: int) -> int:
            """Counts."""
            raise AssertionError

        self.scene = Scene(tools=[count])
        above = [] if parent is None else [parent, "grandparent"]
        self.place = CallPlace(
            session_id="child",
            turn_id="t",
            agent=Agent(),
            session_kind=SessionKind.BRANCH,
            workspace="/work",
            lineage=tuple(
                Ancestor(session_id=name, agent=Agent(), kind=SessionKind.MAIN) for name in above
            ),
        )

    async def call_wrongly(self, left: int) -> None:
        """One answer with two wrong calls, when so many attempts are left."""
        outlet, gone = trio.open_memory_channel[None](0)
        lines: list[object] = []
        calls = tuple(Call(f"c{at}", "count", "{") for at in range(2))
        request = RunCalls(
            place=self.place, calls=calls, preamble=(), show=lines.append, outlet=outlet,
            scope=trio.CancelScope(), attempts_left={"count": left},
        )  # fmt: skip
        with gone:
            await self.scene.dispatcher.tell(request)
            async for _ in gone:
                pass
        assert lines == []

    async def given_up(self, session_id: str) -> list[ToolGivenUp]:
        events = await self.scene.events(session_id)
        return [event for event in events if isinstance(event, ToolGivenUp)]


@pytest.mark.parametrize("left", [2, 1])
async def test_the_parent_is_told_too(left: int) -> None:
    branch = Branch()
    for name in ("child", "parent", "grandparent"):
        await branch.scene.create(name)
    async with open_scene(branch.scene, "journal", "broker", "dispatcher"):
        await branch.call_wrongly(left)
    told = [await branch.given_up(name) for name in ("child", "parent", "grandparent")]
    if left == 2:
        assert told == [[], [], []]
        return
    [[event], [above], []] = told
    assert (event.name, event.turn_id, event.child_id) == ("count", "t", "")
    assert above == msgspec.structs.replace(event, child_id="child")


@pytest.mark.parametrize("parent", [None, "parent"])
async def test_without_a_parent_on_record_it_stands_in_the_session_alone(
    parent: str | None,
) -> None:
    branch = Branch(parent)
    await branch.scene.create("child")
    async with open_scene(branch.scene, "journal", "broker", "dispatcher"):
        await branch.call_wrongly(1)
    assert len(await branch.given_up("child")) == 1
    results = [e for e in await branch.scene.events("child") if isinstance(e, CallFinished)]
    assert [told_by(result)["attempts_left"] for result in results] == [0, 0]


def told_by(result: CallFinished) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(result.result)
    return decoded
