"""How answers count when something else happens meanwhile: taint, twins, restarts, a full disk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.actors.permissions import edited_arguments
from callboard.actors.permissions import record as approval_record
from callboard.actors.permissions import resolution as settlement
from callboard.config.settings import Limits
from callboard.runtime.definitions import Tier
from callboard.runtime.errors import (
    ActorStopped,
    CallboardError,
    ConflictError,
    StorageError,
    StorageFull,
    ValidationError,
)
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    DurableEvent,
    GrantGiven,
    GrantRevoked,
    SessionTainted,
)
from callboard.runtime.history import Call
from callboard.runtime.messages import (
    AnswerApproval,
    ApprovalAnswer,
    ApprovalRequest,
    AskPerson,
    CheckPermissions,
    PermissionQuestion,
    Resolution,
    RevokeGrant,
)
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append, ApprovalRow, GrantRow
from support.scene import FakeStore, Scene, full_for, has, open_scene, place_of

ALL = ("journal", "broker")
ALLOW = ApprovalAnswer(decision="allow")
TAINTED = SessionTainted(source="http_request")


@callboard.tool(tier="elevated")
async def erase(a: int = 0) -> None:
    """Erases."""


class Person:
    """Says what it is told to, once it is."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []
        self.says: Any = None
        self.speaks = trio.Event()

    async def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        await self.speaks.wait()
        return self.says

    def say(self, answer: Any) -> None:
        self.says = answer
        self.speaks.set()


async def ready(person: Any = None, **options: Any) -> Scene:
    scene = Scene(approver=person, tools=[erase], **options)
    await scene.create()
    return scene


def question(call_id: str = "c1") -> PermissionQuestion:
    return PermissionQuestion(
        call_id=call_id, name="erase", tier=Tier.ELEVATED, arguments='{"a":1}',
        approval_reason=None, definition=erase.definition,
    )  # fmt: skip


def asking(
    call_id: str = "c1", *, known: ApprovalRow | None = None, session_id: str = "s1", **options: Any
) -> AskPerson:
    return AskPerson(
        place=place_of(session_id), call=Call(call_id, "erase", '{"a":1}'),
        question=question(call_id), reason="it is dangerous",
        policy_version="v", known=known, **{"scope": trio.CancelScope(), "digest": "d" + session_id, **options},
    )  # fmt: skip


async def asked(scene: Scene, nursery: trio.Nursery, message: AskPerson) -> list[Resolution]:
    """Asks in the background, and waits until nothing goes on; the answer comes into the list."""
    heard: list[Resolution] = []

    async def ask() -> None:
        with suppress(ActorStopped):  # of a question that is no longer asked
            heard.append(await scene.broker.ask(message))

    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    return heard


async def answer(scene: Scene, approval_id: str, said: ApprovalAnswer = ALLOW) -> None:
    with trio.fail_after(10):
        await scene.broker.ask(AnswerApproval(approval_id=approval_id, answer=said))


async def rows(scene: Scene, session_id: str = "s1") -> list[ApprovalRow]:
    """The questions, in the order in which they were asked."""
    return list(reversed(await scene.fake.approvals(session_id=session_id)))


async def verdict(scene: Scene) -> str:
    check = CheckPermissions(place=place_of(), questions=(question(),))
    (decision,) = await scene.broker.ask(check)
    return str(decision.verdict)


def on_record(approval_id: str, call_id: str, **more: Any) -> ApprovalAsked:
    """A question of an earlier process."""
    return ApprovalAsked(
        approval_id=approval_id, turn_id="t", call_id=call_id, name="erase", tier=Tier.ELEVATED,
        reason="r", arguments='{"a":1}', digest="ds1", expires_at_ms=2**50, policy_version="v",
        **more,
    )  # fmt: skip


class Gate:
    """Holds commits with an event of a kind back until it is opened."""

    def __init__(self, store: FakeStore, kind: type[DurableEvent]) -> None:
        self.opened = trio.Event()
        commit = store.commit

        async def held(appends: Sequence[Append]) -> Any:
            if has(appends, kind):
                await self.opened.wait()
            return await commit(appends)

        store.commit = held  # type: ignore[method-assign]


