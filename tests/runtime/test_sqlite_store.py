"""What only a store in a file does: its folder, its file, readers beside it, faults of the disk."""

from __future__ import annotations

import errno
import os
import resource
import stat
import threading
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio
import trio.testing

from callboard.runtime.backup.upkeep import compact
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError, StorageFull
from callboard.runtime.events import DurableEvent, InputAccepted, SessionCreated, Stored
from callboard.runtime.store import file, sqlite_store
from callboard.runtime.store.file import open_writer
from callboard.runtime.store.interface import Store
from callboard.runtime.store.ledger import Ledger
from callboard.runtime.store.migrations import _CHECKSUMS, MIGRATIONS, migrate
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader
from support.store_log import FRAME_BYTES, HEAD_BYTES, pages_in

CREATED = SessionCreated(agent="general", workspace="/work")


def said(text: str) -> InputAccepted:
    return InputAccepted(input_id="i", text=text)


async def put(store: Store, *events: DurableEvent) -> None:
    (result,) = await store.commit([Append("s1", events)])
    assert isinstance(result, tuple), result


async def texts(folder: Path) -> list[str]:
    reader = await open_reader(folder)
    rows = await reader.messages("s1")
    await reader.aclose()
    return [row.content for row in rows]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def refused(folder: Path) -> str:
    before = contents(folder)
    with pytest.raises(StorageError) as writing:
        await open_disk_store(folder)
    with pytest.raises(StorageError) as reading:
        await open_reader(folder)
    assert str(reading.value) == str(writing.value)
    assert contents(folder) == before
    return str(writing.value)


async def test_folder_and_files_are_the_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "data"
    store = await open_disk_store(folder)
    await put(store, CREATED)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert names(folder) == {
        "callboard.db",
        "callboard.db-last",
        "callboard.db-wal",
        "callboard.db-shm",
        "callboard.lock",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    await store.aclose()
    assert names(folder) == {"callboard.db", "callboard.db-last", "callboard.lock"}


async def test_what_was_committed_is_there_after_reopening(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, said("first"))
    await store.aclose()
    store = await open_disk_store(tmp_path)
    await put(store, said("second"))
    assert [stored.seq for stored in await store.events("s1")] == [1, 2, 3]
    await store.aclose()
    assert await texts(tmp_path) == ["first", "second"]


async def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    with pytest.raises(ConflictError, match=f"process {os.getpid()}"):
        await open_disk_store(tmp_path)
    await put(store, CREATED, said("still here"))
    await store.aclose()
    assert await texts(tmp_path) == ["still here"]


async def test_a_refused_file_leaves_the_folder_unlocked(tmp_path: Path) -> None:
    (tmp_path / "callboard.db").write_bytes(b"not a database, but long enough" * 100)
    await refused(tmp_path)
    (tmp_path / "callboard.db").unlink()
    store = await open_disk_store(tmp_path)
    await store.aclose()


@pytest.mark.parametrize("data", [b"", b"hello", b"\0" * 8192, b"[section]\nkey = 1\n" * 500])
async def test_a_file_that_is_no_database_is_named_and_untouched(
    tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "callboard.db"
    path.write_bytes(data)
    assert str(path) in await refused(tmp_path)


@pytest.mark.parametrize("mode", ["delete", "wal"])
async def test_another_programs_database_is_refused(tmp_path: Path, mode: str) -> None:
    connection = apsw.Connection(str(tmp_path / "callboard.db"))
    connection.pragma("journal_mode", mode)
    connection.execute("create table theirs (x)")
    connection.close()
    assert "not a callboard store" in await refused(tmp_path)


async def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    await (await open_disk_store(tmp_path)).aclose()
    connection = apsw.Connection(str(tmp_path / "callboard.db"))
    connection.pragma("user_version", len(MIGRATIONS) + 1)
    connection.close()
    assert "newer callboard" in await refused(tmp_path)


async def test_a_newer_file_with_its_log_is_refused_and_both_are_untouched(tmp_path: Path) -> None:
    await (await open_disk_store(tmp_path)).aclose()
    # What a newer version leaves when it is killed: the version is in the log alone.
    connection = apsw.Connection(str(tmp_path / "callboard.db"))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.pragma("user_version", len(MIGRATIONS) + 1)
    connection.close()
    assert (tmp_path / "callboard.db-wal").stat().st_size > 0
    before = contents(tmp_path)
    with pytest.raises(StorageError, match="newer callboard"):
        await open_disk_store(tmp_path)
    after = contents(tmp_path)
    for name in ("callboard.db", "callboard.db-wal"):
        assert after[name] == before[name]


async def test_a_heartbeat_writes_after_a_failure_and_ends_it(tmp_path: Path) -> None:
    def fail() -> None:
        raise StorageError("the disk failed")

    store = await open_disk_store(tmp_path)
    log = tmp_path / "callboard.db-wal"

    async def written() -> int:
        before = pages_in(log)
        await store.commit([Append("", ())])
        return pages_in(log) - before

    await store.commit([Append("s1", (SessionCreated(agent="general", workspace="/w"),))])
    assert await written() == 0
    with pytest.raises(StorageError):
        store.health.room.removing(fail)
    assert await written() > 0
    assert store.health.problem() == ""
    await store.aclose()


def test_the_writer_syncs_every_commit(tmp_path: Path) -> None:
    connection = open_writer(tmp_path)
    assert connection.pragma("synchronous") == 2  # FULL
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("foreign_keys") == 1
    connection.close()


async def test_most_commits_leave_the_log_as_long_as_it_was(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    log = tmp_path / "callboard.db-wal"
    await put(store, CREATED)
    sizes, pages = set(), pages_in(log)
    for number in range(60):
        await put(store, said(f"number {number}"))
        sizes.add(log.stat().st_size)
    assert pages_in(log) > pages + 120
    assert len(sizes) <= 5
    await store.aclose()
    assert len(await texts(tmp_path)) == 60


async def test_the_log_is_written_back_and_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "CHECKPOINT_PAGES", 50)
    store = await open_disk_store(tmp_path)
    log = tmp_path / "callboard.db-wal"
    for number in range(60):
        await put(store, CREATED if number == 0 else said(f"number {number}"))
        assert pages_in(log) < 50 + 20
    assert log.stat().st_size < (50 + 20) * FRAME_BYTES
    await store.aclose()
    assert len(await texts(tmp_path)) == 59


async def test_a_log_that_can_not_be_filled_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, said("first"))
    await put(store, said("second"))
    log = tmp_path / "callboard.db-wal"
    assert log.stat().st_size == HEAD_BYTES + pages_in(log) * FRAME_BYTES
    await store.aclose()
    assert await texts(tmp_path) == ["first", "second"]


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, *(said("x" * 500) for _ in range(100)))
    await store.aclose()
    path = tmp_path / "callboard.db"
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 30] = b"\xa5" * (4096 * 27)
    path.write_bytes(data)
    before = contents(tmp_path)
    with pytest.raises(StorageError, match=r"callboard\.db is damaged"):
        await open_disk_store(tmp_path)
    assert contents(tmp_path) == before


