"""A rule that denies comes while a call is on its way: whatever was answered, the call does not start.

Each way to a start stands beside the same way under a rule about something else, where the call runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.config.policy.rules import PlacedRule, Rule
from callboard.config.settings import Settings
from callboard.embedding.reconfiguring import reconfigure
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Verdict
from callboard.runtime.errors import ConflictError, ValidationError
from callboard.runtime.events import CallStarted
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.messages import AppendEvents
from callboard.tools.tool import Tool
from support.flows.deferring import LATER, Setting, ended, is_asked, pending
from support.stage import open_local_stage, play, read_result
from support.waiting import go_on, killed_while_waiting, noted, open_on, questions

OTHER = "get_current_time"
"""A tool that nobody calls here."""
ROLES = pytest.mark.parametrize("denied", [True, False])


async def forbid(runtime: callboard.Runtime, tool: str) -> None:
    """What a reload of the configuration does, with one rule that denies a tool."""
    rule = Rule(verdict=Verdict.DENY, tool=tool, reason="It is closed for today.")
    rules = (PlacedRule(rule, "rules[1]"),)
    await reconfigure(host_of(runtime), Settings(rules=rules))


async def is_answered(runtime: callboard.Runtime) -> None:
    """Returns once a call was allowed, which has not started."""
    with trio.fail_after(30):
        while not await runtime.approvals(state="allowed"):  # noqa: ASYNC110  commits tell nobody
            await trio.sleep(0.01)


class Bench:
    """Tools that say that they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.held = trio.Event()
        self.let_go = trio.Event()

    @property
    def tools(self) -> Sequence[Tool]:
        @callboard.tool(approval="always", resources=lambda _: ["bench"])
        async def act(name: str) -> str:
            """Acts."""
            self.ran.append(name)
            return name

        @callboard.tool(resources=lambda _: ["bench"])
        async def quick(name: str) -> str:
            """Acts, without a question."""
            self.ran.append(name)
            return name

        @callboard.tool(resources=lambda _: ["bench"])
        async def hold() -> str:
            """Holds what the others need."""
            self.held.set()
            await self.let_go.wait()
            return "held"

        return [act, quick, hold]


