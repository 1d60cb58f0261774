"""A store in memory makes its rows late, and they are the same ones."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import CallStatus, Tier
from callboard.runtime.errors import StorageFull
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    SessionDeleted,
    SessionTainted,
    TitleSet,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.history import Text
from callboard.runtime.store import memory_store as backlog_module
from callboard.runtime.store.ledger import Ledger
from callboard.runtime.store.memory_store import Backlog, _fill, open_memory_store
from callboard.runtime.store.rows import Append, CommitResult
from callboard.runtime.stream import Usage

TABLES = (
    "sessions", "events", "turns", "messages", "tool_calls", "usage", "approvals", "grants",
)  # fmt: skip
CREATED = SessionCreated(agent="general", workspace="/work")


def said(text: str) -> InputAccepted:
    return InputAccepted(input_id="i", text=text)


def finished(call_id: str, result: str) -> CallFinished:
    return CallFinished(
        turn_id="t1", call_id=call_id, name="tool", status=CallStatus.SUCCESS, result=result
    )


ASKED = ApprovalAsked(
    approval_id="a1", turn_id="t1", call_id="c1", name="tool", tier=Tier.SYSTEM, reason="r",
    arguments="{}", digest="d", expires_at_ms=61_000,
)  # fmt: skip
ANSWERED = ApprovalAnswered(
    approval_id="a1", call_id="c1", decision="allow", answered_by="application"
)

EVENTS: tuple[DurableEvent, ...] = (
    CREATED,
    said("hello"),
    TurnStarted(turn_id="t1", input_ids=("i",), provider="p", model="m"),
    MessageCompleted(turn_id="t1", message_id="m1", parts=(Text("x"),), provider="p", model="m"),
    MessageCompleted(
        turn_id="t1", message_id="m1", parts=(), provider="p", model="m", usage=Usage(2**63)
    ),
    CallProposed(turn_id="t1", message_id="m1", call_id="c1", index=0, name="tool", arguments="{}"),
    CallStarted(turn_id="t1", call_id="c1"),
    ASKED,
    ANSWERED,
    CallStarted(turn_id="t1", call_id="c1", approval_id="a1", digest="d"),
    TurnSuspended(turn_id="t1", call_ids=("c1",)),
    TurnResumed(turn_id="t1"),
    SessionTainted(source="tool"),
    finished("c1", '"first"'),
    finished("c1", '"second"'),
    finished("c2", '"unheard of"'),
    TurnEnded(turn_id="t1", outcome="answered"),
    TurnEnded(turn_id="t1", outcome="failed", message="late"),
    TitleSet(title="T"),
    SessionDeleted(),
)

APPENDS = st.builds(
    Append, st.sampled_from(("a", "b")), st.lists(st.sampled_from(EVENTS), max_size=5).map(tuple)
)
COMMITS = st.lists(st.tuples(st.lists(APPENDS, max_size=4), st.booleans()), max_size=10)


class Tables:
    """A ledger of an empty database in memory."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        _fill(self.connection)
        self.ledger = Ledger(self.connection, "it", lambda: 1_000, lambda: 0.0)

    def rows(self) -> dict[str, Sequence[object]]:
        return {
            table: self.connection.execute(f"select * from {table}").fetchall() for table in TABLES
        }

    def count(self) -> int:
        return int(self.connection.execute("select count(*) from events").get)


@pytest.fixture
def tables() -> Tables:
    return Tables()


@pytest.fixture
def backlog(tables: Tables) -> Backlog:
    made = Backlog(tables.ledger, lambda: 1_000)
    made.commit([Append("a", (CREATED,))])
    return made


def seqs(results: list[CommitResult]) -> list[list[int]]:
    return [[stored.seq for stored in result] for result in results if isinstance(result, tuple)]


def shown(results: list[CommitResult]) -> list[object]:
    return [
        result if isinstance(result, tuple) else (type(result), str(result)) for result in results
    ]


@given(COMMITS)
def test_late_rows_and_their_answers_are_those_of_rows_made_at_once(
    commits: list[tuple[list[Append], bool]],
) -> None:
    late, at_once = Tables(), Tables()
    backlog = Backlog(late.ledger, lambda: 1_000)
    first = [Append("a", (CREATED,))]
    assert shown(backlog.commit(first)) == shown(at_once.ledger.commit(first))
    for appends, is_read in commits:
        assert shown(backlog.commit(appends)) == shown(at_once.ledger.commit(appends))
        if is_read:
            backlog.settle()
            assert late.rows() == at_once.rows()
    backlog.settle()
    assert late.rows() == at_once.rows()


def test_rows_are_made_when_they_are_asked_for(tables: Tables, backlog: Backlog) -> None:
    assert seqs(backlog.commit([Append("a", (said("x"), said("y")))])) == [[2, 3]]
    assert tables.count() == 0
    backlog.settle()
    assert tables.count() == 3
    backlog.settle()
    assert tables.count() == 3


async def test_events_are_paged_over_those_with_rows_and_those_without() -> None:
    store = open_memory_store()
    await store.commit([Append("a", (CREATED, said("1"), said("2"))), Append("b", (CREATED,))])
    assert await store.session("a") is not None  # makes the rows of these
    await store.commit([Append("b", (said("b"),)), Append("a", (said("3"), said("4"), said("5")))])
    everything = await store.events("a")
    assert [stored.seq for stored in everything] == [1, 2, 3, 4, 5, 6]
    for after in range(8):
        for limit in (None, -1, *range(8)):
            expected = everything[after:][: None if limit is None else max(limit, 0)]
            assert await store.events("a", after_seq=after, limit=limit) == expected
    assert len(await store.messages("a")) == 5
    assert await store.events("a") == everything
    await store.aclose()


def test_what_waits_is_given_without_making_rows(tables: Tables, backlog: Backlog) -> None:
    backlog.commit([Append("a", (said("x"),)), Append("b", (CREATED,))])
    assert [stored.seq for stored in backlog.waiting("a")] == [1, 2]
    assert tables.count() == 0
    backlog.settle()
    assert backlog.waiting("a") == []


@pytest.mark.parametrize(
    ("bound", "most"), [("MAX_WAITING_EVENTS", 10), ("MAX_WAITING_BYTES", 2_000)]
)
def test_no_more_than_the_bound_waits(
    tables: Tables, backlog: Backlog, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(backlog_module, bound, most)
    for number in range(10):
        backlog.commit([Append("a", (said("x" * 150),))])
        assert tables.count() == 0, number
    for _ in range(2):
        backlog.commit([Append("a", (said("x" * 150),))])
    assert tables.count() == 11


def test_rows_that_find_no_room_wait_and_the_commit_behind_them_is_refused_whole(
    tables: Tables, backlog: Backlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog_module, "MAX_WAITING_BYTES", 50_000)
    backlog.commit([Append("a", (said("x" * 100_000),))])
    tables.connection.pragma("max_page_count", tables.connection.pragma("page_count") + 2)
    for _ in range(2):
        with pytest.raises(StorageFull):
            backlog.commit([Append("a", (said("lost"),)), Append("b", (CREATED,))])
        with pytest.raises(StorageFull):
            backlog.settle()
    tables.connection.pragma("max_page_count", 1_000_000)
    assert seqs(backlog.commit([Append("a", (said("kept"),)), Append("b", (CREATED,))])) == [
        [3],
        [1],
    ]
    backlog.settle()
    contents = tables.connection.execute("select substr(content, 1, 4) from messages").fetchall()
    assert contents == [("xxxx",), ("kept",)]
