"""The folder that the daemon makes for a session goes with it, and nothing else does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.client.client import Client
from callboard.embedding.runtime import host_of
from callboard.runtime.disk.own_folders import OwnFolders
from callboard.runtime.errors import (
    ConflictError,
    NotFoundError,
    StorageError,
    StorageFull,
    ValidationError,
)
from callboard.runtime.wire.daemon import WorkspaceRoot, WorkspaceRoots
from support.gateway.daemon_scene import open_client
from support.gateway.kept_daemon import open_kept
from support.gateway.raw_door import PATIENCE
from support.waits import until

MODEL = callboard.ScriptedModel([callboard.reply("Done.")])


def is_there(path: Path) -> bool:
    """Also as a link."""
    return os.path.lexists(path)


async def purge(client: Client, session_id: str) -> None:
    await client.delete_sessions([session_id])
    await client.purge_sessions([session_id])


async def test_a_session_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    async with open_kept(tmp_path, MODEL) as daemon, open_client(daemon) as client:
        with pytest.raises(NotFoundError):
            await client.create_session(agent="nobody")
        folders = tmp_path / "data" / "workspaces"
        assert list(folders.iterdir()) == []
        session = await client.create_session()
        assert list(folders.iterdir()) == [Path(session.workspace)]


async def test_a_purge_takes_the_folder_that_was_made_for_the_session(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    async with open_kept(tmp_path, MODEL) as daemon, open_client(daemon) as client:
        first = await client.create_session()
        folder = Path(first.workspace)
        (folder / "deep").mkdir()
        (folder / "deep" / "a.txt").write_text("a")
        (folder / "link").symlink_to(outside)
        other = await client.create_session(workspace=str(folder))
        await purge(client, first.session_id)
        assert is_there(folder / "deep" / "a.txt")  # another works there, too
        await purge(client, other.session_id)
        assert not is_there(folder)
        assert (outside / "kept.txt").read_text() == "kept"


async def test_a_purge_leaves_the_operator_s_folders_and_follows_no_link(tmp_path: Path) -> None:
    root = tmp_path / "projects" / "workspace_0"
    root.mkdir(parents=True)
    async with open_kept(tmp_path, MODEL) as daemon, open_client(daemon) as client:
        await client.request("root/add", WorkspaceRoot(str(root.parent)), WorkspaceRoots)
        theirs = await client.create_session(workspace=str(root))
        ours = await client.create_session()
        folder = Path(ours.workspace)
        os.rmdir(folder)
        os.symlink(root, folder)
        for session in (theirs, ours):
            await purge(client, session.session_id)
            assert await client.sessions() == [ours][: session is theirs]
        assert root.is_dir()
        assert is_there(folder)


def remove(folders: OwnFolders, folder: str) -> None:
    """As a purge does."""
    folders.set_aside(folder)
    folders.sweep()


def test_only_what_was_made_there_is_removed(tmp_path: Path) -> None:
    folders = OwnFolders(tmp_path)
    made = folders.make()
    for path in (
        str(tmp_path),
        str(tmp_path / "workspaces"),
        str(tmp_path / "workspaces" / "project"),
        f"{made}/..",
        f"{made}/../{made.name}/workspace_1",
        str(tmp_path / made.name),
        "",
    ):
        assert not folders.holds(path)
        with pytest.raises(StorageError, match="not a folder that callboard made"):
            remove(folders, path)
    assert not OwnFolders(None).holds(str(made))
    (tmp_path / "other").symlink_to(tmp_path)
    assert folders.holds(f"{tmp_path}/other/workspaces/{made.name}")
    remove(folders, str(made))
    remove(folders, str(made))  # again is harmless
    assert not made.exists()
    real = (tmp_path / "workspaces").rename(tmp_path / "moved")
    (tmp_path / "workspaces").symlink_to(real)
    there = folders.make()
    with pytest.raises(StorageError, match="can't be removed"):
        remove(folders, str(there))
    assert there.exists()


def test_what_is_set_aside_is_no_workspace_until_it_is_put_back(tmp_path: Path) -> None:
    folders = OwnFolders(tmp_path)
    made = folders.make()
    (made / "kept.txt").write_text("kept")
    folders.set_aside(str(made))
    assert not made.exists()
    (left,) = folders.left()
    assert not folders.holds(str(left))
    folders.put_back(str(made))
    assert (made / "kept.txt").read_text() == "kept"
    assert folders.left() == []


async def test_a_session_that_begins_during_a_purge_has_its_folder_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge looks first, and a session begins before it removes; and the other way round."""
    async with open_kept(tmp_path, MODEL) as daemon, open_client(daemon) as client:
        store, looked = daemon.runtime.store, trio.Event()
        session_page = store.session_page

        async def slow_page(*args: Any) -> Any:
            page = await session_page(*args)
            looked.set()
            await trio.testing.wait_all_tasks_blocked(0.01)
            return page

        old = await client.create_session()
        await client.delete_sessions([old.session_id])
        monkeypatch.setattr(store, "session_page", slow_page)
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.purge_sessions, [old.session_id])
                await looked.wait()
                with pytest.raises(ValidationError, match="gone with its sessions"):
                    await client.create_session(workspace=old.workspace)
        monkeypatch.undo()
        ours = await client.create_session()
        new = await client.create_session(workspace=ours.workspace)
        await purge(client, ours.session_id)
        assert is_there(Path(new.workspace))


