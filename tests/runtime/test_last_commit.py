"""What was acknowledged is there at the next opening, or its loss is named and the store left as it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
import trio

from callboard.runtime.backup.backup import restore_backup, write_backup
from callboard.runtime.errors import StorageError
from callboard.runtime.events import SessionCreated, SessionDeleted, TitleSet
from callboard.runtime.store.file import DATABASE_NAME, open_writer
from callboard.runtime.store.health.last_commit import SUFFIX
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader
from support.store_log import FRAME_BYTES, FRAME_HEAD_BYTES, HEAD_BYTES, pages_in

COMMITS = 4
LOG = f"{DATABASE_NAME}-wal"
NOTE = f"{DATABASE_NAME}{SUFFIX}"

LAST = 10
"""Pages of the last commit, at most."""

Damage = Callable[[Path], None]


async def fill(folder: Path, kept: Path, *, purges: bool = False) -> None:
    """Make commits, and keep the folder as a kill after the last one would leave it."""
    store = await open_disk_store(folder)
    await store.commit([Append("s1", (SessionCreated(agent="a", workspace="/w"),))])
    for number in range(COMMITS):
        (done,) = await store.commit([Append("s1", (TitleSet(title=f"title {number}"),))])
        assert isinstance(done, tuple)
    if purges:
        await store.commit([Append("s1", (SessionDeleted(),))])
        await store.purge(["s1"])
    shutil.copytree(folder, kept)
    await store.aclose()


@pytest.fixture
async def killed(tmp_path: Path) -> Path:
    """A store whose process was killed: the last commits are in the log alone."""
    await fill(tmp_path / "running", tmp_path / "killed")
    return tmp_path / "killed"


def refusal(folder: Path) -> str:
    """Why a store is not opened; empty if it is, with all that was acknowledged."""
    names = [each for each in folder.iterdir() if each.name in (DATABASE_NAME, LOG)]
    before = {each: each.read_bytes() for each in names}
    try:
        connection = open_writer(folder)
    except StorageError as error:
        assert all(each.read_bytes() == data for each, data in before.items())
        return str(error)
    title = connection.execute("select title from sessions where session_id = 's1'").get
    connection.close()
    return "" if title == f"title {COMMITS - 1}" else "a silent loss"


def flipped(at: int) -> Damage:
    def damage(folder: Path) -> None:
        log = bytearray((folder / LOG).read_bytes())
        log[at] ^= 0x10
        (folder / LOG).write_bytes(log)

    return damage


async def test_after_a_kill_all_is_there(killed: Path) -> None:
    assert (killed / NOTE).stat().st_mode & 0o777 == 0o600
    assert refusal(killed) == ""
    assert refusal(killed) == ""  # and after an orderly end


@pytest.mark.parametrize("has_note", [True, False])
async def test_a_flipped_bit_anywhere_in_the_log_is_found(
    killed: Path, tmp_path: Path, has_note: bool
) -> None:
    if not has_note:  # as after a power cut: it was not on the disk yet
        (killed / NOTE).unlink()
    count = pages_in(killed / LOG)
    assert count > COMMITS
    places = [0, 5, 10, 13, 17, 21, 25, 30]  # of the log's head
    for frame in range(count):
        start = HEAD_BYTES + frame * FRAME_BYTES
        places.append(start + (1, 9, 17, FRAME_HEAD_BYTES + 77 + 5 * frame)[frame % 4])
    silent = set()
    for place in places:
        folder = tmp_path / f"at-{place}"
        shutil.copytree(killed, folder)
        flipped(place)(folder)
        said = refusal(folder)
        if said == "a silent loss":
            silent.add((place - HEAD_BYTES) // FRAME_BYTES)
        else:
            assert "is damaged" in said
        shutil.rmtree(folder)
    # A damaged last commit looks like one that a power cut kept from being whole.
    assert silent <= (set() if has_note else set(range(count - LAST, count)))


async def test_of_a_commit_that_was_on_its_way_nothing_stays_in_the_log(
    killed: Path, tmp_path: Path
) -> None:
    """With half of another one, which the next kill leaves, it looked like two that were acknowledged."""
    (killed / NOTE).unlink()
    whole = tmp_path / "whole"
    shutil.copytree(killed, whole)
    flipped(HEAD_BYTES + (pages_in(killed / LOG) - 1) * FRAME_BYTES + FRAME_HEAD_BYTES)(killed)
    for folder, is_kept in ((killed, False), (whole, True)):  # the second is the control
        before = (folder / LOG).stat().st_size
        connection = open_writer(folder)
        assert ((folder / LOG).stat().st_size == before) is is_kept
        connection.close()


@pytest.mark.parametrize("damage", ["the log is removed", "it is emptied", "the store is older"])
async def test_a_log_that_is_gone_is_missed(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "running"
    store = await open_disk_store(folder)
    await store.commit([Append("s1", (SessionCreated(agent="a", workspace="/w"),))])
    await store.aclose()
    shutil.copy(folder / DATABASE_NAME, tmp_path / "older.db")
    store = await open_disk_store(folder)
    for number in range(COMMITS):
        await store.commit([Append("s1", (TitleSet(title=f"title {number}"),))])
    shutil.copytree(folder, tmp_path / "killed")
    await store.aclose()
    assert refusal(folder) == ""
    damaged = tmp_path / "killed"
    match damage:
        case "the log is removed":
            (damaged / LOG).unlink()
        case "it is emptied":
            (damaged / LOG).write_bytes(b"")
        case _:  # put there by hand, which `callboard restore` is for
            damaged = folder
            shutil.copy(tmp_path / "older.db", folder / DATABASE_NAME)
    said = refusal(damaged)
    assert f"the last {COMMITS} events at least are missing, up to one of s1 at 2" in said
    assert "callboard restore" in said
    reader = await open_reader(damaged)  # what is there can be read
    assert [row.session_id for row in await reader.sessions()] == ["s1"]
    await reader.aclose()


async def test_a_torn_commit_that_nobody_was_told_of_is_no_loss(tmp_path: Path) -> None:
    await fill(tmp_path / "running", tmp_path / "killed")
    store = await open_disk_store(tmp_path / "running")
    await store.commit([Append("s1", (TitleSet(title=f"title {COMMITS - 1}"),))])
    note, whole = (tmp_path / "running" / NOTE).read_bytes(), pages_in(tmp_path / "running" / LOG)
    await store.commit([Append("s1", (TitleSet(title="not told"),))])
    shutil.copytree(tmp_path / "running", tmp_path / "cut")
    await store.aclose()
    # A power cut: its first page did not reach the disk, its last one did, and the note is older.
    flipped(HEAD_BYTES + whole * FRAME_BYTES + 100)(tmp_path / "cut")
    (tmp_path / "cut" / NOTE).write_bytes(note)
    assert refusal(tmp_path / "cut") == ""


async def test_a_purge_leaves_a_note_of_what_is_there(tmp_path: Path) -> None:
    await fill(tmp_path / "running", tmp_path / "killed", purges=True)
    for folder in (tmp_path / "running", tmp_path / "killed"):
        store = await open_disk_store(folder)
        assert await store.sessions() == []
        await store.commit([Append("s2", (SessionCreated(agent="a", workspace="/w"),))])
        await store.aclose()
        assert (folder / NOTE).exists()
        await (await open_disk_store(folder)).aclose()


async def purge(folder: Path, kept: Path, *, all_of_it: bool) -> None:
    """Purge a session, and keep the folder as a kill behind that would leave it: with nothing else in the log."""
    store = await open_disk_store(folder)
    for name in ("gone",) if all_of_it else ("gone", "s1"):
        await store.commit([Append(name, (SessionCreated(agent="a", workspace="/w"),))])
    await store.commit([Append("gone", (SessionDeleted(),))])
    if not all_of_it:  # what was acknowledged last is another session's
        await store.commit([Append("s1", (TitleSet(title="stays"),))])
    await store.aclose()
    store = await open_disk_store(folder)
    await store.purge(["gone"])
    shutil.copytree(folder, kept)
    await store.aclose()


def is_back(folder: Path) -> bool:
    """Whether a store is opened with the session that was purged."""
    try:
        connection = open_writer(folder)
    except StorageError as error:
        return "acknowledged" not in str(error)
    count = connection.execute("select count(*) from sessions where session_id = 'gone'").get
    connection.close()
    assert count, "neither purged nor refused"
    return True


@pytest.mark.parametrize("all_of_it", [True, False])
async def test_a_purge_that_is_lost_is_missed(tmp_path: Path, all_of_it: bool) -> None:
    kept = tmp_path / "killed"
    await purge(tmp_path / "running", kept, all_of_it=all_of_it)
    written_back = (tmp_path / "running" / DATABASE_NAME).read_bytes()
    places = [
        HEAD_BYTES + frame * FRAME_BYTES + (9, FRAME_HEAD_BYTES + 77)[frame % 2]
        for frame in range(pages_in(kept / LOG))
    ]
    assert len(places) > LAST

    def half(folder: Path) -> None:
        """Some of its pages are in the store already, and it can't be read in the log any more."""
        old = (folder / DATABASE_NAME).read_bytes()
        middle = 4096 * (len(old) // 8192)
        (folder / DATABASE_NAME).write_bytes(written_back[:middle] + old[middle:])
        flipped(HEAD_BYTES + FRAME_HEAD_BYTES + 77)(folder)

    def gone(folder: Path) -> None:
        (folder / LOG).unlink()

    for number, damage in enumerate([*map(flipped, places), half, gone]):
        folder = tmp_path / f"damaged-{number}"
        shutil.copytree(kept, folder)
        damage(folder)
        assert not is_back(folder)
    store = await open_disk_store(kept)  # without any, it is as it was
    assert [row.session_id for row in await store.sessions()] == ([] if all_of_it else ["s1"])
    await store.aclose()
    await (await open_disk_store(tmp_path / "running")).aclose()


async def test_another_store_is_taken_and_the_log_of_another_is_not(
    killed: Path, tmp_path: Path
) -> None:
    await (await open_disk_store(tmp_path / "other")).aclose()
    other = (tmp_path / "other" / DATABASE_NAME).read_bytes()
    (tmp_path / "running" / DATABASE_NAME).write_bytes(other)
    await (await open_disk_store(tmp_path / "running")).aclose()
    assert not (tmp_path / "running" / NOTE).exists()
    connection = apsw.Connection(str(tmp_path / "other" / DATABASE_NAME))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.pragma("user_version", connection.pragma("user_version"))
    connection.close()
    shutil.copy(killed / NOTE, tmp_path / "other")
    with pytest.raises(StorageError, match="log is that of another store"):
        await open_disk_store(tmp_path / "other")


async def test_a_restored_backup_is_not_missed(killed: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    await trio.to_thread.run_sync(write_backup, killed, backup)
    (killed / LOG).unlink()
    assert "missing" in refusal(killed)
    await trio.to_thread.run_sync(restore_backup, killed, backup)
    assert refusal(killed) == ""


@pytest.mark.parametrize("note", [b"", b"x" * 500])
async def test_a_note_that_can_not_be_read_or_written_stops_nothing(
    killed: Path, note: bytes
) -> None:
    (killed / NOTE).write_bytes(note)
    assert refusal(killed) == ""
    (killed / NOTE).unlink()
    (killed / NOTE).mkdir()
    store = await open_disk_store(killed)
    await store.commit([Append("s1", (TitleSet(title=f"title {COMMITS - 1}"),))])
    await store.aclose()
    assert refusal(killed) == ""
