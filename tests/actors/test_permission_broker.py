from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

import callboard
from callboard.runtime.approval import ApprovalDecision
from callboard.runtime.definitions import (
    Agent,
    CallStatus,
    Preset,
    SessionKind,
    Tier,
    ToolDefinition,
)
from callboard.runtime.errors import ActorStopped, ConflictError, NotFoundError, StorageError
from callboard.runtime.events import ApprovalAnswered, ApprovalAsked, CallFinished, DurableEvent
from callboard.runtime.history import Call
from callboard.runtime.messages import (
    AnswerApproval,
    ApprovalAnswer,
    ApprovalRequest,
    AskPerson,
    CallPlace,
    CheckPermissions,
    Decision,
    PermissionQuestion,
    Resolution,
)
from callboard.runtime.store.rows import Append, CommitResult
from support.scene import FakeStore, Scene, full_for, open_scene, place_of

ALL = ("journal", "broker")


def question(tier: Tier = Tier.ELEVATED, reason: str | None = None) -> PermissionQuestion:
    return PermissionQuestion(
        call_id="c1", name="erase", tier=tier, arguments='{"a":1}', approval_reason=reason,
        definition=ToolDefinition(name="erase", description="", parameters={}, tier=Tier.READ_ONLY),
    )  # fmt: skip


async def check(
    scene: Scene, preset: Preset, *questions: PermissionQuestion
) -> tuple[Decision, ...]:
    decisions: tuple[Decision, ...] = await scene.broker.ask(
        CheckPermissions(place=place_of(agent=Agent(policy=preset)), questions=questions)
    )
    return decisions


async def ask(
    scene: Scene,
    scope: trio.CancelScope | None = None,
    *,
    digest: str = "d",
    place: CallPlace | None = None,
) -> ApprovalAnswer:
    resolution: Resolution = await scene.broker.ask(
        AskPerson(
            place=place or place_of(), call=Call("c1", "erase", '{"a":1}'), question=question(),
            reason="it is dangerous", digest=digest, policy_version="v",
            scope=scope or trio.CancelScope(),
        )
    )  # fmt: skip
    return resolution.answer


async def answer(scene: Scene, approval_id: str, decision: ApprovalDecision) -> bool:
    """Whether this answer was the first."""
    try:
        await scene.broker.ask(
            AnswerApproval(approval_id=approval_id, answer=ApprovalAnswer(decision=decision))
        )
    except (ConflictError, NotFoundError):
        return False
    return True


def cancelled(call_id: str) -> CallFinished:
    return CallFinished(
        turn_id="t", call_id=call_id, name="erase", status=CallStatus.CANCELLED, result="{}"
    )


@callboard.tool(tier="elevated")
async def erase(a: int = 0) -> None:
    """Erases."""


async def ready(approver: Any = None, **options: Any) -> Scene:
    scene = Scene(approver=approver, tools=[erase], **options)
    await scene.create()
    return scene


