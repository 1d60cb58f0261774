"""No statement reads a growing table from end to end, or sorts one, but for those that may.

`tests/conftest.py` looks at every statement of every test. Here each query of `Queries` runs with each of its
options, so that a new one is looked at before anybody uses it.
"""

from __future__ import annotations

from inspect import isfunction

import apsw
import pytest

from callboard.runtime.definitions import Tier
from callboard.runtime.events import (
    ApprovalAsked,
    CallProposed,
    InputAccepted,
    SessionCreated,
    SessionDeleted,
    TurnStarted,
)
from callboard.runtime.store.file import _check
from callboard.runtime.store.interface import Store
from callboard.runtime.store.ledger import Ledger
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.migrations import migrate
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import Append
from support.query_calls import CALLS
from support.query_plans import ALLOWED, QueryPlans, unindexed_references


@pytest.fixture
def connection() -> apsw.Connection:
    made = apsw.Connection(":memory:")
    migrate(made, "it")
    return made


@pytest.fixture
def plans(connection: apsw.Connection) -> QueryPlans:
    """What this test alone has run."""
    plans = QueryPlans()
    plans.watch(connection)
    return plans


def fill(connection: apsw.Connection) -> Ledger:
    """Store a session with a call that waits for a person, and a deleted one."""
    ledger = Ledger(connection, "it")
    created = SessionCreated(agent="general", workspace="/work")
    asking = (
        InputAccepted(input_id="i", text="a report"),
        TurnStarted(turn_id="t1", input_ids=("i",), provider="p", model="m"),
        CallProposed(turn_id="t1", message_id="m", call_id="c1", index=0, name="x", arguments="{}"),
        ApprovalAsked(
            approval_id="a1",
            turn_id="t1",
            call_id="c1",
            name="x",
            tier=Tier.SYSTEM,
            reason="r",
            arguments="{}",
            digest="d",
            expires_at_ms=0,
        ),
    )
    ledger.commit([Append("s1", (created, *asking)), Append("s2", (created, SessionDeleted()))])
    return ledger


def test_each_query_is_looked_at_with_each_of_its_options() -> None:
    public = {name for name, made in vars(Queries).items() if isfunction(made) and name[0] != "_"}
    assert public == set(CALLS)
    for name, calls in CALLS.items():
        code = getattr(Queries, name).__code__
        options = set(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])
        assert options == set().union(*calls), name


def test_no_query_reads_a_growing_table_whole(
    connection: apsw.Connection, plans: QueryPlans
) -> None:
    ledger = fill(connection)
    queries = Queries(connection, "it")
    for name, calls in CALLS.items():
        for options in calls:
            getattr(queries, name)(**options)
            assert plans.take() == [], (name, options)
    ledger.purge(["s2"])
    _check(connection)
    assert plans.take() == []
    left = set(ALLOWED) - plans.used
    assert not left, "these are not needed any more"


def test_no_removal_looks_through_a_table_that_refers_to_what_goes() -> None:
    assert unindexed_references() == []


@pytest.mark.parametrize(
    ("statement", "step"),
    [
        ("select * from events", "SCAN events"),
        ("select session_id from sessions order by title limit 50", "USE TEMP B-TREE FOR ORDER BY"),
        ("update turns set ran_ms = 0 where turn_id = 't1'", "SCAN turns"),
        ("select count(*) from messages", "SCAN messages USING COVERING INDEX"),
        ("select 1 from usage u join turns t on t.turn_id = u.turn_id", "AUTOMATIC"),
    ],
)
def test_what_reads_a_table_whole_is_found(statement: str, step: str) -> None:
    plans = QueryPlans()
    plans.check(statement)
    assert any(step in found and statement in found for found in plans.take())
    plans.check("select * from events where session = 1 and seq = 2")
    assert plans.take() == []


async def test_a_store_that_a_test_opens_is_watched(query_plans: QueryPlans) -> None:
    store: Store = open_memory_store()
    await store.log_head()
    assert any("max(id)" in sql for sql in query_plans.known)
    await store.aclose()
