"""Answers, their time, cancels, crashes and changes of the tool, in any order: nothing runs twice,
and nothing runs that was not allowed.

Each seed is one order of events, on the mock clock and with a wall clock of its own: 20,000 of them
with `CALLBOARD_SOAK=1`, else as many as show everything that the judge looks for. The store
outlives what crashes; whatever happened is then judged by its record.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.actors.permissions import edited_arguments
from callboard.actors.permissions import record as approval_record
from callboard.actors.permissions import resolution as settlement
from callboard.actors.session import recovery as left_open
from callboard.actors.turn import turn as turn_module
from callboard.config.settings import Limits
from callboard.providers.testing.script import reply
from callboard.runtime.approval import ApprovalDecision
from callboard.runtime.definitions import Agent, Resource
from callboard.runtime.errors import CallboardError
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    GrantGiven,
    InputAccepted,
    Stored,
)
from callboard.runtime.messages import AnswerApproval, ApprovalAnswer, ApprovalRequest, CancelTurn
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.recovery import closing_events
from callboard.tools.tool import ToolContext
from support.scene import FakeStore, Scene, open_scene

SEEDS = 20_000 if os.environ.get("CALLBOARD_SOAK") else 96
BATCHES = 2
"""Tests that share the seeds, so that a failure names its part."""

SERVICES = ("journal", "broker", "dispatcher", "directory")
PATIENCE_SECONDS = 10.0
HOUR_SECONDS = 3600.0
OTHER_NUMBER = 99
"""What a tool that was tampered with makes of any arguments."""

DECISIONS = {"allow", "deny", "expired", "revised", "withdrawn"}
TOLD = {"allow", "deny", "expired"}
"""What of them becomes an input, when the question was deferred."""


class World:
    """What outlives a crash: the store, the clock on the wall, what the tools did.

    Attributes:
        ran: By call, the arguments that ran.
        defers: Whether no turn waits for an answer.
        wall_offset: How far the wall clock is ahead of where it should be, in seconds.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.defers = seed // BATCHES % 3 == 0
        self.wall_offset = 0.0
        self.store = FakeStore()
        self.store.inner = open_memory_store(now_ms=self.now_ms)
        self.ran: list[tuple[str, int]] = []

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int((trio.current_time() + self.wall_offset) * 1000)

    def scene(self, model: callboard.ScriptedModel) -> Scene:
        world = self

        @callboard.tool(tier="elevated", resources=lambda _: [Resource("key")])
        async def erase(context: ToolContext, number: int) -> int:
            """Erases."""
            world.ran.append((context.call_id, number))
            await trio.sleep(world.rng.random())
            return number

        @callboard.tool
        async def busy() -> None:
            """Has nothing to do with it."""
            await trio.sleep(world.rng.random() * 4)

        self.tool = erase
        return Scene(
            tools=[erase, busy], model=model, approver=self.approver, store=self.store,
            agents=[Agent(defer=world.defers)],
            limits=Limits(
                approval_seconds=PATIENCE_SECONDS, deferred_seconds=PATIENCE_SECONDS,
                model_retries=0,
            ),
        )  # fmt: skip

    async def approver(self, request: ApprovalRequest) -> ApprovalAnswer | bool:
        await trio.sleep(self.rng.random() * 14)
        return self.answer()

    def answer(self) -> ApprovalAnswer:
        decision: ApprovalDecision = self.rng.choice(["allow", "allow", "deny"])
        changed = json.dumps({"number": 50}) if self.rng.random() < 0.2 else None
        remember = self.rng.choice(["session", "turn"]) if self.rng.random() < 0.15 else None
        return ApprovalAnswer(decision=decision, arguments=changed, remember=remember)


async def play(world: World) -> None:
    """One order of events, up to a quiet end."""
    rng = world.rng
    numbers = [rng.choice([1, 1, 2]) for _ in range(rng.choice([1, 2, 3]))]
    calls: list[tuple[str, Any]] = [("erase", {"number": number}) for number in numbers]
    calls += [("busy", {})] if rng.random() < 0.3 else []
    again = reply(calls=[("erase", {"number": 1})])  # a grant may hold by then
    first = [reply(calls=calls), again, *[reply("Done.")] * 9]
    await world.scene(callboard.ScriptedModel([])).create()
    crashes = rng.choice([0, 0, 1, 2])
    for life in range(crashes + 1):
        model = callboard.ScriptedModel(first if life == 0 else [again, *[reply("Done.")] * 9])
        with trio.move_on_after(rng.random() * 12 if life < crashes else HOUR_SECONDS):
            await live(world, world.scene(model), is_first=life == 0)
        await answer_offline(world)


async def live(world: World, scene: Scene, *, is_first: bool) -> None:
    """One process, until it is cut off or the turn is over."""
    async with open_scene(scene, *SERVICES) as nursery:
        if not is_first:
            await recover(scene, world)
        heard = await scene.submit(scene.directory, "s1", "Go.")
        for _ in range(world.rng.choice([0, 1, 3])):
            nursery.start_soon(answer_some, world, scene)
        if world.rng.random() < 0.2:
            nursery.start_soon(cancel_some, world, scene)
        if world.rng.random() < 0.3:
            nursery.start_soon(disturb, world)
        with suppress(CallboardError):  # told to whoever prompts next
            await heard.to_the_end()
        # What was deferred is answered, or expires, and has its turn.
        while await is_left(world):  # noqa: ASYNC110  nothing tells
            await trio.sleep(1)


async def is_left(world: World) -> bool:
    """Whether an input waits for its turn, or a question for its answer."""
    store = world.store.inner
    return bool(await store.open_inputs("s1") or await store.approvals(state="waiting"))


