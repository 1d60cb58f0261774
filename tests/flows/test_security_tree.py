"""Attacks by way of the session tree and of late turns, by the numbers of the security cases.

30: the narrower of agent, channel and parent wins, one by one and for trees that are drawn at random.
31: one gate for every way in, is test_one_gate; here are the ways that it does not walk, each behind a
policy that denies by then what was allowed before.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.config.policy.rules import PlacedRule, Rule
from callboard.config.settings import Limits, Settings
from callboard.providers.provider import Emit, ModelRequest
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Preset, SessionKind, Tier, Verdict
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import ApprovalAsked
from callboard.runtime.history import Input
from callboard.runtime.store.rows import SessionRow
from callboard.tools.tool import Tool
from support.cast import Call, Cast, below, open_cast, part, task
from support.flows.person import Desk
from support.stage import make_workspace, run_in
from support.waiting import go_on, killed_while_waiting, noted, open_on, questions

ACT: Call = ("act", {})


def ruled(*rules: Rule) -> Settings:
    placed = tuple(PlacedRule(rule, f"rules[{n}]") for n, rule in enumerate(rules, 1))
    return Settings(rules=placed, limits=Limits(model_retries=0))


def make_act(ran: list[str], tier: Any = "system") -> Tool:
    @callboard.tool(name="act", tier=tier)
    async def act(context: callboard.ToolContext) -> str:
        """Acts."""
        ran.append(context.session_kind)
        return "acted"

    return act


# ── 30: the narrower wins ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("channel", "kind", "ran"),
    [("desk", "main", []), ("mail", "main", ["main"]),
     ("desk", "branch", []), ("mail", "branch", ["branch"])],
)  # fmt: skip
async def test_case_30_a_channel_that_only_reads_narrows_an_agent_that_may_all(
    tmp_path: Path, channel: str, kind: str, ran: list[str]
) -> None:
    did: list[str] = []
    cast = Cast({"Go.": part(ACT if kind == "main" else task("Act.")), "Act.": part(ACT)})
    # Delegating is of tier workspace: the rule is about what stands above that, for the branch.
    rule = Rule(verdict=Verdict.DENY, min_tier=Tier.SYSTEM, channel=channel)
    async with open_cast(
        tmp_path, cast, channel=Desk(), tools=[make_act(did)], policy="auto", settings=ruled(rule)
    ) as runtime:
        await (await runtime.create_session()).run("Go.")
        [call] = await runtime.store.calls(name="act")
    assert did == ran
    assert ("permission_denied" in (call.result or "")) is (channel == "desk")


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("has_it", [True, False])
async def test_case_30_a_child_does_not_get_what_its_parent_lacks(
    tmp_path: Path, has_it: bool, wait: bool
) -> None:
    """Neither by the parent's word nor by its own, and whether anybody waits for it or not."""
    did: list[str] = []
    tools = ("delegate", "read_file", *(("act",) if has_it else ()))
    agent = callboard.Agent(name="few", tools=tools)
    cast = Cast(
        {
            "Go.": [
                reply(calls=[task("Act.", tools=["act"], wait=wait), task("Try.", wait=wait)]),
                *[reply("Done.")] * 3,
            ],
            "Act.": part(ACT),
            "Try.": part(ACT),
        }
    )
    async with open_cast(tmp_path, cast, agents=[agent], tools=[make_act(did)]) as runtime:
        session = await run_in(runtime, "Go.", agent="few")
        children = await below(runtime, session)
        while await runtime.store.open_turns():  # noqa: ASYNC110  those nobody waits for
            await trio.sleep(0.01)
        tried = await runtime.store.calls(name="act")
    assert len(children) == 1 + has_it
    assert did == ["branch"] * (2 * has_it)
    errors = [json.loads(call.result or "").get("error_type") for call in tried]
    assert errors == ([None] * 2 if has_it else ["tool_not_available"])


# ── 30: of any tree ──────────────────────────────────────────────────────────────────────────────

HANDLES = ("files_read", "files_write", "network", "channel", "sessions")
NEEDS: dict[str, tuple[str, Sequence[str]]] = {
    "look": ("read_only", ["files.read"]),
    "lie": ("read_only", ["files.write"]),
    "fetch": ("read_only", ["network"]),
    "put": ("workspace", ["files.write"]),
    "say": ("read_only", ["channel"]),
    "spawn": ("workspace", ["sessions"]),
    "call_out": ("system", ["network"]),
    "wipe": ("elevated", []),
}
"""Own tools, so that each handle is asked for by one that claims to be harmless and one that is not."""