async def test_a_session_that_is_restored_during_its_purge_keeps_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kept(tmp_path, MODEL) as daemon, open_client(daemon) as client:
        session = await client.create_session()
        kept = Path(session.workspace) / "kept.txt"
        kept.write_text("kept")
        await client.delete_sessions([session.session_id])
        set_aside = OwnFolders.set_aside

        def restored_meanwhile(folders: OwnFolders, folder: str) -> None:
            set_aside(folders, folder)
            trio.from_thread.run(client.restore_sessions, [session.session_id])

        monkeypatch.setattr(OwnFolders, "set_aside", restored_meanwhile)
        with pytest.raises(ConflictError, match="is not deleted"):
            await client.purge_sessions([session.session_id])
        assert kept.read_text() == "kept"


async def test_what_a_killed_purge_left_is_removed_by_the_next_start(tmp_path: Path) -> None:
    folders = OwnFolders(tmp_path / "data")
    left = folders.make()
    folders.set_aside(str(left))
    async with open_kept(tmp_path, MODEL):
        with trio.fail_after(PATIENCE):
            await until(lambda: not folders.left())


async def test_a_purge_that_fails_leaves_the_session_its_folder_and_its_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kept(tmp_path, MODEL) as daemon, open_client(daemon) as client:
        host = host_of(daemon.runtime)
        session = await client.create_session()
        kept = Path(session.workspace) / "kept.txt"
        kept.write_text("kept")
        versions = tmp_path / "data" / "callboard.versions" / f"{session.session_id}.log"
        versions.parent.mkdir(exist_ok=True)
        versions.touch()
        await client.delete_sessions([session.session_id])

        async def fails(*args: Any) -> Any:
            raise StorageFull("no room")

        with monkeypatch.context() as full:
            full.setattr(type(host.plan.store), "purge", fails)
            with pytest.raises(StorageFull):
                await host.keeping.purge([session.session_id])
        await host.pruning.look()
        assert kept.read_text() == "kept"
        assert versions.exists()
        await host.keeping.purge([session.session_id])
        assert not kept.parent.exists()
        assert not versions.exists()


async def test_a_sweep_puts_back_what_a_session_still_names(tmp_path: Path) -> None:
    """A purge that was killed between the folder and the record."""
    async with open_kept(tmp_path, MODEL) as daemon, open_client(daemon) as client:
        session = await client.create_session()
        kept = Path(session.workspace) / "kept.txt"
        kept.write_text("kept")
        folders = host_of(daemon.runtime).plan.folders
        nobodys = folders.make()
        folders.set_aside(session.workspace)
        folders.set_aside(str(nobodys))
        await host_of(daemon.runtime).pruning.look()
        assert kept.read_text() == "kept"
        assert folders.left() == []
        assert not nobodys.exists()


async def test_a_purge_whose_client_goes_away_ends_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_kept(tmp_path, MODEL) as daemon, open_client(daemon) as client:
        host = host_of(daemon.runtime)
        session = await client.create_session()
        folders = host.plan.folders
        versions = tmp_path / "data" / "callboard.versions" / f"{session.session_id}.log"
        versions.parent.mkdir(exist_ok=True)
        versions.touch()
        await client.delete_sessions([session.session_id])
        kind, gone = type(host.plan.store), trio.CancelScope()
        purge_records = kind.purge

        async def purge_late(*args: Any) -> Any:
            gone.cancel()
            await trio.testing.wait_all_tasks_blocked(0.01)
            return await purge_records(*args)

        monkeypatch.setattr(kind, "purge", purge_late)
        with gone:
            await host.keeping.purge([session.session_id])
        await host.pruning.look()
        assert await host.plan.store.session(session.session_id) is None
        assert not is_there(Path(session.workspace))
        assert folders.left() == []
        assert not versions.exists()
