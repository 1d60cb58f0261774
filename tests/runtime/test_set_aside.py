"""A store without its log, a log without its store, and a store that is put away whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import trio

from callboard.cli.app import execute
from callboard.runtime.backup.aside import set_aside
from callboard.runtime.backup.backup import restore_backup, write_backup
from callboard.runtime.changes.version_log import FOLDER
from callboard.runtime.disk.data_lock import DataLock
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError
from callboard.runtime.events import SessionCreated
from callboard.runtime.store.file import DATABASE_NAME
from callboard.runtime.store.restore import SIDE_SUFFIXES
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader

SIDES = [f"{DATABASE_NAME}{suffix}" for suffix in SIDE_SUFFIXES]


async def killed(folder: Path, *names: str) -> Path:
    """A data folder as a kill leaves it, with the last commits in the log alone."""
    running = folder.parent / f"{folder.name}-running"
    store = await open_disk_store(running)
    for name in names:
        (done,) = await store.commit([Append(name, (SessionCreated(agent="a", workspace="/w"),))])
        assert isinstance(done, tuple)
    shutil.copytree(running, folder)
    await store.aclose()
    (folder / FOLDER).mkdir()
    (folder / FOLDER / "s1.log").write_text("what a file was")
    return folder


async def sessions(folder: Path) -> list[str]:
    reader = await open_reader(folder)
    rows = await reader.sessions()
    await reader.aclose()
    return sorted(row.session_id for row in rows)


async def test_no_store_is_made_where_the_log_of_another_lies(tmp_path: Path) -> None:
    data = await killed(tmp_path / "data", "s1")
    (data / DATABASE_NAME).rename(tmp_path / "away")
    (data / SIDES[2]).touch()
    for left in (SIDES, SIDES[:1], SIDES[1:2], SIDES[2:]):
        folder = tmp_path / "-".join(left)
        folder.mkdir(mode=0o700)
        for name in left:
            shutil.copy(data / name, folder)
        before = sorted(os.listdir(folder))
        for opened in (open_disk_store, open_reader):
            with pytest.raises(StorageError, match="set-aside") as refused:
                await opened(folder)
            assert all(str(folder / name) in str(refused.value) for name in left)
        assert sorted({*os.listdir(folder)} - {"callboard.lock"}) == before
    (tmp_path / "away").rename(data / DATABASE_NAME)  # the file is put back
    (data / SIDES[2]).unlink()
    assert await sessions(data) == ["s1"]


async def test_a_store_is_set_aside_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    data = await killed(tmp_path / "data", "s1", "s2")
    aside = await trio.to_thread.run_sync(set_aside, data)
    assert aside.parent == data
    await (await open_disk_store(data)).aclose()
    assert await sessions(data) == []
    assert await sessions(aside) == ["s1", "s2"]
    assert (aside / FOLDER / "s1.log").read_text() == "what a file was"
    second = await trio.to_thread.run_sync(set_aside, data)
    assert second != aside
    assert await sessions(second) == []
    with pytest.raises(NotFoundError, match="no store"):
        await trio.to_thread.run_sync(set_aside, data)


@pytest.mark.parametrize("steps", range(4))
async def test_setting_aside_that_is_cut_off_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    data = await killed(tmp_path / "data", "s1")
    rename, left = os.rename, steps

    def cut_off(*args: Path) -> None:
        nonlocal left
        if left == 0:
            raise OSError(5, "cut off")
        left -= 1
        rename(*args)

    monkeypatch.setattr(os, "rename", cut_off)
    with pytest.raises(StorageError, match="Nothing is lost"):
        await trio.to_thread.run_sync(set_aside, data)
    monkeypatch.undo()
    if steps:
        with pytest.raises(StorageError, match="set-aside"):
            await open_disk_store(data)
    aside = await trio.to_thread.run_sync(set_aside, data)
    assert await sessions(aside) == ["s1"]
    assert (aside / FOLDER / "s1.log").exists()
    assert await sessions_of_new(data) == []


async def sessions_of_new(folder: Path) -> list[str]:
    await (await open_disk_store(folder)).aclose()
    return await sessions(folder)


async def test_a_backup_is_restored_where_only_a_log_is_left(tmp_path: Path) -> None:
    data = await killed(tmp_path / "data", "s1")
    backup = tmp_path / "backup.db"
    await trio.to_thread.run_sync(write_backup, data, backup)
    (data / DATABASE_NAME).unlink()
    (data / SIDES[2]).write_bytes(b"old")
    await trio.to_thread.run_sync(restore_backup, data, backup)
    assert await sessions(data) == ["s1"]
    kept = {path.name.partition(".db")[2] for path in data.glob("callboard.before*")}
    assert kept >= set(SIDE_SUFFIXES)


def test_the_command_asks_first_and_says_where_the_sessions_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / DATABASE_NAME).write_bytes(b"damaged" * 1000)
    words = ["store", "set-aside", "--data", str(tmp_path)]
    assert execute(words) == 2
    lock = DataLock(tmp_path)
    with pytest.raises(ConflictError, match="Nothing was changed"):
        execute([*words, "--yes"])
    lock.release()
    assert (tmp_path / DATABASE_NAME).exists()
    assert execute([*words, "--yes"]) == 0
    (aside,) = tmp_path.glob("callboard.aside-*")
    assert str(aside) in capsys.readouterr().out
    assert (aside / DATABASE_NAME).read_bytes() == b"damaged" * 1000
