"""A backup is the store of one moment, and a store that was put back is another one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import apsw
import pytest
import trio

import callboard
from callboard.runtime.backup.backup import restore_backup, write_backup
from callboard.runtime.disk.data_lock import DataInUse
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError
from callboard.runtime.events import InputAccepted, SessionCreated
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader

Answer = TypeVar("Answer")
Args = TypeVarTuple("Args")


async def filled(folder: Path, count: int = 3) -> None:
    store = await open_disk_store(folder)
    created = SessionCreated(agent="general", workspace="/work")
    await store.commit([Append("session_a", (created,))])
    for number in range(count):
        await store.commit([said(number)])
    await store.aclose()


def said(number: int) -> Append:
    return Append("session_a", (InputAccepted(input_id=f"input_{number}", text=f"say {number}"),))


async def contents(folder: Path) -> tuple[int, str]:
    reader = await open_reader(folder)
    events = await reader.events("session_a")
    epoch = await reader.epoch()
    await reader.aclose()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return len(events), epoch


async def in_thread(work: Callable[[*Args], Answer], *args: *Args) -> Answer:
    return await trio.to_thread.run_sync(work, *args)


async def test_a_backup_is_restored_as_another_store(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "b.db"
    await filled(data)
    before = await contents(data)
    size = await in_thread(write_backup, data, backup)
    assert size == backup.stat().st_size
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["b.db", "data"]
    store = await open_disk_store(data)
    await store.commit([said(99)])
    await store.aclose()
    kept = await in_thread(restore_backup, data, backup)
    count, epoch = await contents(data)
    assert count == before[0]
    assert epoch != before[1]
    assert stat.S_IMODE((data / "callboard.db").stat().st_mode) == 0o600
    assert kept is not None
    kept.rename(data / "callboard.db")  # what was there before is whole
    assert await contents(data) == (before[0] + 1, before[1])


async def test_a_backup_goes_into_a_folder_without_a_store(tmp_path: Path) -> None:
    await filled(tmp_path / "data")
    await in_thread(write_backup, tmp_path / "data", tmp_path / "b.db")
    assert await in_thread(restore_backup, tmp_path / "new", tmp_path / "b.db") is None
    assert (await contents(tmp_path / "new"))[0] == 4


async def test_case_61_a_backup_under_load_is_whole(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await filled(data, 50)
    store = await open_disk_store(data)
    acknowledged = 51
    done = trio.Event()
    counts = []

    async def write() -> None:
        nonlocal acknowledged
        number = 1000
        while not done.is_set():
            await store.commit([said(number)])
            acknowledged += 1
            number += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        for number in range(5):
            at_least = acknowledged
            await in_thread(write_backup, data, tmp_path / f"{number}.db")
            counts.append((at_least, acknowledged + 1))
        done.set()
    await store.aclose()
    for number, (at_least, at_most) in enumerate(counts):
        folder = tmp_path / f"restored{number}"
        await in_thread(restore_backup, folder, tmp_path / f"{number}.db")
        count, _ = await contents(folder)
        assert at_least <= count <= at_most
    assert acknowledged > 51


async def test_a_running_process_is_not_restored_under(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "b.db"
    await filled(data)
    await in_thread(write_backup, data, backup)
    before = await contents(data)
    store = await open_disk_store(data)
    with pytest.raises(DataInUse):
        await in_thread(restore_backup, data, backup)
    await store.aclose()
    assert await contents(data) == before
    await in_thread(restore_backup, data, backup)


async def test_nothing_is_overwritten(tmp_path: Path) -> None:
    await filled(tmp_path / "data")
    (tmp_path / "b.db").write_text("mine")
    with pytest.raises(ConflictError, match="not overwritten"):
        await in_thread(write_backup, tmp_path / "data", tmp_path / "b.db")
    assert (tmp_path / "b.db").read_text() == "mine"
    with pytest.raises(NotFoundError, match="no folder"):
        await in_thread(write_backup, tmp_path / "data", tmp_path / "no" / "b.db")
    with pytest.raises(NotFoundError):
        await in_thread(write_backup, tmp_path / "empty", tmp_path / "c.db")
    assert sorted(os.listdir(tmp_path)) == ["b.db", "data"]


async def test_what_is_no_whole_store_is_not_restored(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "b.db"
    await filled(data)
    before = await contents(data)
    await in_thread(write_backup, data, backup)
    whole = backup.read_bytes()
    foreign = tmp_path / "foreign.db"
    apsw.Connection(str(foreign)).execute("create table t (x)")
    newer = tmp_path / "newer.db"
    newer.write_bytes(whole)
    connection = apsw.Connection(str(newer))
    connection.pragma("user_version", 1000)
    connection.close()
    cut, text, torn = tmp_path / "cut.db", tmp_path / "text.db", tmp_path / "torn.db"
    cut.write_bytes(whole[: len(whole) // 2])
    text.write_text("no database at all, but long enough to be read as one. " * 40)
    torn.write_bytes(whole[:8192] + b"\xff" * 4096 + whole[12288:])
    for bad in (foreign, newer, cut, text, torn):
        with pytest.raises(StorageError):
            await in_thread(restore_backup, data, bad)
        assert await contents(data) == before
    with pytest.raises(NotFoundError):
        await in_thread(restore_backup, data, tmp_path / "none.db")
    assert not [name for name in os.listdir(data) if "restored" in name or "before" in name]


async def test_a_damaged_store_is_kept_and_replaced(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "b.db"
    await filled(data)
    await in_thread(write_backup, data, backup)
    (data / "callboard.db").write_bytes(b"gone" * 5000)
    kept = await in_thread(restore_backup, data, backup)
    assert kept is not None
    assert kept.read_bytes() == b"gone" * 5000
    assert (await contents(data))[0] == 4


async def test_a_restored_store_goes_on(tmp_path: Path) -> None:
    data, backup, work = tmp_path / "data", tmp_path / "b.db", tmp_path / "work"
    work.mkdir()
    async with callboard.open_runtime(
        model="rehearsal", workspace=work, data=data, environ={}
    ) as runtime:
        session = await runtime.create_session()
        await session.run("Hello")
        await in_thread(write_backup, data, backup)
        await session.run("And again")
    await in_thread(restore_backup, data, backup)
    async with callboard.open_runtime(
        model="rehearsal", workspace=work, data=data, environ={}
    ) as runtime:
        session = await runtime.get_session(session.session_id)
        await session.run("What time is it in Tokyo?")
        rows = await runtime.store.messages(session.session_id)
        assert [row.content for row in rows if row.type == "user"] == [
            "Hello",
            "What time is it in Tokyo?",
        ]