BATCHES = 4 if os.environ.get("CALLBOARD_SOAK") else 2
SEEDS_EACH = 12
"""As many as show, in every batch, all that could be wrong."""
DEPTH = 4
"""Sessions in a chain: one main, and three below it."""


class Seen:
    """What each session got, by its kind of chain: the verdict about each tool, and the handles."""

    def __init__(self) -> None:
        self.handles: defaultdict[str, set[str]] = defaultdict(set)

    def tools(self) -> list[Tool]:
        return [self._probe(name, tier, needs) for name, (tier, needs) in NEEDS.items()]

    def _probe(self, name: str, tier: Any, needs: Sequence[Any]) -> Tool:
        async def probe(context: callboard.ToolContext) -> str:
            """Notes what it was given."""
            given = {each for each in HANDLES if getattr(context, each) is not None}
            self.handles[context.session_id] |= given
            return "ran"

        return callboard.tool(name=name, tier=tier, needs=needs)(probe)


def random_rule(rng: random.Random) -> Rule:
    return Rule(
        verdict=rng.choice([Verdict.ALLOW, Verdict.ASK, Verdict.DENY]),
        tool=rng.choice([*NEEDS, "*"] if rng.random() < 0.8 else ["*"]),
        min_tier=rng.choice([None, None, *Tier]),
        agent=rng.choice([(), ("random",), ("other",)]),
        channel=rng.choice([(), (), ("desk",), ("mail",)]),
        kind=rng.choice([(), *((kind,) for kind in SessionKind)]),
    )


