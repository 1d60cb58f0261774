"""A restore that is cut off has changed nothing, or is finished by whoever opens the store next."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from callboard.runtime.backup.backup import restore_backup, write_backup
from callboard.runtime.changes.version_log import FOLDER
from callboard.runtime.errors import StorageError
from callboard.runtime.events import SessionCreated, TitleSet
from callboard.runtime.store.restore import NEW_NAME, NOTE, RESTORED
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader

LOG = "session_a.log"
STEPS = ("rename", "replace", "link", "unlink", "fsync")
SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
"""Whether it is cut off while it makes all ready, too, and not only from the last steps of that on."""
MAX_STEPS = 60
"""More than a restore has; one that has more is not cut off everywhere."""


class Killed(BaseException):
    """Stands for the end of the process: nobody catches it."""


async def filled(folder: Path, title: str) -> None:
    """A store whose session is named so, and a log of versions that says it, too."""
    store = await open_disk_store(folder)
    created = SessionCreated(agent="general", workspace="/w", title=title)
    await store.commit([Append("session_a", (created,))])
    await store.aclose()
    (folder / FOLDER).mkdir()
    (folder / FOLDER / LOG).write_text(title)


async def state(folder: Path) -> tuple[str, str]:
    """What the store says, and what the versions beside it are of."""
    reader = await open_reader(folder)
    row = await reader.session("session_a")
    await reader.aclose()
    assert row is not None
    log = folder / FOLDER / LOG
    return row.title, log.read_text() if log.exists() else ""


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose store went on behind its backup; one backup is of an older callboard."""
    folder = tmp_path_factory.mktemp("scenes")

    async def prepare() -> None:
        await filled(folder / "data", "backup")
        for name in ("b.db", "older.db"):
            await trio.to_thread.run_sync(write_backup, folder / "data", folder / name)
        connection = apsw.Connection(str(folder / "older.db"))
        connection.execute("drop table kept_versions")
        connection.close()
        store = await open_disk_store(folder / "data")
        await store.commit([Append("session_a", (TitleSet(title="present"),))])
        await store.aclose()
        (folder / "data" / FOLDER / LOG).write_text("present")

    trio.run(prepare)
    return folder


def placed(scenes: Path, folder: Path) -> Path:
    """The scene, to work with."""
    shutil.copytree(scenes, folder)
    return folder


def failing(number: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has the step of that number, and all behind it, fail; gives the list of those that are taken."""
    taken: list[str] = []

    def step(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if len(taken) >= number:
                raise error
            taken.append(name)
            return real(*args, **kwargs)

        return wrapped

    for name in STEPS:
        monkeypatch.setattr(os, name, step(name, getattr(os, name)))
    return taken


def restore(folder: Path, backup: str = "b.db") -> None:
    restore_backup(folder / "data", folder / backup)


@pytest.mark.parametrize("backup", ["b.db", "older.db"])
async def test_wherever_it_is_cut_off_store_and_versions_belong_together(
    backup: str, tmp_path: Path, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = ("present", "present"), ("backup", "backup" if backup == "b.db" else "")
    with monkeypatch.context() as patch:
        steps = failing(MAX_STEPS, Killed(), patch)
        await trio.to_thread.run_sync(restore, placed(scenes, tmp_path / "whole"), backup)
    assert len(steps) < MAX_STEPS
    found = []
    for number in range(0 if SOAK else steps.index("link"), len(steps)):
        folder = placed(scenes, tmp_path / str(number))
        with monkeypatch.context() as patch:
            failing(number, Killed(), patch)
            with pytest.raises(Killed):
                await trio.to_thread.run_sync(restore, folder, backup)
        was_begun = (folder / "data" / NOTE).exists()
        await (await open_disk_store(folder / "data")).aclose()  # the next start
        found.append(await state(folder / "data"))
        if was_begun:
            assert found[-1] == new
            assert not set(os.listdir(folder / "data")) & {NOTE, NEW_NAME, RESTORED}
    assert sorted(set(found), reverse=True) == [old, new]
    assert found == sorted(found, reverse=True)  # once it is begun it is done, whatever comes
    await trio.to_thread.run_sync(restore, tmp_path / str(steps.index("link")), backup)


async def test_the_next_restore_goes_on_with_it_too(
    tmp_path: Path, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = placed(scenes, tmp_path / "x") / "data"
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failure(Killed()))
        with suppress(Killed):
            await trio.to_thread.run_sync(restore, data.parent)
    assert (data / NOTE).exists()
    assert (await state(data))[0] == "present"  # who only reads finishes nothing
    await trio.to_thread.run_sync(restore, data.parent, "older.db")
    assert await state(data) == ("backup", "")
    aside = {log.read_text() for log in data.glob(f"callboard.before*.versions-before/{LOG}")}
    assert aside == {"present", "backup"}  # of before the first, and of the first


def failure(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("step", "said", "now"),
    [("rename", "Nothing was changed.", "present"), ("replace", "Nothing is lost:", "backup")],
)
async def test_an_error_says_whether_anything_was_changed(
    step: str, said: str, now: str, tmp_path: Path, scenes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = placed(scenes, tmp_path / "x") / "data"
    with monkeypatch.context() as patch:
        patch.setattr(os, step, failure(OSError(5, "Input/output error")))
        with pytest.raises(StorageError, match=said):
            await trio.to_thread.run_sync(restore, data.parent)
        if step == "replace":
            with pytest.raises(StorageError, match=said):  # the disk is no better yet
                await open_disk_store(data)
    await (await open_disk_store(data)).aclose()
    assert await state(data) == (now, now)
    is_kept = bool(list(data.glob("callboard.before*.db")))
    assert is_kept == (now == "backup")


async def test_a_damaged_note_stops_the_store_from_being_opened(tmp_path: Path) -> None:
    await filled(tmp_path, "present")
    for text in ("{", '{"stem":"../x","has_versions":true}'):
        (tmp_path / NOTE).write_text(text)
        with pytest.raises(StorageError, match="Remove that file, and restore"):
            await open_disk_store(tmp_path)
    (tmp_path / NOTE).unlink()
    await (await open_disk_store(tmp_path)).aclose()  # the control


async def test_a_log_of_the_store_before_is_not_read_as_one_of_the_new(
    tmp_path: Path, scenes: Path
) -> None:
    data = placed(scenes, tmp_path / "x") / "data"
    (data / "callboard.db").unlink()
    (data / "callboard.db-wal").write_bytes(b"of another")
    assert await trio.to_thread.run_sync(restore_backup, data, scenes / "b.db") is None
    assert await state(data) == ("backup", "backup")
    (log,) = data.glob("callboard.before*.db-wal")
    assert log.read_bytes() == b"of another"