async def granted(scene: Scene, scope: str = "session") -> GrantRow:
    """What a person has remembered about the question."""
    async with trio.open_nursery() as nursery:
        await asked(scene, nursery, asking("c0"))
        [row] = await rows(scene)
        await answer(scene, row.approval_id, ApprovalAnswer(decision="allow", remember=scope))
    [grant] = await scene.fake.grants()
    return grant  # type: ignore[no-any-return]


# ── grants ───────────────────────────────────────────────────────────────────────────────────────


async def revoke(scene: Scene, grant: GrantRow) -> None:
    await scene.broker.ask(RevokeGrant(grant_id=grant.grant_id, revoked_by="me"))


async def test_a_revoked_grant_does_not_come_back_on_a_full_disk() -> None:
    scene = await ready(Person())
    async with open_scene(scene, *ALL):
        grant = await granted(scene)
        assert await verdict(scene) == "allow"
        scene.fake.refuse = full_for(GrantRevoked)
        with pytest.raises(StorageFull):
            await revoke(scene, grant)
        assert await verdict(scene) == "allow"  # the control: it is not revoked
        scene.fake.refuse = lambda _: None
        await revoke(scene, grant)
        scene.fake.refuse = full_for(GrantRevoked)
        with pytest.raises(ConflictError, match="revoked already"):
            await revoke(scene, grant)
        assert await verdict(scene) == "ask"


async def test_two_who_revoke_at_once_put_nothing_back() -> None:
    """The first one's commit fails; the second one's does not."""
    scene = await ready(Person())
    async with open_scene(scene, *ALL) as nursery:
        grant = await granted(scene)
        scene.fake.refuse = full_for(GrantRevoked, once=True)
        errors: list[CallboardError] = []

        async def one() -> None:
            try:
                await revoke(scene, grant)
            except CallboardError as error:
                errors.append(error)

        nursery.start_soon(one)
        nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        assert [type(error) for error in errors] == [StorageFull]
        assert await verdict(scene) == "ask"


async def test_who_answered_is_only_text() -> None:
    scene = await ready()
    said = ApprovalAnswered(
        approval_id="a1", call_id="c1", decision="allow", answered_by="grant smith"
    )
    async with open_scene(scene, *ALL):
        await scene.append("s1", on_record("a1", "c1"), said)
        [row] = await rows(scene)
        resolution = await scene.broker.ask(asking(known=row))
    assert (resolution.answer.decision, resolution.approval_id) == ("allow", "a1")


async def test_a_cancel_while_an_answer_is_stored_leaves_record_and_book_agreed() -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, *ALL) as nursery:
        scope = trio.CancelScope()
        await asked(scene, nursery, asking(scope=scope))
        gate = Gate(scene.fake, ApprovalAnswered)
        person.say(ApprovalAnswer(decision="allow", remember="session"))
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(await scene.fake.grants()) == 1
        assert await verdict(scene) == "allow"


@pytest.mark.parametrize(("scope", "state"), [("turn", "waiting"), ("session", "allowed")])
async def test_a_grant_for_a_turn_answers_nothing_that_is_deferred(scope: str, state: str) -> None:
    scene = await ready(Person())
    async with open_scene(scene, *ALL) as nursery:
        await asked(scene, nursery, asking("c1", defers=True))
        await asked(scene, nursery, asking("c2"))
        first, second = await rows(scene)
        assert (first.is_deferred, second.is_deferred) == (True, False)
        await answer(scene, second.approval_id, ApprovalAnswer(decision="allow", remember=scope))
        await trio.testing.wait_all_tasks_blocked()
        assert [row.state for row in await rows(scene)] == [state, "allowed"]