class Silent:
    """A person who thinks; `asked` are the questions, `ended` counts those taken back."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []
        self.ended = 0

    async def __call__(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        try:
            await trio.sleep_forever()
        finally:
            self.ended += 1
        return True


# ── deciding ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_batch_is_decided_in_its_order() -> None:
    scene = await ready()
    async with open_scene(scene, *ALL):
        tiers = (Tier.ELEVATED, Tier.READ_ONLY, Tier.ELEVATED)
        decisions = await check(scene, Preset.BALANCED, *map(question, tiers))
        assert await check(scene, Preset.BALANCED) == ()
    assert [decision.verdict for decision in decisions] == ["ask", "allow", "ask"]


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


async def test_nobody_to_ask_is_a_denial_on_record() -> None:
    scene = await ready()
    async with open_scene(scene, *ALL):
        given = await ask(scene)
    assert given.decision == "deny"
    assert "nobody to ask" in given.reason
    (_, asked, answered) = await scene.events()
    assert isinstance(asked, ApprovalAsked)
    assert isinstance(answered, ApprovalAnswered)
    assert (answered.decision, answered.answered_by) == ("deny", "callboard")
    assert answered.approval_id == asked.approval_id


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ("allow", "allow"),
        (True, "allow"),
        (ApprovalAnswer(decision="allow", answered_by="me", arguments="{}"), "allow"),
        ("deny", "deny"),
        (False, "deny"),
        (ApprovalAnswer(decision="deny", reason="not today"), "deny"),
        (ApprovalAnswer(decision="expired"), "deny"),
        (ApprovalAnswer(decision="sure"), "deny"),  # type: ignore[arg-type]
        ("yes", "deny"),
        (1, "deny"),  # only True is true
        (None, "deny"),
        ("", "deny"),
        (["allow"], "deny"),
    ],
)
async def test_what_an_approver_may_say(said: object, decision: str) -> None:
    async def approver(request: ApprovalRequest) -> Any:
        return said

    scene = await ready(approver)
    async with open_scene(scene, *ALL):
        given = await ask(scene)
    assert given.decision == decision
    if isinstance(said, ApprovalAnswer) and said.decision in {"allow", "deny"}:
        assert given == said
    elif decision == "deny" and said not in ("deny", False):
        assert "not allow or deny" in given.reason


async def crash() -> None:
    raise ValueError("boom")


async def crash_in_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash)


@pytest.mark.parametrize("fault", [crash, crash_in_nursery])
async def test_an_approver_that_raises_is_a_denial(fault: Any) -> None:
    async def approver(request: ApprovalRequest) -> bool:
        await fault()
        return True

    scene = await ready(approver)
    async with open_scene(scene, *ALL):
        given = await ask(scene)
        assert await check(scene, Preset.AUTO, question(Tier.SYSTEM))  # the broker lives
    assert (given.decision, given.reason) == ("deny", "the approval handler failed")


async def test_withdrawing_a_question_takes_it_back_from_the_person() -> None:
    person = Silent()
    scene = await ready(person)
    scope = trio.CancelScope()
    async with open_scene(scene, *ALL), trio.open_nursery() as nursery:

        async def asker() -> None:
            with pytest.raises(ActorStopped):
                await ask(scene, scope)

        nursery.start_soon(asker)
        await trio.testing.wait_all_tasks_blocked()
        assert (len(person.asked), person.ended) == (1, 0)
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert person.ended == 1
        await scene.append("s1", cancelled("c1"))
        assert not await answer(scene, person.asked[0].approval_id, "allow")
    assert not any(isinstance(e, ApprovalAnswered) for e in await scene.events())


class HoldingStore(FakeStore):
    """Holds the first answer back until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.let_go = trio.Event(), trio.Event()

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        if any(isinstance(e, ApprovalAnswered) for append in appends for e in append.events):
            self.held.set()
            await self.let_go.wait()
        return await super().commit(appends)


@pytest.mark.parametrize("kind", SessionKind)
async def test_nobody_answers_a_worker_while_callboard_does(kind: SessionKind) -> None:
    store = HoldingStore()
    scene = await ready(store=store)
    place = msgspec.structs.replace(place_of(), session_kind=kind)
    refused: list[bool] = []

    async def say() -> None:
        [asked] = [e for e in await scene.events() if isinstance(e, ApprovalAsked)]
        refused.append(not await answer(scene, asked.approval_id, "allow"))

    async with open_scene(scene, *ALL), trio.open_nursery() as nursery:
        nursery.start_soon(partial(ask, scene, place=place))
        await store.held.wait()
        nursery.start_soon(say)
        await trio.testing.wait_all_tasks_blocked()
        # At once: an answer that waits for its commit may be stored ahead of callboard's own to a twin.
        assert refused == ([True] if kind is SessionKind.WORKER else [])
        store.let_go.set()


@pytest.mark.parametrize("lost", [ApprovalAsked, ApprovalAnswered])
async def test_what_can_not_be_recorded_is_not_allowed(lost: type[DurableEvent]) -> None:
    asked: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    scene = await ready(approver, store=FakeStore(full_for(lost)))
    async with open_scene(scene, *ALL):
        with pytest.raises(StorageError, match="no room"):
            await ask(scene)
        scene.fake.refuse = lambda _: None
        assert (await ask(scene)).decision == "allow"
    assert len(asked) == (1 if lost is ApprovalAsked else 2)