async def make_damaged(folder: Path) -> None:
    store = await open_disk_store(folder)
    await put(store, CREATED, *(said("x" * 500) for _ in range(100)))
    await store.aclose()
    path = folder / "callboard.db"
    connection = apsw.Connection(str(path))
    root = connection.execute("select rootpage from sqlite_schema where name = 'messages'").get
    connection.close()
    data = bytearray(path.read_bytes())
    data[4096 * (root - 1) : 4096 * root] = b"\xa5" * 4096
    path.write_bytes(data)


def remember_checks(monkeypatch: pytest.MonkeyPatch) -> list[file.DamageCheck]:
    """Have every file checked while it is used; return the checks, as they begin."""
    checks: list[file.DamageCheck] = []

    class Remembered(file.DamageCheck):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            checks.append(self)

    monkeypatch.setattr(file, "MAX_CHECKED_FIRST_BYTES", 0)
    monkeypatch.setattr(sqlite_store, "DamageCheck", Remembered)
    return checks


async def test_a_large_file_is_looked_through_while_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await make_damaged(tmp_path)
    checks = remember_checks(monkeypatch)
    store = await open_disk_store(tmp_path)
    await trio.to_thread.run_sync(checks[0].wait)
    with pytest.raises(StorageError, match=r"callboard\.db is damaged"):
        await put(store, said("more"))
    assert "callboard.db is damaged" in caplog.text
    assert [row.session_id for row in await store.sessions()] == ["s1"]  # what is whole can be read
    await store.aclose()


async def test_a_large_file_is_looked_through_first_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_damaged(tmp_path)
    (tmp_path / "callboard.db-wal").write_bytes(b"left by a crash")
    monkeypatch.setattr(file, "MAX_CHECKED_FIRST_BYTES", 0)
    with pytest.raises(StorageError, match=r"callboard\.db is damaged"):
        await open_disk_store(tmp_path)


async def test_closing_ends_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, *(said("x" * 500) for _ in range(100)))
    await store.aclose()
    checks = remember_checks(monkeypatch)
    monkeypatch.setattr(file, "_CHECK_STEPS", 1)
    check, seen, began = file._check_table, list[str](), threading.Event()

    def held_up(connection: apsw.Connection, table: str) -> None:
        seen.append(table)
        began.set()
        checks[0]._stops.wait()
        check(connection, table)

    monkeypatch.setattr(file, "_check_table", held_up)
    store = await open_disk_store(tmp_path)
    await trio.to_thread.run_sync(began.wait)
    await store.aclose()
    assert seen == ["sqlite_schema"]
    assert not checks[0].finding