async def recover(scene: Scene, world: World) -> None:
    """As the host does before anything new begins."""
    for turn in await world.store.inner.open_turns():
        if events := closing_events(turn, world.now_ms()):
            await scene.append(turn.session_id, *events)


async def answer_some(world: World, scene: Scene) -> None:
    """A client that answers what waits, again and again, whoever else does."""
    for _ in range(4):
        await trio.sleep(world.rng.random() * 6)
        for row in await world.store.inner.approvals():
            with suppress(CallboardError):
                await scene.broker.ask(
                    AnswerApproval(approval_id=row.approval_id, answer=world.answer())
                )


async def answer_offline(world: World) -> None:
    """Another process opens the store, answers what waits, and goes away."""
    if world.rng.random() < 0.5:
        return
    scene = world.scene(callboard.ScriptedModel([]))
    async with open_scene(scene, "journal", "broker"):
        await recover(scene, world)
        for row in await world.store.inner.approvals(state="waiting"):
            with suppress(CallboardError):
                await scene.broker.ask(
                    AnswerApproval(approval_id=row.approval_id, answer=world.answer())
                )


async def cancel_some(world: World, scene: Scene) -> None:
    await trio.sleep(world.rng.random() * 12)
    with suppress(CallboardError):
        await scene.directory.ask(CancelTurn(session_id="s1", reason="enough"))


async def disturb(world: World) -> None:
    """The wall clock jumps (the machine slept), or the tool reads other arguments than before."""
    await trio.sleep(world.rng.random() * 8)
    if world.rng.random() < 0.5:
        world.wall_offset += HOUR_SECONDS
        return
    usual = world.tool.decode
    other = json.dumps({"number": OTHER_NUMBER})
    world.tool.decode = lambda arguments: usual(other)  # type: ignore[method-assign]


def judge(world: World, record: list[Stored]) -> Counter[str]:  # ruff: ignore[complex-structure]  one case a kind
    """What must hold of any record; gives what happened in it."""
    asked = {s.event.approval_id: s.event for s in record if isinstance(s.event, ApprovalAsked)}
    allowed: dict[str, ApprovalAnswered] = {}
    decided: set[str] = set()
    used: set[str] = set()
    told: set[str] = set()
    finished: set[str] = set()
    answers: dict[str, str] = {}
    proposed: dict[str, CallProposed] = {}
    granted: set[int] = set()
    started: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for stored in record:
        event = stored.event
        if isinstance(event, ApprovalAnswered):
            seen[event.decision] += 1
            if event.decision in DECISIONS:
                assert event.approval_id not in decided, "answered twice"
                decided.add(event.approval_id)
                answers[event.approval_id] = event.decision
            if event.decision == "allow":
                assert stored.at_ms < asked[event.approval_id].expires_at_ms, "allowed too late"
                allowed[event.approval_id] = event
            elif event.decision == "void":
                del allowed[event.approval_id]
        if isinstance(event, CallProposed):
            proposed[event.call_id] = event
        if isinstance(event, GrantGiven) and event.verdict == "allow":
            granted.add(json.loads(event.binding.arguments)["number"])
        if isinstance(event, CallStarted) and not event.approval_id:
            call = proposed[event.call_id]
            if call.name == "erase":
                number = json.loads(call.arguments)["number"]
                assert number in granted, "it was not allowed"
                started[event.call_id] = number
                seen["by a grant"] += 1
        if isinstance(event, CallStarted) and event.approval_id:
            question, answer = asked[event.approval_id], allowed[event.approval_id]
            assert event.approval_id not in used, "an answer was used twice"
            used.add(event.approval_id)
            assert event.call_id not in started, "a call started twice"
            assert question.call_id == event.call_id
            assert event.digest == (answer.digest or question.digest), "other bytes ran"
            started[event.call_id] = json.loads(answer.arguments or question.arguments)["number"]
            seen["started"] += 1
        if isinstance(event, CallDeferred):
            seen["deferred"] += 1
        if isinstance(event, InputAccepted) and event.approval_id:
            assert event.approval_id in decided, "a late answer was told ahead of its record"
            assert event.approval_id not in told, "a late answer was told twice"
            told.add(event.approval_id)
        if isinstance(event, CallFinished):
            assert event.call_id not in finished, "a call has two results"
            finished.add(event.call_id)
            seen[event.status] += 1
    assert finished == proposed.keys(), "a call has no result"
    late = {a for a, e in asked.items() if e.is_deferred and answers.get(a) in TOLD}
    assert told == late, "a late answer was not told"
    assert len({call_id for call_id, _ in world.ran}) == len(world.ran), "a call ran twice"
    for call_id, number in world.ran:
        assert started[call_id] == number, "other arguments ran"
    return seen


@pytest.mark.parametrize("part", range(BATCHES))
def test_nothing_runs_twice_or_without_an_answer(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()
    for seed in range(part, SEEDS, BATCHES):
        seen += run_seed(seed, monkeypatch)
    # Each of these is somewhere in any part, or the orders are not what they should be.
    for what in (
        "allow",
        "deny",
        "expired",
        "started",
        "success",
        "denied",
        "cancelled",
        "by a grant",
        "deferred",
    ):
        assert seen[what] > 0, what


def run_seed(seed: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    async def whole() -> Counter[str]:
        world = World(seed)
        for module in (settlement, edited_arguments, approval_record, left_open, turn_module):
            monkeypatch.setattr(module, "now_ms", world.now_ms)
        with trio.fail_after(20 * HOUR_SECONDS):
            await play(world)
        return judge(world, await world.store.inner.events("s1"))

    trio._core._run._r.seed(seed)
    try:
        return trio.run(whole, clock=trio.testing.MockClock(autojump_threshold=0))
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
