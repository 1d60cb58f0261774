"""A record is copied between a file and a database, and nothing of it is different there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")
import psycopg

from callboard.runtime.backup.store_copy import copy_store
from callboard.runtime.definitions import CallStatus
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError
from callboard.runtime.events import (
    CallFinished,
    CallProposed,
    DurableEvent,
    FilesMarked,
    InputAccepted,
    SessionCreated,
    SessionDeleted,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.store.interface import Store, StoreReader
from callboard.runtime.store.postgres.store import open_postgres_reader, open_postgres_store
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import (
    open_disk_store,
    open_kept_store,
    open_reader,
)
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


async def put(store: Store, session_id: str, *events: DurableEvent) -> None:
    (result,) = await store.commit([Append(session_id, events)])
    assert isinstance(result, tuple), result


async def fill(store: Store) -> None:
    """Sessions that depend on one another: a child's answer, marks of files, a deleted one, many events."""
    created = SessionCreated(agent="general", workspace="/work")
    began = TurnStarted(turn_id="t", input_ids=(), provider="p", model="m")
    ended = TurnEnded(turn_id="t", outcome="answered", duration_ms=1)
    await put(store, "parent", created, InputAccepted(input_id="i", text="Grüße \0 \u2028"), began)
    child = SessionCreated(
        agent="general", workspace="/work", parent_id="parent", parent_call_id="c", is_detached=True
    )
    await put(store, "child", child, began, ended)
    await put(store, "child", FilesMarked(call_id="x", marked=("/work/a", "/work/b")))
    answer = InputAccepted(input_id="j", text="done", child_id="child")
    await put(store, "parent", ended, answer, FilesMarked(call_id="y", cleared=("/work/a",)))
    await put(store, "child", InputAccepted(input_id="k", text="and later"))
    await put(store, "gone", created, SessionDeleted())
    for number in range(300):
        call = f"c{number}"
        proposed = CallProposed(
            turn_id="t", message_id="m", call_id=call, index=0, name="x", arguments="{}"
        )
        done = CallFinished(
            turn_id="t",
            call_id=call,
            name="x",
            status=CallStatus.SUCCESS,
            result="{}",
            display="",
            duration_ms=1,
        )
        await put(store, "gone" if number % 2 else "child", proposed, done)


async def all_of(reader: StoreReader) -> object:
    """What a reader has, but for its epoch and what differs by the kind of the store."""
    rows = await reader.sessions(limit=100, include_deleted=True)
    return (
        rows,
        [await reader.events(row.session_id) for row in rows],
        sorted(await reader.marked_files()),
        await reader.children(is_detached=True),
        await reader.open_inputs("parent"),
        [(call.call_id, call.status) for call in await reader.calls(limit=1000)],
    )


async def test_a_record_goes_to_a_database_and_back(tmp_path: Path, url: str) -> None:
    store = await open_disk_store(tmp_path / "one")
    await fill(store)
    await store.aclose()
    assert tuple(await copy_store(str(tmp_path / "one"), url)) == (3, 613)
    assert tuple(await copy_store(url, str(tmp_path / "two"))) == (3, 613)
    first, second = await open_reader(tmp_path / "one"), await open_reader(tmp_path / "two")
    between = await open_postgres_reader(url)
    assert await all_of(first) == await all_of(second)
    assert await between.marked_files() == ["/work/b"]
    assert [row.session_id for row in await between.sessions()] == ["child", "parent"]
    for reader in (first, second, between):
        await reader.aclose()


async def test_a_copy_never_goes_onto_a_record_or_away_from_a_writer(
    tmp_path: Path, url: str
) -> None:
    store = await open_disk_store(tmp_path / "one")
    await fill(store)
    with pytest.raises(ConflictError, match="in use"):
        await copy_store(str(tmp_path / "one"), url)
    await store.aclose()
    await copy_store(str(tmp_path / "one"), url)
    with pytest.raises(ConflictError, match="holds sessions already"):
        await copy_store(str(tmp_path / "one"), url)
    with pytest.raises(NotFoundError):
        await copy_store(str(tmp_path / "none"), url)
    writer = await open_postgres_store(url)
    with pytest.raises(ConflictError, match="Another callboard writes"):
        await copy_store(url, str(tmp_path / "two"))
    await writer.aclose()
    await copy_store(url, str(tmp_path / "three"))


async def test_a_difference_is_found(tmp_path: Path, url: str) -> None:
    store = await open_disk_store(tmp_path / "one")
    await fill(store)
    await store.aclose()

    def changed(line: str) -> None:
        if line.startswith("comparing"):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("delete from events where seq = 2 and session = 2")

    with pytest.raises(StorageError, match="came out different: the copy is not to be used"):
        await copy_store(str(tmp_path / "one"), url, changed)


@pytest.mark.parametrize("where", ["file", "database"])
async def test_a_copy_that_died_is_opened_by_nobody_and_one_that_ended_is(
    tmp_path: Path, url: str, where: str
) -> None:
    store = await open_disk_store(tmp_path / "one")
    await fill(store)
    await store.aclose()
    target = str(tmp_path / "two") if where == "file" else url

    class KilledError(Exception):
        pass

    def kill(line: str) -> None:
        if line.startswith("comparing"):
            raise KilledError

    with pytest.raises(KilledError):
        await copy_store(str(tmp_path / "one"), target, kill)
    folder = None if where == "database" else tmp_path / "two"
    with pytest.raises(StorageError, match=r"holds a part of .*one: copying that"):
        await open_kept_store(folder, None if folder else url)
    with pytest.raises(StorageError, match="holds a part of"):
        await (open_reader(folder) if folder else open_postgres_reader(url))
    for source, other in ((str(tmp_path / "one"), target), (target, str(tmp_path / "three"))):
        with pytest.raises(StorageError, match="holds a part of"):
            await copy_store(source, other)
    # The control: the same copy, when nothing kills it.
    await copy_store(str(tmp_path / "one"), str(tmp_path / "four"))
    whole = await open_kept_store(tmp_path / "four")
    assert len(await whole.sessions()) == 2
    await whole.aclose()