async def test_a_check_that_can_not_be_made_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await (await open_disk_store(tmp_path)).aclose()
    checks = remember_checks(monkeypatch)

    def fails(connection: apsw.Connection, table: str) -> None:
        raise apsw.CantOpenError("unable to open database file")

    monkeypatch.setattr(file, "_check_table", fails)
    store = await open_disk_store(tmp_path)
    await trio.to_thread.run_sync(checks[0].wait)
    await put(store, CREATED)
    await store.aclose()
    assert "was not looked through for damage: unable to open" in caplog.text


async def test_words_are_checked_by_the_tables_that_hold_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await open_disk_store(tmp_path)).aclose()
    checks = remember_checks(monkeypatch)
    check, seen = file._check_table, list[str]()

    def remembered(connection: apsw.Connection, table: str) -> None:
        seen.append(table)
        check(connection, table)

    monkeypatch.setattr(file, "_check_table", remembered)
    store = await open_disk_store(tmp_path)
    await trio.to_thread.run_sync(checks[0].wait)
    await store.aclose()
    # A virtual table is checked in one go, for which closing would wait.
    assert "message_words_data" in seen
    assert "message_words" not in seen


async def test_a_large_damaged_file_is_not_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_damaged(tmp_path)
    path = tmp_path / "callboard.db"
    data = bytearray(path.read_bytes())
    data[60:64] = (len(MIGRATIONS) - 1).to_bytes(4, "big")  # `user_version`
    path.write_bytes(data)
    monkeypatch.setattr(file, "MAX_CHECKED_FIRST_BYTES", 0)
    with pytest.raises(StorageError, match=r"callboard\.db is damaged"):
        await open_disk_store(tmp_path)
    assert path.read_bytes() == data


async def test_a_large_damaged_file_is_not_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_damaged(tmp_path)
    data = (tmp_path / "callboard.db").read_bytes()
    monkeypatch.setattr(file, "MAX_CHECKED_FIRST_BYTES", 0)
    with pytest.raises(StorageError, match=r"callboard\.db is damaged"):
        await trio.to_thread.run_sync(compact, tmp_path)
    assert (tmp_path / "callboard.db").read_bytes() == data


async def test_an_event_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, said("x"))
    await store.aclose()
    connection = apsw.Connection(str(tmp_path / "callboard.db"))
    connection.execute("update events set event = x'7b', checksum = null where seq = 2")
    connection.close()
    reader = await open_reader(tmp_path)
    assert len(await reader.events("s1", limit=1)) == 1
    with pytest.raises(StorageError, match="event 2 of session s1"):
        await reader.events("s1")
    await reader.aclose()


@pytest.mark.parametrize("what", ["event", "seq", "at_ms", "checksum"])
async def test_a_flipped_bit_of_an_event_is_found(tmp_path: Path, what: str) -> None:
    """To SQLite it is sound: it has no checksum for what is in a page."""
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, said("The door is open."), said("And now?"))
    await store.aclose()
    with closing(apsw.Connection(str(tmp_path / "callboard.db"))) as connection:
        flipped = (
            "cast(replace(event, 'open', 'npen') as blob)"
            if what == "event"
            else f"{what} | 1 << 9"
        )
        connection.execute(f"update events set {what} = {flipped} where seq = 2")
        assert connection.execute("pragma integrity_check").get == "ok"
    reader = await open_reader(tmp_path)
    assert len(await reader.events("s1", limit=1)) == 1
    with pytest.raises(StorageError, match=r"is not what was stored.*rescue"):
        await reader.events("s1")
    await reader.aclose()
    with pytest.raises(StorageError, match=r"is not what was stored.*rescue"):
        await open_disk_store(tmp_path)


async def test_events_of_an_older_format_are_read_as_they_are(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, said("x"))
    await store.aclose()
    with closing(apsw.Connection(str(tmp_path / "callboard.db"))) as connection:
        connection.execute("alter table events drop column checksum; drop index messages_deleted")
        connection.execute(
            "drop index messages_with_files; alter table turns drop column started_seq"
        )
        for column in ("stop_reason", "cached_tokens", "cache_write_tokens", "is_deleted", "files"):
            connection.execute(f"alter table messages drop column {column}")
        for column in ("forked_from", "via"):
            connection.execute(f"alter table sessions drop column {column}")
        connection.pragma("user_version", MIGRATIONS.index(_CHECKSUMS))
    store = await open_disk_store(tmp_path)
    await put(store, said("y"))
    assert len(await store.events("s1")) == 3
    await store.aclose()
    store = await open_disk_store(tmp_path)
    await store.aclose()