# ── taint ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_told", [True, False])
async def test_an_always_in_a_session_tainted_meanwhile_counts_for_the_call(is_told: bool) -> None:
    """The broker sees the taint, or the store alone does."""
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, *ALL) as nursery:
        heard = await asked(scene, nursery, asking())
        if not is_told:
            await keep_stale(scene, "s1")
        await scene.append("s1", TAINTED)
        person.say(ApprovalAnswer(decision="allow", remember="always"))
        await trio.testing.wait_all_tasks_blocked()
        assert [each.answer.decision for each in heard] == ["allow"]
        [row] = await rows(scene)
    assert (row.state, row.remember) == ("allowed", None)
    assert await scene.fake.grants() == []


@pytest.mark.parametrize("is_told", [True, False])
async def test_an_always_by_id_that_can_not_be_leaves_the_question_open(is_told: bool) -> None:
    scene = await ready(Person())
    always = ApprovalAnswer(decision="allow", remember="always")
    async with open_scene(scene, *ALL) as nursery:
        heard = await asked(scene, nursery, asking())
        if not is_told:
            await keep_stale(scene, "s1")
        await scene.append("s1", TAINTED)
        [row] = await rows(scene)
        with pytest.raises(ValidationError) as refused:
            await answer(scene, row.approval_id, always)
        assert refused.value.field == "remember"
        assert ("there are: call, turn, session" in str(refused.value)) is is_told
        assert [each.state for each in await rows(scene)] == ["waiting"]
        await answer(scene, row.approval_id)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.answer.decision for each in heard] == ["allow"]


async def keep_stale(scene: Scene, session_id: str) -> None:
    """The broker reads the session's row as it is now, whatever happens."""
    row = await scene.fake.session(session_id)
    session = scene.fake.session

    async def stale(name: str) -> Any:
        return row if name == session_id else await session(name)

    scene.fake.session = stale  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("is_tainted", "is_told", "state"),
    [(True, True, "waiting"), (True, False, "waiting"), (False, True, "allowed")],
)
async def test_a_grant_answers_no_question_of_a_session_where_it_is_suspended(
    is_tainted: bool, is_told: bool, state: str
) -> None:
    scene = await ready(Person())
    await scene.create("s2")
    async with open_scene(scene, *ALL) as nursery:
        await asked(scene, nursery, asking())
        await asked(scene, nursery, asking("c2", session_id="s2"))
        if not is_told:
            await keep_stale(scene, "s1")
        if is_tainted:
            await scene.append("s1", TAINTED)
        [row] = await rows(scene, "s2")
        await answer(scene, row.approval_id, ApprovalAnswer(decision="allow", remember="always"))
        await trio.testing.wait_all_tasks_blocked()
        [other] = await rows(scene)
        [grant] = await scene.fake.grants()
        assert (other.state, other.grant_id) == (state, "" if is_tainted else grant.grant_id)
        if is_tainted:  # a person still may
            await answer(scene, other.approval_id)
            assert [each.state for each in await rows(scene)] == ["allowed"]


async def test_scopes_are_offered_by_what_the_session_has_read_by_now() -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, *ALL) as nursery:
        await asked(scene, nursery, asking())
        await scene.append("s1", TAINTED)
        await asked(scene, nursery, asking("c2", digest="another"))
    assert [request.scopes for request in person.asked] == [
        ("call", "turn", "session", "agent", "always"), ("call", "turn", "session"),
    ]  # fmt: skip


# ── those who ask the same ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "digest", "will_run"),
    [(None, None, '{"a":1}'), ('{"a":2}', "d2", '{"a":2}')],
)
async def test_a_leader_found_answered_concludes_its_followers(
    arguments: str | None, digest: str | None, will_run: str
) -> None:
    """With the arguments that a person gave it, never with the model's instead."""
    person = Person()
    scene = await ready(person)
    said = ApprovalAnswered(
        approval_id="a1", call_id="c1", decision="allow", answered_by="me",
        arguments=arguments, digest=digest,
    )  # fmt: skip
    async with open_scene(scene, *ALL) as nursery:
        await scene.append("s1", on_record("a1", "c1"), on_record("a2", "c2", same_as="a1"), said)
        leader, follower = await rows(scene)
        read = scene.fake.approvals
        reads = trio.Event()

        async def approvals(**options: Any) -> Any:
            if options.get("approval_id") == "a1":
                await reads.wait()
            return await read(**options)

        scene.fake.approvals = approvals  # type: ignore[attr-defined]
        first = await asked(scene, nursery, asking("c1", known=leader))
        second = await asked(scene, nursery, asking("c2", known=follower))
        reads.set()
        await trio.testing.wait_all_tasks_blocked()
        for heard in (first, second):
            [resolution] = heard
            assert resolution.answer.decision == "allow"
            assert resolution.arguments == will_run
        assert person.asked == []
        assert [row.state for row in await rows(scene)] == ["allowed", "allowed"]


