"""A turn that goes on keeps the preset that it began under, and what a person answered counts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.actors.conversation.inputs import Given
from callboard.embedding.runtime import host_of
from callboard.providers.provider import LocalModel
from callboard.providers.testing.script import reply, stall
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.events import ApprovalAsked, TurnEnded, TurnStarted
from support.stage import open_in
from support.waiting import go_on, noted

CALL = reply(calls=[("write", {"text": "original"})])
DONE = [reply("Done.")]
EDITED = callboard.ApprovalAnswer(decision="allow", arguments='{"text": "edited"}')


def open_on(
    folder: Path, steps: LocalModel | Sequence[ScriptStep], asks: Any = "wait", **options: Any
) -> AbstractAsyncContextManager[callboard.Runtime]:
    @callboard.tool(tier="workspace")
    async def write(text: str) -> str:
        """Waits for a person under strict, and for nobody under balanced."""
        await trio.lowlevel.checkpoint()
        with (folder / "noted").open("a") as file:
            file.write(f"{text}\n")
        return text

    return open_in(folder, steps, "disk", tools=[write], on_approval=asks, **options)


def of_command(
    runtime: callboard.Runtime, session: callboard.Session, options: callboard.TurnOptions
) -> callboard.Session:
    """The session for the inputs of a command, which have these options here."""
    host = host_of(runtime)
    given = Given(options, host.channels.channel)
    return callboard.Session(host, session.session_id, host.given.begin(session.session_id, given))


async def suspended(folder: Path) -> tuple[str, str]:
    """A turn that asked under strict when its runtime closed: its session and its question."""
    async with open_on(folder, [CALL], policy="strict") as runtime:
        session, approval_id = await runtime.create_session(), ""
        turn = session.prompt("Go.")
        await turn.__aenter__()
        async for event in turn:
            if isinstance(event, ApprovalAsked):
                approval_id = event.approval_id
                break
    with pytest.raises(callboard.CallboardError, match="suspended"):
        await turn.answer()
    return session.session_id, approval_id


async def test_it_goes_on_under_the_preset_it_began_under(tmp_path: Path) -> None:
    session_id, approval_id = await suspended(tmp_path)
    asked: list[str] = []

    async def allow(request: callboard.ApprovalRequest) -> str:
        await trio.lowlevel.checkpoint()
        asked.append(request.approval_id)
        return "allow"

    # The agent's own preset is balanced, under which nobody would be asked.
    async with open_on(tmp_path, DONE, allow) as runtime:
        await go_on(runtime, session_id)
        began = [e.event for e in await runtime.store.events(session_id)]
        assert [e.policy for e in began if isinstance(e, TurnStarted)] == [callboard.Preset.STRICT]
    assert asked == [approval_id]
    assert noted(tmp_path) == ["original"]


async def test_changed_arguments_run_and_not_the_original(tmp_path: Path) -> None:
    session_id, approval_id = await suspended(tmp_path)
    async with open_on(tmp_path, DONE) as runtime:
        await runtime.answer(approval_id, EDITED)
    async with open_on(tmp_path, DONE) as runtime:
        ended = (await go_on(runtime, session_id))[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.outcome == "answered"
    assert noted(tmp_path) == ["edited"]


async def test_an_answer_under_another_policy_is_asked_for_again(tmp_path: Path) -> None:
    session_id, approval_id = await suspended(tmp_path)
    async with open_on(tmp_path, DONE) as runtime:
        await runtime.answer(approval_id, EDITED)
    asked: list[str] = []

    async def deny(request: callboard.ApprovalRequest) -> str:
        await trio.lowlevel.checkpoint()
        asked.append(request.approval_id)
        return "deny"

    # Somebody gives a preset that would let the original run unasked.
    async with open_on(tmp_path, DONE, deny, policy="auto") as runtime:
        await go_on(runtime, session_id)
    assert len(asked) == 1
    assert asked != [approval_id]
    assert noted(tmp_path) == []


async def test_a_given_preset_holds_for_what_nobody_answered(tmp_path: Path) -> None:
    session_id, _ = await suspended(tmp_path)
    async with open_on(tmp_path, DONE, policy="auto") as runtime:
        await go_on(runtime, session_id)
    assert noted(tmp_path) == ["original"]


async def test_a_turn_that_runs_again_keeps_its_preset_and_its_tools(tmp_path: Path) -> None:
    """A run under `--policy strict --tools …` that failed was run again by `--retry` under the laxer preset of its agent, with all tools."""
    asked: list[str] = []

    async def deny(request: callboard.ApprovalRequest) -> str:
        await trio.lowlevel.checkpoint()
        asked.append(request.tool)
        return "deny"

    async with open_on(tmp_path, []) as runtime:
        session = await runtime.create_session()
        given = callboard.TurnOptions(policy=callboard.Preset.STRICT, tools=("write",))
        with pytest.raises(callboard.CallboardError):
            await of_command(runtime, session, given).run("Go.")
    model = callboard.ScriptedModel([CALL, *DONE, CALL, *DONE])
    async with open_on(tmp_path, model, deny) as runtime:
        again = await runtime.get_session(session.session_id)
        async with again.retry() as turn:
            await turn.answer()
        assert [tool.name for tool in model.requests[0].tools] == ["write"]
        assert (asked, noted(tmp_path)) == (["write"], [])
        # Who runs it again may change that.
        given = callboard.TurnOptions(policy=callboard.Preset.BALANCED)
        async with of_command(runtime, again, given).regenerate() as turn:
            await turn.answer()
        assert (asked, noted(tmp_path)) == (["write"], ["original"])


async def test_what_it_delegates_keeps_the_preset_too(tmp_path: Path) -> None:
    """A run under `--policy strict` that went on later delegated to a session under the laxer preset of its agent."""
    session_id, _ = await suspended(tmp_path)
    asked: list[tuple[str, str]] = []

    async def allow_no_write(request: callboard.ApprovalRequest) -> str:
        await trio.lowlevel.checkpoint()
        asked.append((request.session_id, request.tool))
        return "deny" if request.tool == "write" else "allow"

    delegate = reply(calls=[("delegate", {"kind": "branch", "task": "Write."})])
    async with open_on(tmp_path, [delegate, CALL, *DONE, *DONE], allow_no_write) as runtime:
        await go_on(runtime, session_id)
        [child] = await runtime.store.children(session_id)
        began = [e.event for e in await runtime.store.events(child.session_id)]
        policies = [e.policy for e in began if isinstance(e, TurnStarted)]
    assert policies == [callboard.Preset.STRICT]
    assert (child.session_id, "write") in asked
    assert noted(tmp_path) == []


async def test_a_late_answer_goes_on_under_the_preset_of_its_turn(tmp_path: Path) -> None:
    """The turn of a deferred call's answer ran under the laxer preset of its agent, when another process had it."""
    async with open_on(tmp_path, [CALL, *DONE]) as runtime:
        session = await runtime.create_session()
        given = callboard.TurnOptions(policy=callboard.Preset.STRICT, unattended="defer")
        await of_command(runtime, session, given).run("Go.")
        [waiting] = await runtime.store.approvals(state="waiting")
    asked: list[str] = []

    async def deny_others(request: callboard.ApprovalRequest) -> str:
        if request.approval_id == waiting.approval_id:
            await trio.sleep_forever()  # answered by its id
        asked.append(request.tool)
        return "deny"

    async with open_on(tmp_path, [CALL, *DONE], deny_others) as runtime:
        await runtime.answer(waiting.approval_id, EDITED)
        await go_on(runtime, session.session_id)
        began = [e.event for e in await runtime.store.events(session.session_id)]
    assert [e.policy for e in began if isinstance(e, TurnStarted)] == [callboard.Preset.STRICT] * 2
    assert asked == ["write"]
    assert noted(tmp_path) == ["edited"]


async def test_a_late_answer_of_a_session_below_keeps_the_preset_in_another_process(
    tmp_path: Path,
) -> None:
    """What followed from a detached session ran under the laxer preset of the agent, when another process had it."""
    delegate = {"kind": "branch", "task": "Wait.", "wait": False}
    begin: list[ScriptStep] = [
        reply(calls=[("delegate", delegate)]),
        reply("Begun."),
        stall("I think."),
    ]

    async def allow_no_write(request: callboard.ApprovalRequest) -> str:
        await trio.lowlevel.checkpoint()
        return "deny" if request.tool == "write" else "allow"

    async with open_on(tmp_path, begin, allow_no_write) as runtime:
        session = await runtime.create_session()
        given = callboard.TurnOptions(policy=callboard.Preset.STRICT)
        await of_command(runtime, session, given).run("Go.")
    async with open_on(tmp_path, [CALL, *DONE], allow_no_write) as runtime:
        again = await runtime.get_session(session.session_id)
        async with again.follow() as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    break
        began = [e.event for e in await runtime.store.events(session.session_id)]
    assert [e.policy for e in began if isinstance(e, TurnStarted)] == [callboard.Preset.STRICT] * 2
    assert noted(tmp_path) == []
