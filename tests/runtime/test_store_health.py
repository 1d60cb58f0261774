"""One place says whether a store can be used, and why not: while it is so, not afterwards."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
import trio

from callboard.runtime.errors import DiskBroken, StorageError, StorageFailed
from callboard.runtime.events import SessionCreated, TitleSet
from callboard.runtime.store.file import DATABASE_NAME
from callboard.runtime.store.health import store_health
from callboard.runtime.store.health.disk_room import LOOK_SECONDS
from callboard.runtime.store.health.store_health import STUCK_SECONDS
from callboard.runtime.store.interface import Store
from callboard.runtime.store.ledger import storage_error
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import Append, CommitResult
from callboard.runtime.store.sqlite_store import open_disk_store, open_reader
from support.waits import until


class Scene(msgspec.Struct):
    """A store, and a clock that a test sets."""

    folder: Path
    store: Store | None = None
    now: float = 0.0

    @property
    def health(self) -> store_health.StoreHealth:
        assert self.store is not None
        return self.store.health

    def later(self, seconds: float = LOOK_SECONDS) -> str:
        self.now += seconds
        return self.health.problem()

    async def put(self) -> None:
        assert self.store is not None
        (done,) = await self.store.commit([Append("s1", (TitleSet(title="said"),))])
        assert isinstance(done, tuple)

    async def read(self) -> None:
        assert self.store is not None
        assert await self.store.session("s1") is not None

    def is_well(self) -> bool:
        self.health.check()
        return self.later() == ""


@asynccontextmanager
async def open_scene(folder: Path) -> AsyncGenerator[Scene]:
    scene = Scene(folder / "data")
    scene.store = await open_disk_store(scene.folder, clock=lambda: scene.now)
    await scene.store.commit([Append("s1", (SessionCreated(agent="a", workspace="/w"),))])
    assert scene.is_well()
    try:
        yield scene
    finally:
        await scene.store.aclose()


async def test_a_commit_that_does_not_return_counts_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_scene(tmp_path) as scene:
        commit, is_stuck, answers = scene.health.room.commit, threading.Event(), threading.Event()

        def stuck(*args: Any) -> list[CommitResult]:
            is_stuck.set()
            answers.wait()
            return commit(*args)

        monkeypatch.setattr(scene.health.room, "commit", stuck)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.put)
            try:
                await until(is_stuck.is_set)
                assert scene.later(STUCK_SECONDS - LOOK_SECONDS) == ""
                assert f"has not answered for {STUCK_SECONDS:.0f} s" in scene.later()
                assert scene.health.waiting_seconds == STUCK_SECONDS
                with pytest.raises(StorageFailed, match="has not answered"):
                    scene.health.check()
            finally:
                answers.set()
        assert scene.is_well()
        assert scene.health.waiting_seconds == 0


async def test_a_read_that_does_not_return_counts_from_its_start(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        goes_on = threading.Event()

        async def read() -> None:
            assert scene.store is not None
            await scene.store._run(lambda queries: goes_on.wait())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            try:
                await until(lambda: scene.health._began)
                assert "has not answered" in scene.later(STUCK_SECONDS)
            finally:
                goes_on.set()
        assert scene.is_well()


async def test_reads_that_fail_are_said_until_one_succeeds(tmp_path: Path) -> None:
    def fails(queries: Queries) -> None:
        raise storage_error("it", apsw.IOError("disk I/O error"))

    async with open_scene(tmp_path) as scene:
        assert scene.store is not None
        for _ in range(3):
            with pytest.raises(StorageError):
                await scene.store._run(fails)
            assert "The disk failed under it" in scene.later()
        scene.health.check()  # only another read finds out that it works again
        await scene.put()
        assert scene.later()
        await scene.read()
        assert scene.is_well()


@pytest.mark.parametrize("how", ["removed", "moved away", "replaced"])
async def test_a_file_that_is_gone_is_not_written_any_more(tmp_path: Path, how: str) -> None:
    async with open_scene(tmp_path) as scene:
        path = scene.folder / DATABASE_NAME
        match how:
            case "removed":
                for each in scene.folder.iterdir():
                    each.unlink()
            case "moved away":
                scene.folder.rename(tmp_path / "elsewhere")
            case _:
                path.unlink()
                path.write_bytes(b"another")
        said = "replaced" if how == "replaced" else "removed"
        scene.now += LOOK_SECONDS
        with pytest.raises(DiskBroken, match=f"was {said} while it was in use"):
            await scene.put()
        assert scene.later()
        with pytest.raises(StorageFailed):
            scene.health.check()


async def test_a_folder_that_can_not_be_entered_is_named_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> tuple[int, int]:
        raise PermissionError(13, "Permission denied", str(path))

    async with open_scene(tmp_path) as scene:
        with monkeypatch.context() as patched:
            patched.setattr(store_health, "_identity", refuse)
            assert f"{scene.folder} can't be entered" in scene.later()
            with pytest.raises(StorageFailed, match="can't be entered"):
                scene.health.check()
            await scene.put()  # what runs can end: the file is open
        assert scene.later() == ""
        assert scene.is_well()


async def test_a_folder_that_can_not_be_entered_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_scene(tmp_path) as scene:

        def refuse(path: Path) -> None:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "lstat", refuse)
        with pytest.raises(StorageError, match="Permission denied"):
            await open_reader(scene.folder)
        monkeypatch.undo()


async def test_damage_that_a_check_finds_is_said(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.health.damage = lambda: "damaged"
        assert scene.later() == "damaged"
