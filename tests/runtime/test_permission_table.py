"""What the store decides about questions, their answers, starts and grants: on both stores."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.approval import ApprovalDecision, GrantVerdict
from callboard.runtime.definitions import Binding, CallStatus, Tier
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    GrantGiven,
    GrantRevoked,
    SessionCreated,
    SessionTainted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.store import ledger
from callboard.runtime.store.interface import Store
from callboard.runtime.store.ledger import LedgerClock
from callboard.runtime.store.migrations import migrate
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from support.both_stores import KINDS, opened_store

NOW_MS = 1_000_000
PATIENCE_MS = 60_000


class Wall:
    """A wall clock that is set."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    """No time passes but by this clock: a ledger's own goes on by itself, by a millisecond or two."""
    monkeypatch.setattr(ledger, "LedgerClock", lambda rows, _: LedgerClock(rows, lambda: 0.0))
    return Wall()


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, wall: Wall
) -> AsyncGenerator[Store]:
    begun: tuple[DurableEvent, ...] = (
        SessionCreated(agent="general", workspace="/work"),
        TurnStarted(turn_id="t", input_ids=(), provider="p", model="m"),
        *(
            CallProposed(
                turn_id="t", message_id="m", call_id=call_id, index=0, name="x", arguments=""
            )
            for call_id in ("c1", "c2")
        ),
    )
    async with opened_store(request.param, tmp_path / "data", now_ms=wall) as opened:
        await opened.commit([Append("s1", begun), Append("s2", begun)])
        yield opened


def asked(approval_id: str = "a1", call_id: str = "c1", **more: Any) -> ApprovalAsked:
    return ApprovalAsked(
        approval_id=approval_id, turn_id="t", call_id=call_id, name="x", tier=Tier.SYSTEM,
        reason="r", arguments="{}", digest="d", expires_at_ms=NOW_MS + PATIENCE_MS, **more,
    )  # fmt: skip


def said(
    decision: ApprovalDecision, approval_id: str = "a1", call_id: str = "c1", **more: Any
) -> ApprovalAnswered:
    return ApprovalAnswered(
        approval_id=approval_id, call_id=call_id, decision=decision, answered_by="me", **more
    )


def started(approval_id: str = "a1", call_id: str = "c1", digest: str = "d") -> CallStarted:
    return CallStarted(turn_id="t", call_id=call_id, approval_id=approval_id, digest=digest)


def given_for(
    scope: str, verdict: GrantVerdict = "allow", grant_id: str = "g1", **more: Any
) -> GrantGiven:
    return GrantGiven(
        grant_id=grant_id, verdict=verdict, scope=scope, tool="x", definition="f",
        tier=Tier.SYSTEM, binding=Binding(arguments="{}"), agent="general", turn_id="t",
        workspace="/work", approval_id="a1", given_by="me", **more,
    )  # fmt: skip


async def put(store: Store, *events: DurableEvent, session_id: str = "s1") -> str:
    """Why it was refused; empty when it was stored."""
    (result,) = await store.commit([Append(session_id, events)])
    if isinstance(result, tuple):
        return ""
    assert isinstance(result, ConflictError)
    return str(result)


async def state(store: Store, approval_id: str = "a1") -> str:
    (row,) = await store.approvals(approval_id=approval_id)
    return row.state


@pytest.mark.parametrize(
    ("decision", "made"),
    [("allow", "allowed"), ("deny", "denied"), ("expired", "expired"), ("revised", "revised"),
     ("withdrawn", "withdrawn")],
)  # fmt: skip
async def test_a_question_is_answered_once(
    store: Store, decision: ApprovalDecision, made: str
) -> None:
    assert await put(store, asked()) == ""
    assert await put(store, said(decision)) == ""
    assert await state(store) == made
    for second in ("allow", "deny", "expired", "revised", "withdrawn"):
        assert f"it is {made}" in await put(store, said(second))
    assert await state(store) == made


async def test_two_answers_of_one_commit_are_one(store: Store) -> None:
    await put(store, asked())
    first, second = await store.commit(
        [Append("s1", (said("allow"),)), Append("s1", (said("deny"),))]
    )
    assert isinstance(first, tuple)
    assert isinstance(second, ConflictError)
    assert "not open" in await put(store, asked("a2"), said("deny", "a2"), said("allow", "a2"))
    assert await store.approvals(approval_id="a2") == []  # nothing of that append


async def test_an_allowed_call_starts_once_and_with_what_was_allowed(store: Store) -> None:
    await put(store, asked(), asked("a2", "c2"))
    assert "is waiting" in await put(store, started())
    await put(store, said("allow", digest="d2", arguments="{}"))
    for wrong, words in (
        (started(digest="d"), "not what was allowed"),
        (started("a2", digest="d2"), "not asked about"),
        (started(call_id="c2", digest="d2"), "not asked about"),
        (started("a9", digest="d2"), "not asked about"),
    ):
        assert words in await put(store, wrong)
    assert "not asked about" in await put(store, started(digest="d2"), session_id="s2")
    assert await put(store, started(digest="d2")) == ""
    assert await state(store) == "used"
    assert "allows nothing" in await put(store, started(digest="d2"))