async def test_half_made_files_of_a_crash_are_made_anew(tmp_path: Path) -> None:
    for suffix in ("", "-journal", "-wal"):
        (tmp_path / f"callboard.db.new{suffix}").write_bytes(b"half")
    store = await open_disk_store(tmp_path)
    await store.aclose()
    assert names(tmp_path) == {"callboard.db", "callboard.lock"}


async def test_a_data_directory_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="is a file") as raised:
            await open_disk_store(folder)
        assert str(folder) in str(raised.value)
    for folder in (Path("/proc/callboard"), Path("/proc/self")):
        with pytest.raises(StorageError, match=str(folder)):
            await open_disk_store(folder)
    (tmp_path / "callboard.db").mkdir()
    with pytest.raises(StorageError, match=r"callboard\.db"):
        await open_disk_store(tmp_path)


async def test_a_reader_of_nothing_says_that_there_is_nothing_yet(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotFoundError, match=r"nothing in .* yet"):
            await open_reader(folder)
    assert names(tmp_path) == set()


async def test_a_reader_works_beside_a_writer_and_sees_its_commits(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    reader = await open_reader(tmp_path)
    assert await reader.sessions() == []
    await put(store, CREATED, said("now"))
    assert [row.title for row in await reader.sessions()] == ["now"]
    await store.aclose()
    assert [row.content for row in await reader.messages("s1")] == ["now"]
    await reader.aclose()
    with pytest.raises(StorageError, match="closed"):
        await reader.sessions()


async def test_reads_do_not_wait_for_a_transaction_that_is_open(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, said("before"))
    blocker = apsw.Connection(str(tmp_path / "callboard.db"))
    blocker.execute("begin immediate")
    blocked = trio.Event()
    async with trio.open_nursery() as nursery:

        async def write() -> None:
            await put(store, said("after"))
            blocked.set()

        nursery.start_soon(write)
        for _ in range(20):
            assert [row.content for row in await store.messages("s1")] == ["before"]
        assert not blocked.is_set()
        blocker.execute("commit")
    assert await texts(tmp_path) == ["before", "after"]
    blocker.close()
    await store.aclose()


async def test_parallel_reads_and_commits_are_all_served(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED)
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(put, store, said(str(number)))
            nursery.start_soon(store.events, "s1")
    assert [stored.seq for stored in await store.events("s1")] == list(range(1, 22))
    await store.aclose()


async def test_a_commit_in_a_cancelled_scope_is_stored_and_answered(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    with trio.CancelScope() as scope:
        scope.cancel()
        await put(store, CREATED, said("kept"))
    assert await texts(tmp_path) == ["kept"]
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.aclose()
    await (await open_disk_store(tmp_path)).aclose()


async def test_a_cancelled_commit_that_waits_for_another_one_is_stored_too(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED)
    blocker = apsw.Connection(str(tmp_path / "callboard.db"))
    blocker.execute("begin immediate")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(put, store, said("first"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(put, store, said("second"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        blocker.execute("commit")
    assert await texts(tmp_path) == ["first", "second"]
    blocker.close()
    await store.aclose()


async def test_a_cancelled_read_ends_in_the_middle_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, *(said("x") for _ in range(5_000)))
    is_cancelled = threading.Event()

    def wait_and_read(queries: Queries) -> list[Stored]:
        is_cancelled.wait()
        return queries.events("s1")

    rows = None
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                is_cancelled.set()

            nursery.start_soon(cancel)
            rows = await store._run(wait_and_read)
    assert rows is None
    assert len(await store.events("s1")) == 5_001
    await store.aclose()


async def test_after_a_failing_write_the_store_works_again(tmp_path: Path) -> None:
    store = await open_disk_store(tmp_path)
    await put(store, CREATED, said("before"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, hard))
    try:
        with pytest.raises(StorageError, match="Nothing of this was stored"):
            await put(store, said("x" * 4 * 1024 * 1024))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await put(store, said("after"))
    assert [stored.seq for stored in await store.events("s1")] == [1, 2, 3]
    await store.aclose()
    assert await texts(tmp_path) == ["before", "after"]


async def test_a_store_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(StorageError, match=r"callboard\.db"):
            await open_disk_store(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == {"callboard.lock"}
    await (await open_disk_store(tmp_path)).aclose()


def test_a_full_disk_is_said_to_be_full_and_recovers_with_space() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, "it")
    ledger = Ledger(connection, "it")
    ledger.commit([Append("s1", (CREATED,))])
    connection.pragma("max_page_count", connection.pragma("page_count") + 2)
    with pytest.raises(StorageFull, match="the disk is full") as raised:
        ledger.commit([Append("s1", (said("small"),)), Append("s1", (said("x" * 100_000),))])
    assert raised.value.retryable
    connection.pragma("max_page_count", 1_000_000)
    (result,) = ledger.commit([Append("s1", (said("again"),))])
    assert isinstance(result, tuple)
    assert [stored.seq for stored in result] == [2]
