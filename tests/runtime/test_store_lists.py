"""Lists, pages and searches say the same by their indexes as a look through all rows would."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from callboard.runtime.definitions import SessionKind
from callboard.runtime.events import (
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    SessionDeleted,
    Stored,
    TurnEnded,
    TurnStarted,
    TurnSuspended,
)
from callboard.runtime.history import Text
from callboard.runtime.identity import RequestKey
from callboard.runtime.store.interface import Store
from callboard.runtime.store.lists import SessionFilter, Visibility, WordSearch
from callboard.runtime.store.rows import Append
from callboard.runtime.store.tables import search
from callboard.runtime.stream import Usage
from support.both_stores import Clock
from support.both_stores import store as store

DAY_MS = 86_400_000


@pytest.fixture
def clock() -> Clock:
    return Clock(10 * DAY_MS)


async def put(store: Store, session_id: str, *events: DurableEvent) -> None:
    (result,) = await store.commit([Append(session_id, events)])
    assert isinstance(result, tuple), result


def created(workspace: str = "/work", parent_id: str | None = None) -> SessionCreated:
    kind = SessionKind.MAIN if parent_id is None else SessionKind.WORKER
    return SessionCreated(agent="general", workspace=workspace, parent_id=parent_id, kind=kind)


BEGUN = {
    "": created(),
    "openai": msgspec.structs.replace(created(), via="openai"),
    "schedule": msgspec.structs.replace(
        created(), request=RequestKey("schedule:daily", "planned", "1", "")
    ),
    "hook": msgspec.structs.replace(created(), request=RequestKey("hook:ci", "session", "1", "")),
    "of a token": msgspec.structs.replace(
        created(), via="mcp", request=RequestKey("scheduled", "session/new", "1", "")
    ),
}


async def test_sessions_are_listed_by_what_began_them(store: Store) -> None:
    for name, event in BEGUN.items():
        await put(store, name or "own", event, InputAccepted(input_id=name, text="the report"))
    for name in ("openai", "schedule", "hook"):
        assert await pages(store, 1, SessionFilter(via=name)) == [name]
    assert await pages(store, 1, SessionFilter(via="")) == ["own"]
    assert await pages(store, 1, SessionFilter(via="mcp")) == ["of a token"]
    assert len(await pages(store, 2, SessionFilter())) == len(BEGUN)
    assert {row.session_id: row.via for row in await store.sessions()} == {
        **{name or "own": name for name in BEGUN},
        "of a token": "mcp",
    }
    while await store.index_words():
        pass
    found = await store.hits(WordSearch(query="report", via="hook"))
    assert [hit.session.session_id for hit in found] == ["hook"]


def began(turn_id: str = "t1") -> tuple[DurableEvent, ...]:
    prompt = InputAccepted(input_id=f"of {turn_id}", text="the report")
    start = TurnStarted(turn_id=turn_id, input_ids=(prompt.input_id,), provider="p", model="m")
    return prompt, start


def answered(turn_id: str = "t1", text: str = "done") -> MessageCompleted:
    return MessageCompleted(
        turn_id=turn_id,
        message_id=f"to {turn_id}",
        parts=(Text(text=text),),
        provider="p",
        model="m",
        usage=Usage(input_tokens=1, output_tokens=1),
    )


def ended(turn_id: str = "t1") -> TurnEnded:
    return TurnEnded(turn_id=turn_id, outcome="answered")


async def pages(store: Store, limit: int, wanted: SessionFilter) -> list[str]:
    found: list[str] = []
    before = None
    while True:
        page = await store.session_page(
            SessionFilter(
                limit=limit,
                before=before,
                deleted=wanted.deleted,
                workspace=wanted.workspace,
                kind=wanted.kind,
                via=wanted.via,
                include_children=wanted.include_children,
                within=wanted.within,
            )
        )
        found += [row.session_id for row in page.sessions]
        before = page.next_before
        if before is None:
            return found


async def test_running_and_idle_sessions_stand_in_one_list(store: Store) -> None:
    random = Random(7)
    latest: list[str] = []
    state: dict[str, int] = {}
    deleted: set[str] = set()
    for step in range(120):
        name = f"s{random.randrange(12)}"
        turn = state.get(name, 0)
        if not turn:
            state[name] = 1
            parent = "s0" if name in {"s3", "s5"} else None
            await put(store, name, created(f"/{name}" if name < "s5" else "/work", parent))
        elif turn % 3 == 1:
            await put(store, name, *began(f"t{turn}"))
            state[name] += 1
        elif turn % 3 == 2:
            await put(store, name, answered(f"t{turn - 1}"))
            state[name] += 1
        elif name == "s7" and step > 60:
            await put(store, name, ended(f"t{turn - 2}"), SessionDeleted())
            deleted.add(name)
        else:
            await put(store, name, ended(f"t{turn - 2}"))
            state[name] += 1
        latest = [name, *(each for each in latest if each != name)]
    assert any(row.is_active for row in await store.sessions())
    assert not all(row.is_active for row in await store.sessions())
    there = [name for name in latest if name not in deleted]
    assert [row.session_id for row in await store.sessions(limit=50)] == there
    assert [row.session_id for row in await store.sessions(limit=3)] == there[:3]
    everything = [row.session_id for row in await store.sessions(include_deleted=True)]
    assert everything == latest
    for limit in (1, 2, 5, 100):
        assert await pages(store, limit, SessionFilter()) == there
        assert await pages(store, limit, SessionFilter(deleted="also")) == latest
        only = await pages(store, limit, SessionFilter(deleted="only"))
        assert only == [name for name in latest if name in deleted]
        here = await pages(store, limit, SessionFilter(workspace="/work"))
        assert here == [name for name in there if name >= "s5"]
        without = await pages(store, limit, SessionFilter(include_children=False))
        assert without == [name for name in there if name not in {"s3", "s5"}]
        workers = await pages(store, limit, SessionFilter(kind=SessionKind.WORKER))
        assert workers == [name for name in there if name in {"s3", "s5"}]
        assert await pages(store, limit, SessionFilter(kind=SessionKind.MAIN)) == without
        assert await pages(store, limit, SessionFilter(kind=SessionKind.BRANCH)) == []
        few = Visibility(session_ids=("s1", "s2", "none"))
        seen = await pages(store, limit, SessionFilter(within=few))
        assert seen == [name for name in there if name in {"s1", "s2"}]
    nobody = SessionFilter(within=Visibility(agents=()))
    assert await pages(store, 5, nobody) == []


async def test_a_suspended_session_keeps_its_place_in_the_list(store: Store) -> None:
    await put(store, "a", created(), *began())
    await put(store, "b", created())
    await put(store, "a", TurnSuspended(turn_id="t1", call_ids=()))
    assert [row.session_id for row in await store.sessions()] == ["a", "b"]


async def test_unused_sessions_come_in_pages_the_longest_unused_first(
    store: Store, clock: Clock
) -> None:
    names = [f"s{number}" for number in range(7)]
    for name in names:  # five of them at one time
        clock.ms += DAY_MS if name in {"s1", "s6"} else 0
        await put(store, name, created())
    await put(store, "child", created(parent_id="s0"))
    await put(store, "gone", created(), SessionDeleted())
    await put(store, "runs", created(), *began())
    assert await store.unused_sessions(10 * DAY_MS, limit=5) == []
    found: list[str] = []
    after = None
    while page := await store.unused_sessions(12 * DAY_MS, after=after, limit=2):
        found += [row.session_id for row in page]
        after = page[-1].updated_at_ms, page[-1].session_id
    assert found == names[:6]


async def test_usage_since_a_time_is_found_whatever_order_times_have(
    store: Store, clock: Clock
) -> None:
    await put(store, "a", created(), *began())
    for day in (10, 11, 12):
        clock.ms = day * DAY_MS + 5
        await put(store, "a", answered(f"t{day}"))
    old = [created(), *began("t3"), answered("t3")]
    await store.bring_in(
        [Stored("old", seq, 3 * DAY_MS, event) for seq, event in enumerate(old, 1)]
    )
    clock.ms = 11 * DAY_MS + 7  # set back
    await put(store, "a", answered("back"))

    async def since(time_ms: int, after: int = 0) -> list[str]:
        return [row.turn_id for row in await store.usage(since_ms=time_ms, after=after)]

    assert await since(0) == ["t10", "t11", "t12", "t3", "back"]
    assert await since(3 * DAY_MS) == ["t10", "t11", "t12", "t3", "back"]
    assert await since(4 * DAY_MS) == ["t10", "t11", "t12", "back"]
    assert await since(11 * DAY_MS + 6) == ["t12", "back"]
    assert await since(12 * DAY_MS) == ["t12"]
    assert await since(13 * DAY_MS) == []
    first = await store.usage(since_ms=11 * DAY_MS, limit=1)
    assert await since(11 * DAY_MS, after=first[0].position) == ["t12", "back"]
    assert [row.turn_id for row in await store.usage("old", since_ms=1)] == ["t3"]


async def test_usage_is_found_when_rows_of_purged_sessions_are_used_again(
    store: Store, clock: Clock
) -> None:
    await put(store, "a", created(), *began(), answered())
    await put(store, "b", created(), *began(), answered(), answered("t2"), ended())
    await put(store, "b", SessionDeleted())
    clock.ms += DAY_MS
    await put(store, "b", answered("t3"))
    await store.purge(["b"])
    await put(store, "a", answered("later"))
    assert [row.turn_id for row in await store.usage(since_ms=clock.ms)] == ["later"]


async def test_the_open_turn_of_one_session(store: Store) -> None:
    for name in ("a", "b", "c"):
        await put(store, name, created(), *began(f"of {name}"))
    await put(store, "c", ended("of c"))
    assert [turn.turn_id for turn in await store.open_turns()] == ["of a", "of b"]
    assert [turn.turn_id for turn in await store.open_turns("b")] == ["of b"]
    assert await store.open_turns("c") == await store.open_turns("none") == []


async def found(
    store: Store, query: str, limit: int = 20, offset: int = 0
) -> list[tuple[str, str, int]]:
    while await store.index_words():
        pass
    hits = await store.hits(WordSearch(query=query, limit=limit, offset=offset))
    return [(hit.session.session_id, hit.message_id, hit.matches) for hit in hits]


async def test_the_best_hits_come_first_and_in_pages(
    store: Store, request: pytest.FixtureRequest
) -> None:
    for number in range(6):
        name = f"s{number}"
        text = "the report " * (number % 3 + 1) + "and much else that is said " * 3
        await put(store, name, created(), *began(), answered(text=text), ended())
    await put(store, "gone", created(), *began(), SessionDeleted())
    everything = await found(store, "report")
    # A prompt of two words is a better match than a long answer; of equals the latest comes first.
    assert everything == [(f"s{number}", "of t1", 2) for number in (5, 4, 3, 2, 1, 0)]
    pages = [await found(store, "report", limit=4, offset=offset) for offset in (0, 4, 8)]
    assert pages == [everything[:4], everything[4:], []]
    shortest_first = ["s3", "s0", "s4", "s1", "s5", "s2"]
    both = [hit[0] for hit in await found(store, "much report")]
    if request.node.callspec.params["store"] == "postgres":  # it ranks by how near the words are
        both.sort(key=shortest_first.index)
    assert both == shortest_first


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, {"a", "b", "c"}),
        ({"agent": "coder"}, {"b"}),
        ({"workspace": "/other"}, {"c"}),
        ({"workspace": "/nowhere"}, set()),
        ({"kind": SessionKind.WORKER}, {"c"}),
        ({"include_children": False}, {"a", "b"}),
        ({"agent": "general", "include_children": False}, {"a"}),
    ],
)
async def test_words_are_found_in_the_sessions_of_a_filter(
    store: Store, wanted: dict[str, Any], names: set[str]
) -> None:
    below = SessionCreated(
        agent="general",
        workspace="/other",
        kind=SessionKind.WORKER,
        parent_id="a",
        parent_call_id="c1",
    )
    other = SessionCreated(agent="coder", workspace="/work")
    for name, first in (("a", created()), ("b", other), ("c", below)):
        await put(store, name, first, *began(), answered(text="a report"), ended())
    while await store.index_words():
        pass
    hits = await store.hits(WordSearch(query="report", **wanted))
    assert {hit.session.session_id for hit in hits} == names


async def test_of_one_session_each_message_is_a_hit_the_latest_first(store: Store) -> None:
    await put(store, "a", created(), *began(), answered(text="a report"), ended())
    await put(store, "b", created(), *began(), answered(text="one report"), ended())
    await put(store, "b", *began("t2"), answered("t2", text="nothing"), ended("t2"))
    await put(store, "b", *began("t3"), answered("t3", text="the second report"), ended("t3"))
    while await store.index_words():
        pass
    wanted = WordSearch(query="report", session_id="b", limit=3)
    hits = await store.hits(wanted)
    rows = {row.message_id: row.position for row in await store.messages("b")}
    assert [hit.position for hit in hits] == sorted((hit.position for hit in hits), reverse=True)
    assert {hit.message_id: hit.position for hit in hits}.items() <= rows.items()
    assert len(hits) == 3
    assert {hit.session.session_id for hit in hits} == {"b"}
    assert {hit.message_id for hit in hits} >= {"to t3"}
    everything = await store.hits(WordSearch(query="report", session_id="b", limit=20))
    assert {hit.matches for hit in everything} == {len(everything)}
    assert "to t2" not in {hit.message_id for hit in everything}
    assert await store.hits(WordSearch(query="report", session_id="none")) == []


async def test_of_a_word_that_all_messages_hold_the_latest_are_ranked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_MATCHES", 4)
    for number in range(6):
        await put(store, f"s{number}", created(), *began(), answered(text="a report"), ended())
    assert {hit[0] for hit in await found(store, "report")} == {"s4", "s5"}
    await put(store, "s0", *began("t2"), answered("t2", text="a rare report"))
    assert await found(store, "rare") == [("s0", "to t2", 1)]


def test_a_message_that_is_purged_during_a_search_is_left_out() -> None:
    ranked: list[tuple[object, ...]] = [(1, 1, -2.0), (2, 2, -1.0)]  # message, session, rank
    kept: list[tuple[object, ...]] = [(2, "s2", "m2", 1, "user", "a word", 0)]
    answers = iter([ranked, kept])
    [match] = search.find_matches(lambda sql, values: next(answers), WordSearch(query="word"))
    assert match.session_id == "s2"