@pytest.mark.parametrize("decision", ["deny", "expired", "revised", "withdrawn"])
async def test_nothing_but_an_allow_lets_a_call_start(
    store: Store, decision: ApprovalDecision
) -> None:
    await put(store, asked(), said(decision))
    assert "allows nothing" in await put(store, started())
    (call, *_) = [c for c in await store.calls(session_id="s1") if c.call_id == "c1"]
    assert call.started_at_ms is None


async def test_a_call_that_is_over_does_not_start(store: Store) -> None:
    await put(store, asked(), said("allow"))
    over = CallFinished(turn_id="t", call_id="c1", name="x", status=CallStatus.SUCCESS, result="{}")
    await put(store, over)
    assert "has started or ended" in await put(store, started())


async def test_what_was_allowed_and_is_void_does_not_start(store: Store) -> None:
    await put(store, asked(), said("allow"))
    assert await put(store, said("void")) == ""
    assert "allows nothing" in await put(store, started())
    await put(store, asked("a2"))
    assert "not open" in await put(store, said("void", "a2"))


async def test_an_answer_must_come_in_time(store: Store, wall: Wall) -> None:
    await put(store, asked(), asked("a2", "c2"))
    wall.ms += PATIENCE_MS - 1
    assert await put(store, said("allow")) == ""
    wall.ms += 1
    for late in ("allow", "deny", "revised"):
        assert "expired" in await put(store, said(late, "a2", "c2"))
    assert await put(store, said("expired", "a2", "c2")) == ""


async def test_a_clock_that_jumps_back_extends_nothing(
    store: Store, wall: Wall, tmp_path: Path
) -> None:
    await put(store, asked())
    wall.ms += PATIENCE_MS
    await put(store, asked("a2", "c2"))  # the ledger has seen what time it is
    wall.ms = NOW_MS - PATIENCE_MS
    assert "expired" in await put(store, said("allow"))
    # What is asked now has its whole time, by the clock that it was asked by.
    later = asked("a3").expires_at_ms
    assert later > wall.ms
    assert await put(store, asked("a3"), said("allow", "a3")) == ""


async def test_nor_does_one_that_jumps_back_between_two_processes(
    tmp_path: Path, wall: Wall
) -> None:
    first = await open_disk_store(tmp_path / "data", now_ms=wall)
    await first.commit(
        [Append("s1", (SessionCreated(agent="general", workspace="/work"), asked()))]
    )
    wall.ms += PATIENCE_MS
    await first.commit([Append("s1", (SessionTainted(source="x"),))])
    await first.aclose()
    wall.ms = NOW_MS
    second = await open_disk_store(tmp_path / "data", now_ms=wall)
    assert "expired" in await put(second, said("allow"))
    await second.aclose()


@given(st.lists(st.tuples(st.integers(-10_000, 10_000), st.integers(0, 10_000)), max_size=20))
def test_the_ledgers_clock_never_goes_back_or_slower(steps: list[tuple[int, int]]) -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, "it")
    elapsed = 0
    clock = LedgerClock(connection, lambda: elapsed / 1000)
    wall = NOW_MS
    before = clock.read(wall)
    for jump, passed in steps:
        elapsed += passed
        wall += passed + jump
        now = clock.read(wall)
        assert now >= wall
        assert now - before >= passed - 1  # it counts whole milliseconds
        before = now


async def test_the_end_of_a_call_or_turn_takes_its_questions_back(store: Store) -> None:
    await put(store, asked(), asked("a2", "c2"), said("allow", "a2", "c2"))
    gone = CallFinished(
        turn_id="t", call_id="c1", name="x", status=CallStatus.CANCELLED, result="{}"
    )
    await put(store, gone)
    assert [await state(store), await state(store, "a2")] == ["withdrawn", "allowed"]
    await put(store, TurnEnded(turn_id="t", outcome="cancelled"))
    assert await state(store, "a2") == "void"
    assert "not open" in await put(store, said("allow"))


async def test_rows_say_what_was_asked_and_answered(store: Store) -> None:
    await put(store, asked(policy_version="v", same_as="a0"))
    await put(store, said("allow", arguments='{"a":1}', digest="d2", remember="turn", reason="ok"))
    (row,) = await store.approvals(session_id="s1")
    assert (row.tool, row.tier, row.reason, row.arguments, row.digest) == (
        "x", Tier.SYSTEM, "r", "{}", "d"
    )  # fmt: skip
    assert (row.policy_version, row.same_as, row.asked_at_ms) == ("v", "a0", NOW_MS)
    assert (row.decision, row.answered_by, row.answer_reason) == ("allow", "me", "ok")
    assert (row.final_arguments, row.final_digest, row.remember) == ('{"a":1}', "d2", "turn")
    assert await store.approvals(state="waiting") == []
    assert await store.approvals(session_id="s2") == []


