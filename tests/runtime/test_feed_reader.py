"""What every store gives to clients far away: its epoch, events as bytes, topics, done requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from callboard.runtime.errors import ConflictError
from callboard.runtime.events import (
    DurableEvent,
    InputAccepted,
    SessionCreated,
    SessionDeleted,
    SessionPurged,
    TitleSet,
    TurnEnded,
)
from callboard.runtime.identity import RequestKey
from callboard.runtime.store.feeds import DoneRequest, Topic
from callboard.runtime.store.interface import Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store

KEY = RequestKey("cli", "session/prompt", "k1", "digest")


@pytest.fixture(params=["memory", "disk"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_memory_store() if request.param == "memory" else await open_disk_store(tmp_path)
    yield opened
    await opened.aclose()


def created(key: RequestKey | None = None) -> SessionCreated:
    return SessionCreated(agent="general", workspace="/work", request=key)


def said(text: str, key: RequestKey | None = None) -> InputAccepted:
    return InputAccepted(input_id=text, text=text, request=key)


async def commit(store: Store, session_id: str, *events: DurableEvent) -> object:
    (result,) = await store.commit([Append(session_id, events)])
    return result


async def test_the_bytes_of_events_are_what_they_decode_to(store: Store) -> None:
    await commit(store, "s", created(), said("Grüß dich"), said("two"))
    found = await store.event_bytes("s", after_seq=1)
    stored = await store.events("s", after_seq=1)
    assert [(each.seq, each.at_ms) for each in found] == [(each.seq, each.at_ms) for each in stored]
    decoded = [msgspec.json.decode(each.event, type=InputAccepted) for each in found]
    assert decoded == [each.event for each in stored]
    assert [each.seq for each in await store.event_bytes("s", limit=2)] == [1, 2]
    assert await store.event_bytes("none") == []


async def test_topics_have_the_order_of_all_sessions(store: Store) -> None:
    assert (await store.log(), await store.log_head()) == ([], 0)
    await commit(store, "s", created(), said("not of a topic"))
    await commit(store, "t", created())
    await commit(store, "s", TitleSet(title="one"), TurnEnded(turn_id="t1", outcome="answered"))
    log = await store.log()
    assert [(each.stored.session_id, each.stored.seq) for each in log] == [
        ("s", 1),
        ("t", 1),
        ("s", 3),
        ("s", 4),
    ]
    assert [each.seq for each in log] == [1, 2, 3, 4]
    assert {(each.topic, each.agent) for each in log} == {(Topic.SESSIONS, "general")}
    assert await store.log_head() == 4
    assert await store.log(after_seq=2, limit=1) == log[2:3]
    assert await store.log(topic=Topic.SESSIONS) == log
    assert await store.log(topic=Topic.APPROVALS) == []


async def test_a_request_is_stored_with_its_event_and_no_second_one(store: Store) -> None:
    await commit(store, "s", created(), said("first"))
    assert await store.request(KEY) is None
    await commit(store, "s", said("once", KEY))
    assert await store.request(KEY) == DoneRequest("digest", "s", 3)
    refused = await commit(store, "s", said("again", KEY))
    assert isinstance(refused, ConflictError)
    assert (await store.events("s"))[-1].event == said("once", KEY)
    other = RequestKey("cli", "session/new", "k1", "digest")
    await commit(store, "t", created(other))
    assert await store.request(other) == DoneRequest("digest", "t", 1)
    assert isinstance(await commit(store, "u", created(other)), ConflictError)
    assert await store.session("u") is None


async def test_two_requests_with_one_key_in_one_commit_are_done_once(store: Store) -> None:
    await commit(store, "s", created())
    results = await store.commit([Append("s", (said(text, KEY),)) for text in ("a", "b")])
    assert isinstance(results[0], tuple)
    assert isinstance(results[1], ConflictError)
    assert len(await store.events("s")) == 2


async def test_what_is_purged_is_no_topics_and_no_number_is_given_twice(store: Store) -> None:
    await commit(store, "s", created(KEY), SessionDeleted())
    (purged,) = await store.purge(["s"])
    assert (purged.session_id, purged.seq, purged.event) == ("s", 3, SessionPurged())
    assert await store.request(KEY) is None
    await commit(store, "t", created(KEY))
    assert [each.seq for each in await store.log()] == [3, 4]  # what was said of it is gone
    gone, entry = await store.log(after_seq=2)
    assert (gone.stored.session_id, gone.stored.seq, gone.topic) == ("s", 3, Topic.SESSIONS)
    assert (gone.agent, bytes(gone.stored.event)) == ("general", b'{"type":"session_purged"}')
    assert (entry.stored.session_id, entry.seq) == ("t", 4)
    assert await store.log_head() == 4
    assert await store.log(after_seq=2, topic=Topic.APPROVALS) == []


async def test_a_store_keeps_its_epoch_and_another_has_another(tmp_path: Path) -> None:
    epochs = []
    for folder in ("one", "one", "two"):
        opened = await open_disk_store(tmp_path / folder)
        epochs.append(await opened.epoch())
        await opened.aclose()
    epochs += [await open_memory_store().epoch() for _ in range(2)]
    assert epochs[0] == epochs[1]
    assert len(set(epochs)) == 4
    assert all(len(epoch) == 32 for epoch in epochs)