async def test_those_who_follow_one_that_gives_no_answer_are_asked_themselves() -> None:
    """The first one can't even be put on record."""
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, *ALL) as nursery:
        gate = Gate(scene.fake, ApprovalAsked)
        scene.fake.refuse = full_for(ApprovalAsked, once=True)
        failed: list[CallboardError] = []

        async def first() -> None:
            try:
                await scene.broker.ask(asking("c1"))
            except CallboardError as error:
                failed.append(error)

        nursery.start_soon(first)
        await trio.testing.wait_all_tasks_blocked()
        second = await asked(scene, nursery, asking("c2"))
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [type(error) for error in failed] == [StorageFull]
        assert [request.call_id for request in person.asked] == ["c2"]
        person.say(True)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.answer.decision for each in second] == ["allow"]


async def test_those_who_follow_one_that_can_not_be_read_are_asked_themselves() -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, *ALL) as nursery:
        await scene.append("s1", on_record("a1", "c1"), on_record("a2", "c2", same_as="a1"))
        leader, follower = await rows(scene)
        read = scene.fake.approvals
        reads = trio.Event()

        async def approvals(**options: Any) -> Any:
            if options.get("approval_id") == "a1":
                await reads.wait()
                raise StorageError("it can't be read")
            return await read(**options)

        scene.fake.approvals = approvals  # type: ignore[attr-defined]
        failed: list[CallboardError] = []

        async def first() -> None:
            try:
                await scene.broker.ask(asking("c1", known=leader))
            except CallboardError as error:
                failed.append(error)

        nursery.start_soon(first)
        await trio.testing.wait_all_tasks_blocked()
        second = await asked(scene, nursery, asking("c2", known=follower))
        reads.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [type(error) for error in failed] == [StorageError]
        assert [request.call_id for request in person.asked] == ["c2"]
        person.say(True)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.answer.decision for each in second] == ["allow"]


@pytest.mark.parametrize("changed", [None, '{"a":2}'])
async def test_an_answer_by_id_is_there_for_all_who_ask_the_same_on_return(
    changed: str | None,
) -> None:
    scene = await ready()
    async with open_scene(scene, *ALL):
        await scene.append("s1", on_record("a1", "c1"), on_record("a2", "c2", same_as="a1"))
        await answer(scene, "a1", ApprovalAnswer(decision="allow", arguments=changed))
        answered = await rows(scene)
    assert [row.state for row in answered] == ["allowed", "allowed"]
    assert [row.final_arguments for row in answered] == [changed, changed]
    if changed is None:  # nothing comes between
        assert [len(each.events) for each in scene.fake.commits[-1]] == [2]


async def test_a_follower_that_has_its_answer_holds_none_up() -> None:
    scene = await ready()
    denied = ApprovalAnswered(
        approval_id="a2", call_id="c2", decision="deny", answered_by="somebody else"
    )
    async with open_scene(scene, *ALL):
        follower = [on_record(f"a{n}", f"c{n}", same_as="a1") for n in (2, 3)]
        await scene.append("s1", on_record("a1", "c1"), *follower)
        record = await rows(scene)
        read = scene.fake.approvals

        async def approvals(**options: Any) -> Any:
            if options.get("state") == "waiting":  # the broker learns of them just before
                await scene.append("s1", denied)
                return list(reversed(record))
            return await read(**options)

        scene.fake.approvals = approvals  # type: ignore[attr-defined]
        await answer(scene, "a1")
        assert [row.state for row in await rows(scene)] == ["allowed", "denied", "allowed"]