async def test_grants_hold_until_they_are_revoked_or_their_turn_is_over(store: Store) -> None:
    for number, scope in enumerate(("turn", "session", "always")):
        assert await put(store, given_for(scope, grant_id=f"g{number}")) == ""
    assert [g.scope for g in await store.grants()] == ["turn", "session", "always"]
    assert await put(store, GrantRevoked(grant_id="g1", revoked_by="me")) == ""
    assert "revoked already" in await put(store, GrantRevoked(grant_id="g1", revoked_by="me"))
    assert "no grant" in await put(store, GrantRevoked(grant_id="g9", revoked_by="me"))
    assert "no grant" in await put(
        store, GrantRevoked(grant_id="g2", revoked_by="me"), session_id="s2"
    )
    await put(store, TurnEnded(turn_id="t", outcome="answered"))
    assert [g.scope for g in await store.grants()] == ["always"]
    everything = await store.grants(include_ended=True)
    assert [g.revoked_at_ms for g in everything] == [None, NOW_MS, None]


async def test_a_tainted_session_allows_nothing_for_good(store: Store) -> None:
    assert await put(store, given_for("always")) == ""
    await put(store, SessionTainted(source="http_request"))
    for scope in ("agent", "always"):
        assert "untrusted" in await put(store, given_for(scope, grant_id="g2"))
        assert await put(store, given_for(scope, "deny", f"deny-{scope}")) == ""
    assert await put(store, given_for("session", grant_id="g3")) == ""
    row = await store.session("s1")
    assert row is not None
    assert row.is_tainted


async def test_a_turn_is_suspended_and_resumed_once(store: Store) -> None:
    suspended = TurnSuspended(turn_id="t", call_ids=("c1",))
    for event in (suspended, TurnResumed(turn_id="t"), suspended):
        for count in (1, 0):
            (result,) = await store.commit([Append("s1", (event,))])
            assert isinstance(result, tuple)
            assert len(result) == count
    turns = {turn.session_id: turn.is_suspended for turn in await store.open_turns()}
    assert turns == {"s1": True, "s2": False}
    row = await store.session("s1")
    assert row is not None
    assert not row.is_active


async def refused(store: Store, *events: DurableEvent) -> str | None:
    """Of what kind the refusal is."""
    (result,) = await store.commit([Append("s1", events)])
    assert isinstance(result, ConflictError), result
    return result.kind


async def test_a_refusal_says_of_what_kind_it_is(store: Store, wall: Wall) -> None:
    await put(store, asked(), asked("a2", "c2"), said("deny"))
    assert await refused(store, said("allow")) == "answered"
    assert await refused(store, said("allow", "a2", "c1")) is None
    wall.ms += 2 * PATIENCE_MS
    assert await refused(store, said("allow", "a2", "c2")) == "expired"
    await put(store, SessionTainted(source="x"))
    assert await refused(store, given_for("always")) == "scope"


@pytest.mark.parametrize(
    ("scope", "is_tainted", "holds"),
    [
        ("session", True, True),
        ("turn", True, True),
        ("session", False, False),
        ("always", False, False),
    ],
)
async def test_a_grant_answers_where_it_is_not_suspended(
    store: Store, scope: str, is_tainted: bool, holds: bool
) -> None:
    """A person does in any case, and so does one that denies."""
    given = given_for(scope, grant_id="g1", is_tainted=is_tainted)
    await put(store, given, given_for(scope, "deny", "g2"), asked(), asked("a2", "c2"))
    assert await put(store, said("allow", grant_id="g1")) == ""
    await put(store, SessionTainted(source="x"))
    cases: list[tuple[ApprovalDecision, str, bool]] = [
        ("allow", "g1", holds), ("allow", "", True), ("deny", "g2", True), ("allow", "g9", False)
    ]  # fmt: skip
    for number, (decision, grant_id, counts) in enumerate(cases):
        question = f"b{number}"
        await put(store, asked(question, "c2"))
        answer = said(decision, question, "c2", grant_id=grant_id)
        if counts:
            assert await put(store, answer) == ""
        else:
            assert await refused(store, answer) == "grant"


async def test_a_revoked_grant_answers_nothing(store: Store) -> None:
    await put(store, given_for("session", grant_id="g1"), asked())
    await put(store, GrantRevoked(grant_id="g1", revoked_by="me"))
    assert await refused(store, said("allow", grant_id="g1")) == "grant"


async def test_the_arguments_of_a_denial_are_not_the_calls(store: Store) -> None:
    await put(store, asked(), asked("a2", "c2"))
    await put(store, said("deny", arguments='{"a":2}'))
    await put(store, said("allow", "a2", "c2", arguments='{"a":2}', digest="d2"))
    arguments = {row.call_id: row.arguments for row in await store.calls(session_id="s1")}
    assert arguments == {"c1": "{}", "c2": '{"a":2}'}