@ROLES
@pytest.mark.parametrize("way", ["as asked", "changed", "by a grant"])
async def test_an_answer_never_outweighs_the_policy_of_the_moment(
    tmp_path: Path, denied: bool, way: str
) -> None:
    bench = Bench()

    async def person(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        if way == "by a grant":
            remembered = json.loads(request.arguments)["name"] == "first"
            if not remembered:
                await forbid(runtime, "act" if denied else OTHER)
            scope = "session" if remembered else "call"
            return callboard.ApprovalAnswer(decision="allow", remember=scope)
        await forbid(runtime, "act" if denied else OTHER)
        arguments = '{"name": "changed"}' if way == "changed" else None
        return callboard.ApprovalAnswer(decision="allow", arguments=arguments)

    names = ["first", "second", "first"] if way == "by a grant" else ["one"]
    steps = [*(reply(calls=[("act", {"name": name})]) for name in names), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=bench.tools, on_approval=person) as (
        runtime,
        _,
    ):
        played = await play(await runtime.create_session(), "Go.")
    if not denied:
        assert bench.ran == (["changed"] if way == "changed" else names)
        return
    assert bench.ran == (["first"] if way == "by a grant" else [])
    last = read_result(played.results[-1])
    assert last["error_type"] == "permission_denied"
    assert "closed for today" in last["message"]


@ROLES
async def test_whoever_answers_by_id_is_told_that_the_policy_denies_it(
    tmp_path: Path, denied: bool
) -> None:
    bench = Bench()
    steps = [reply(calls=[("act", {"name": "one"})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=bench.tools, on_approval="wait") as (
        runtime,
        _,
    ):
        session = await runtime.create_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "Go.")
            [row] = await is_asked(runtime)
            await forbid(runtime, "act" if denied else OTHER)
            if denied:
                with pytest.raises(ConflictError, match=r"policy .* closed for today"):
                    await runtime.answer(row.approval_id, "allow")
                changed = callboard.ApprovalAnswer(decision="allow", arguments='{"name": "x"}')
                with pytest.raises(ValidationError, match="closed for today"):
                    await runtime.answer(row.approval_id, changed)
                await runtime.answer(
                    row.approval_id, "deny"
                )  # less than the policy is always right
            else:
                await runtime.answer(row.approval_id, "allow")
        [row] = await runtime.approvals(state=None)
    assert (bench.ran, row.state) == (([], "denied") if denied else (["one"], "used"))


@ROLES
@pytest.mark.parametrize("tool", ["act", "quick"])
async def test_a_call_that_waits_for_its_turn_is_judged_when_that_comes(
    tmp_path: Path, denied: bool, tool: str
) -> None:
    bench = Bench()
    steps = [reply(calls=[("hold", {}), (tool, {"name": "one"})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=bench.tools, on_approval="allow") as (
        runtime,
        _,
    ):
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn, trio.open_nursery() as nursery:

            async def close_it() -> None:
                await bench.held.wait()
                if tool == "act":
                    await is_answered(runtime)
                await trio.sleep(0.05)  # it is behind the one that holds
                await forbid(runtime, tool if denied else OTHER)
                bench.let_go.set()

            nursery.start_soon(close_it)
            events = [event async for event in turn]
        last = [e for e in events if isinstance(e, callboard.CallFinished)][-1]
        assert bench.ran == ([] if denied else ["one"])
        assert last.status == ("denied" if denied else "success")
        if tool == "act":
            [row] = await runtime.approvals(state=None)
            assert row.state == ("void" if denied else "used")


@ROLES
@pytest.mark.parametrize("tool", ["act", "quick"])
async def test_a_rule_that_comes_while_the_start_is_stored_still_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: bool, tool: str
) -> None:
    bench = Bench()
    steps = [reply(calls=[(tool, {"name": "one"})]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, tools=bench.tools, on_approval="allow") as (
        runtime,
        _,
    ):
        journal: Mailbox[Any] = host_of(runtime).journal
        usual = Mailbox.ask

        async def slow(asked: Mailbox[Any], message: Any) -> Any:
            stored = await usual(asked, message)
            is_append = asked is journal and isinstance(message, AppendEvents)
            events = message.events if is_append else ()
            if any(isinstance(event, CallStarted) for event in events):
                await forbid(runtime, tool if denied else OTHER)
            return stored

        monkeypatch.setattr(Mailbox, "ask", slow)
        played = await play(await runtime.create_session(), "Go.")
    assert bench.ran == ([] if denied else ["one"])
    assert played.statuses == [(tool, "denied" if denied else "success")]


@ROLES
@pytest.mark.parametrize("when", ["before the answer", "after it"])
async def test_a_deferred_call_is_judged_when_it_would_start(
    tmp_path: Path, denied: bool, when: str
) -> None:
    """Without a new rule: under another policy, deferred calls are asked about again."""
    setting = Setting(tmp_path)
    ask = reply(calls=[("note", {"text": "one"})])
    async with setting.open([ask, *LATER], "wait") as runtime:
        session_id = await pending(runtime)
        [row] = await runtime.approvals()
        if denied and when == "before the answer":
            await forbid(runtime, "note")
            with pytest.raises(ConflictError, match="closed for today"):
                await runtime.answer(row.approval_id, "allow")
            return
    async with setting.offline() as runtime:
        await runtime.answer(row.approval_id, "allow")
    rules = (PlacedRule(Rule(verdict=Verdict.DENY, tool="note"), "rules[1]"),)
    settings = Settings(rules=rules if denied else ())
    async with setting.open(LATER[1:], "allow", settings=settings) as runtime:
        await ended(runtime, session_id, 2)
    assert noted(tmp_path) == ([] if denied else ["one"])


@ROLES
async def test_a_resumed_call_is_judged_when_it_would_start(tmp_path: Path, denied: bool) -> None:
    session_id = killed_while_waiting(tmp_path)
    done = [reply("Done.")]
    async with open_on(tmp_path, done, "wait") as runtime:
        for approval_id in (await questions(tmp_path)).values():
            await runtime.answer(approval_id, "allow")
    async with open_on(tmp_path, done, "allow") as runtime:
        await forbid(runtime, "note" if denied else OTHER)
        await go_on(runtime, session_id)
    assert noted(tmp_path) == ([] if denied else ["one", "two"])