async def test_an_answer_by_id_wakes_who_resumes_meanwhile() -> None:
    person = Person()
    scene = await ready(person)
    async with open_scene(scene, *ALL) as nursery:
        await scene.append("s1", on_record("a1", "c1"))
        [row] = await rows(scene)
        gate = Gate(scene.fake, ApprovalAnswered)
        nursery.start_soon(answer, scene, "a1")
        await trio.testing.wait_all_tasks_blocked()
        heard = await asked(scene, nursery, asking(known=row))
        assert len(person.asked) == 1
        gate.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [each.answer.decision for each in heard] == ["allow"]


# ── a full disk ──────────────────────────────────────────────────────────────────────────────────


class Wall:
    """A wall clock that goes with the mock clock."""

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(trio.current_time() * 1000)


@pytest.mark.parametrize(("full_seconds", "state"), [(20, "allowed"), (1000, "expired")])
async def test_a_late_answer_that_finds_no_room_is_stored_when_there_is_some(
    full_seconds: float, state: str, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall()
    for module in (edited_arguments, approval_record):
        monkeypatch.setattr(module, "now_ms", wall.now_ms)
    store = FakeStore()
    store.inner = open_memory_store(now_ms=wall.now_ms)
    person = Person()
    person.say(True)
    scene = await ready(person, store=store, limits=Limits(deferred_seconds=300))
    async with open_scene(scene, *ALL):
        store.refuse = full_for(ApprovalAnswered)
        resolution = await scene.broker.ask(asking(defers=True))
        assert resolution.answer.decision == "deferred"
        await trio.sleep(full_seconds)
        assert [row.state for row in await rows(scene)] == ["waiting"]
        store.refuse = lambda _: None
        await trio.sleep(2 * settlement.MAX_RETRY_SECONDS)
        assert [row.state for row in await rows(scene)] == [state]
    assert len(person.asked) == 1


async def test_an_answer_that_somebody_waits_for_fails_on_a_full_disk() -> None:
    """The control: what can't be recorded isn't allowed."""
    person = Person()
    person.say(True)
    scene = await ready(person)
    async with open_scene(scene, *ALL):
        scene.fake.refuse = full_for(ApprovalAnswered)
        with pytest.raises(StorageFull):
            await scene.broker.ask(asking())


# ── how much is kept ─────────────────────────────────────────────────────────────────────────────


async def test_long_texts_of_an_answer_are_cut() -> None:
    person = Person()
    person.say(ApprovalAnswer(decision="deny", reason="x" * 10_000, answered_by="y" * 10_000))
    scene = await ready(person)
    async with open_scene(scene, *ALL):
        resolution = await scene.broker.ask(asking())
        [row] = await rows(scene)
    assert len(row.answer_reason) == 4000
    assert row.answer_reason.endswith("[…]")
    assert len(row.answered_by) == 200
    assert resolution.answer.reason == row.answer_reason


async def test_what_is_remembered_is_said_only_of_what_is() -> None:
    """A pattern that is no pattern: the answer counts for its call."""
    person = Person()
    person.say(ApprovalAnswer(decision="allow", remember="session", pattern="x" * 5000))
    scene = await ready(person)
    async with open_scene(scene, *ALL):
        resolution = await scene.broker.ask(asking())
        [row] = await rows(scene)
        events = await scene.events()
    assert resolution.answer.decision == "allow"
    assert row.remember is None
    assert not any(isinstance(event, GrantGiven) for event in events)


async def test_an_answer_for_which_there_is_no_room_counts_for_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.actors.permissions.decisions.MAX_GRANTS", 0)
    person = Person()
    person.say(ApprovalAnswer(decision="allow", remember="session"))
    scene = await ready(person)
    async with open_scene(scene, *ALL):
        resolution = await scene.broker.ask(asking())
        [row] = await rows(scene)
    assert resolution.answer.decision == "allow"
    assert row.remember is None
    assert await scene.fake.grants() == []