class Prober:
    """A model that tries every tool in each session, and then gives a task to one below it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._answers: defaultdict[str, int] = defaultdict(int)

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        first = request.rounds[0].items[0]
        assert isinstance(first, Input)
        self._answers[first.text] += 1
        step = reply("Done.")
        if self._answers[first.text] == 1:
            step = reply(calls=[(name, {}) for name in NEEDS])
        elif self._answers[first.text] == 2 and len(first.text) < DEPTH:
            offered = [tool.name for tool in request.tools if tool.name in NEEDS]
            step = reply(calls=[self._task(first.text + "+", offered)])
        await callboard.ScriptedModel([step]).run(request, emit)

    def _task(self, text: str, offered: list[str]) -> Call:
        rng = self._rng
        kind = rng.choice(["branch", "branch", "branch", "worker"])
        if rng.random() < 0.4 or not offered:
            return task(text, kind)
        tools = [*rng.sample(offered, rng.randint(1, len(offered))), "delegate"]
        if rng.random() < 0.1:
            tools.append(rng.choice([*NEEDS]))  # it may not have that itself
        return task(text, kind, tools=tools if kind == "branch" else [])


class Got(msgspec.Struct, frozen=True):
    """What a session got: for each tool how strict the answer was, and its handles."""

    row: SessionRow
    ranks: dict[str, int]
    handles: frozenset[str]


async def got(runtime: callboard.Runtime, row: SessionRow, seen: Seen) -> Got:
    events = [stored.event for stored in await runtime.store.events(row.session_id)]
    asked = {event.call_id for event in events if isinstance(event, ApprovalAsked)}
    ranks: dict[str, int] = {}
    for call in await runtime.store.calls(session_id=row.session_id):
        if call.name in NEEDS:
            result = json.loads(call.result or "")
            ranks[call.name] = rank(result, is_asked=call.call_id in asked)
    return Got(row, ranks, frozenset(seen.handles[row.session_id]))


def rank(result: dict[str, Any], *, is_asked: bool) -> int:
    """0 for what ran unasked, 1 for a question, 2 for a denial, 3 for a tool that is not there."""
    match result.get("error_type"):
        case None:
            return int(is_asked)
        case "permission_denied":
            return 1 if is_asked or "nobody to ask" in result["message"] else 2
        case "tool_not_available":
            return 3
        case other:
            raise AssertionError(f"{other}: {result}")


async def grow(folder: Path, seed: int) -> list[tuple[Got, Got]]:
    """A tree by this seed: each child, with its parent."""
    rng = random.Random(seed)
    seen = Seen()
    own = [name for name in NEEDS if rng.random() < 0.8]
    agent = callboard.Agent(
        name="random", policy=rng.choice([*Preset]), tools=rng.choice([None, ("delegate", *own)])
    )
    rules = [random_rule(rng) for _ in range(rng.randint(0, 4))]
    # Without it there is no tree; it is narrowed by nothing else here.
    async with callboard.open_runtime(
        model=Prober(rng), workspace=folder, environ={}, strict=True, tools=seen.tools(),
        agents=[agent], settings=ruled(*rules),
        channel=Desk() if rng.random() < 0.8 else None,
    ) as runtime:  # fmt: skip
        session = await runtime.create_session(agent="random")
        await session.run("+")
        rows = await runtime.store.sessions(limit=100)
        all_of_them = {row.session_id: await got(runtime, row, seen) for row in rows}
    return [
        (child, all_of_them[child.row.parent_id])
        for child in all_of_them.values()
        if child.row.parent_id is not None
    ]


@pytest.mark.parametrize("batch", range(BATCHES))
async def test_case_30_in_no_tree_a_child_gets_more_than_its_parent(
    tmp_path: Path, batch: int
) -> None:
    same = narrower = deep = with_handles = 0
    for seed in range(batch * SEEDS_EACH, (batch + 1) * SEEDS_EACH):
        for child, parent in await grow(make_workspace(tmp_path), seed):
            assert child.ranks.keys() == parent.ranks.keys() == NEEDS.keys()
            for name in NEEDS:
                assert child.ranks[name] >= parent.ranks[name], (seed, name, child, parent)
                same += child.ranks[name] == parent.ranks[name] < 2
                narrower += child.ranks[name] > parent.ranks[name]
            assert child.handles <= parent.handles, (seed, child, parent)
            with_handles += bool(child.handles)
            deep += parent.row.parent_id is not None
    # All that could have been seen was: trees with grandchildren, and children that may much.
    assert min(same, narrower, deep, with_handles) > 3, (same, narrower, deep, with_handles)


# ── 31: what was allowed before passes the gate again ────────────────────────────────────────────

DENY_ALL = Rule(verdict=Verdict.DENY, tool=("act", "note"))


@pytest.mark.parametrize("denies", [False, True])
@pytest.mark.parametrize("answered", ["before the change", "after it"])
async def test_case_31_a_late_call_passes_the_gate_as_it_is_then(
    tmp_path: Path, answered: str, denies: bool
) -> None:
    did: list[str] = []
    options: dict[str, Any] = {
        "workspace": make_workspace(tmp_path), "data": tmp_path / "data", "environ": {},
        "strict": True, "tools": [make_act(did, "elevated")], "on_approval": "wait",
        "agents": [callboard.Agent(defer=True)],
    }  # fmt: skip
    model = callboard.ScriptedModel([reply(calls=[ACT]), reply("It waits.")])
    async with callboard.open_runtime(model=model, **options) as runtime:
        await (await runtime.create_session()).run("Act.")
        [question] = await runtime.approvals()
    if answered == "before the change":
        # By a command, say: nobody has the session open.
        async with callboard.open_runtime(model=model, wake=False, **options) as runtime:
            await runtime.answer(question.approval_id, "allow")
    assert did == []
    settings = ruled(DENY_ALL) if denies else Settings()
    model = callboard.ScriptedModel([reply("So be it.")] * 3)
    async with callboard.open_runtime(model=model, settings=settings, **options) as runtime:
        if answered == "after it":
            if denies:
                with pytest.raises(ConflictError, match="the policy denies the call by now"):
                    await runtime.answer(question.approval_id, "allow")
            await runtime.answer(question.approval_id, "deny" if denies else "allow")
        while not await is_over(runtime):  # noqa: ASYNC110  nobody follows the session
            await trio.sleep(0.01)
        [call] = await runtime.store.calls(name="act")
    assert did == ([] if denies else ["main"])
    assert call.status == ("denied" if denies else "success")


async def is_over(runtime: callboard.Runtime) -> bool:
    calls = await runtime.store.calls(name="act")
    return all(call.status.is_final for call in calls) and not await runtime.store.open_turns()


@pytest.mark.parametrize("denies", [False, True])
@pytest.mark.parametrize("by", ["resume", "prompt"])
async def test_case_31_what_goes_on_after_a_crash_passes_the_gate_as_it_is_then(
    tmp_path: Path, by: str, denies: bool
) -> None:
    session_id = killed_while_waiting(tmp_path)
    before = await questions(tmp_path)
    async with open_on(tmp_path, [], "wait") as runtime:
        for approval_id in before.values():
            await runtime.answer(approval_id, "allow")
    settings = ruled(DENY_ALL) if denies else Settings()
    async with open_on(tmp_path, [reply("Done.")] * 2, "allow", settings=settings) as runtime:
        if by == "prompt":
            await (await runtime.get_session(session_id)).run("Go on.")
        else:
            await go_on(runtime, session_id)
    assert noted(tmp_path) == ([] if denies else ["one", "two"])
