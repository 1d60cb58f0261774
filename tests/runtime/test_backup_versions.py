"""What files were before calls changed them is in a backup, and comes back with it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import apsw
import pytest
import trio

import callboard
from callboard.runtime.backup.backup import restore_backup, write_backup
from callboard.runtime.changes.version_log import CHUNK_BYTES, FOLDER
from callboard.runtime.errors import StorageError
from callboard.runtime.store.restore import RESTORED

WRITE = callboard.reply(calls=[("write_file", {"path": "a.txt", "content": "second"})])
FIRST = "first " * (CHUNK_BYTES // 4)  # more than one piece


async def changed(folder: Path) -> str:
    """A session that has overwritten a file; gives its id."""
    (folder / "work").mkdir()
    (folder / "work" / "a.txt").write_text(FIRST)
    async with opened(folder, folder / "data") as runtime:
        session = await runtime.create_session()
        await session.run("Write.")
    assert (folder / "work" / "a.txt").read_text() == "second"
    return session.session_id


def opened(folder: Path, data: Path) -> AbstractAsyncContextManager[callboard.Runtime]:
    return callboard.open_runtime(
        model=callboard.ScriptedModel([WRITE, callboard.reply("Done.")]),
        data=data,
        workspace=folder / "work",
        on_approval="allow",
        environ={},
    )


async def test_a_change_can_be_undone_from_a_backup(tmp_path: Path) -> None:
    session_id = await changed(tmp_path)
    await trio.to_thread.run_sync(write_backup, tmp_path / "data", tmp_path / "b.db")
    new = tmp_path / "new"
    await trio.to_thread.run_sync(restore_backup, new, tmp_path / "b.db")
    assert not (new / RESTORED).exists()
    assert (new / "callboard.db").stat().st_size < len(FIRST)
    async with opened(tmp_path, new) as runtime:
        report = await (await runtime.get_session(session_id)).undo()
    assert report.lines == ("put back a.txt",)
    assert (tmp_path / "work" / "a.txt").read_text() == FIRST


async def test_those_of_before_are_kept_aside(tmp_path: Path) -> None:
    session_id = await changed(tmp_path)
    data, log = tmp_path / "data", f"{session_id}.log"
    await trio.to_thread.run_sync(write_backup, data, tmp_path / "b.db")
    (data / FOLDER / log).write_bytes(b"other")
    kept = await trio.to_thread.run_sync(restore_backup, data, tmp_path / "b.db")
    assert kept is not None
    assert (data / f"{kept.stem}.versions-before" / log).read_bytes() == b"other"
    assert (data / FOLDER / log).stat().st_size > len(FIRST)


async def test_a_name_that_leads_elsewhere_restores_nothing(tmp_path: Path) -> None:
    await changed(tmp_path)
    await trio.to_thread.run_sync(write_backup, tmp_path / "data", tmp_path / "b.db")
    connection = apsw.Connection(str(tmp_path / "b.db"))
    connection.execute("update kept_versions set file = '../evil.log'")
    connection.close()
    with pytest.raises(StorageError, match="damaged"):
        await trio.to_thread.run_sync(restore_backup, tmp_path / "new", tmp_path / "b.db")
    assert [each.name for each in (tmp_path / "new").iterdir() if each.suffix == ".log"] == []
    assert not (tmp_path / "new" / RESTORED).exists()
    assert not (tmp_path / "new" / "callboard.db").exists()


async def test_with_an_older_backup_no_versions_of_another_store_stay(tmp_path: Path) -> None:
    session_id = await changed(tmp_path)
    data, log = tmp_path / "data", f"{session_id}.log"
    await trio.to_thread.run_sync(write_backup, data, tmp_path / "b.db")
    connection = apsw.Connection(str(tmp_path / "b.db"))
    connection.execute("drop table kept_versions")
    connection.close()
    before = (data / FOLDER / log).read_bytes()
    kept = await trio.to_thread.run_sync(restore_backup, data, tmp_path / "b.db")
    assert kept is not None
    assert not (data / FOLDER).exists()
    assert (data / f"{kept.stem}.versions-before" / log).read_bytes() == before
