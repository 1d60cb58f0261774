"""Changes in files are taken back by clients, and sessions work where the operator lets them."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

import callboard
from callboard.config.sections import ServerSettings
from callboard.runtime.changes.undo_report import UndoReport
from callboard.runtime.errors import AuthError, ConflictError, NotFoundError, ValidationError
from callboard.runtime.events import ChangesUndone
from callboard.runtime.wire.daemon import Changes, UndoChanges, WorkspaceRoot, WorkspaceRoots
from callboard.runtime.wire.fields import Nothing, Role
from callboard.runtime.wire.sessions import OneSession
from support.gateway.daemon_scene import open_client, open_daemon

WRITE = ("write_file", {"path": "a.txt", "content": "second"})


async def test_a_client_undoes_what_a_session_did_to_files(tmp_path: Path) -> None:
    model = callboard.ScriptedModel([callboard.reply(calls=[WRITE]), callboard.reply("Done.")])
    (tmp_path / "a.txt").write_text("first")
    async with (
        open_daemon(model, workspace=tmp_path, on_approval="allow") as daemon,
        open_client(daemon) as client,
    ):
        session = await daemon.runtime.create_session()
        await session.run("Write.")
        one = OneSession(session.session_id)
        (changed,) = (await client.request("session/changes", one, Changes)).changes
        assert (changed.paths, changed.state) == (("a.txt",), "changed")
        foreseen = UndoChanges(session_id=session.session_id, dry_run=True)
        assert (await client.request("session/undo", foreseen, UndoReport)).undo_id == ""
        assert (tmp_path / "a.txt").read_text() == "second"
        wanted = UndoChanges(session_id=session.session_id)
        report = await client.request("session/undo", wanted, UndoReport)
        assert report.lines == ("put back a.txt",)
        assert (tmp_path / "a.txt").read_text() == "first"
        (event,) = [
            stored.event
            for stored in await daemon.runtime.store.events(session.session_id)
            if isinstance(stored.event, ChangesUndone)
        ]
        assert event.undone_by == "token:test"
        (tmp_path / "a.txt").write_text("by hand")
        with pytest.raises(ConflictError, match="Nothing was undone"):
            await client.request(
                "session/undo",
                UndoChanges(session_id=session.session_id, call_id=event.undo_id),
                UndoReport,
            )


async def test_a_root_is_added_while_the_daemon_runs(tmp_path: Path) -> None:
    """It stands behind the one that the start named, and is told apart from it."""
    given = tmp_path / "given"
    tmp_path = tmp_path / "added"
    inside = tmp_path / "inside"
    for folder in (given, inside):
        folder.mkdir(parents=True)
    settings = ServerSettings(port=0, roots=(str(given),))
    async with open_daemon(settings=settings) as daemon, open_client(daemon) as client:
        with pytest.raises(ValidationError, match="not below a root"):
            await client.create_session(workspace=str(inside))
        roots = await client.request("root/add", WorkspaceRoot(str(tmp_path)), WorkspaceRoots)
        again = await client.request("root/add", WorkspaceRoot(str(tmp_path)), WorkspaceRoots)
        assert roots.roots == again.roots == [str(given), str(tmp_path)]
        listed = await client.request("root/list", Nothing(), WorkspaceRoots)
        assert listed == WorkspaceRoots([str(given), str(tmp_path)], given=[str(given)])
        assert (await client.create_session(workspace=str(inside))).workspace == str(inside)


@pytest.mark.parametrize("path", ["relative", "/", "/no/such/folder", "/etc/passwd", "/a\0b", ""])
async def test_what_is_no_folder_is_no_root(path: str) -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        with pytest.raises(ValidationError):
            await client.request("root/add", WorkspaceRoot(path), WorkspaceRoots)
        assert (await client.request("root/list", Nothing(), WorkspaceRoots)).roots == []


async def test_an_operator_adds_no_root_and_another_session_does_not_exist(tmp_path: Path) -> None:
    async with open_daemon() as daemon:
        session = await daemon.runtime.create_session()
        operator = daemon.new_token("operator", Role.OPERATOR, sessions=("session_other",))
        async with open_client(daemon, operator) as client:
            with pytest.raises(AuthError):
                await client.request("root/add", WorkspaceRoot(str(tmp_path)), WorkspaceRoots)
            with pytest.raises(NotFoundError):
                await client.request(
                    "session/undo", UndoChanges(session_id=session.session_id), UndoReport
                )


async def test_no_session_works_where_keys_and_the_record_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the roots are: a program that opens a gateway by itself answers for its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    wide = ServerSettings(port=0, roots=(str(tmp_path), tempfile.gettempdir()))
    async with open_daemon(settings=wide) as daemon, open_client(daemon) as client:
        data = daemon.gateway.daemon.folders.data
        assert data is not None
        closed = [data, data / "backups", data / "workspaces", tmp_path / ".ssh" / "keys"]
        for folder in (*closed, tmp_path / "project"):
            folder.mkdir(parents=True, exist_ok=True)
        link = tmp_path / "innocent"
        link.symlink_to(tmp_path / ".ssh")
        for folder in (*closed, link):
            with pytest.raises(ValidationError, match="can't be a workspace"):
                await client.create_session(workspace=str(folder))
        await client.create_session(workspace=str(tmp_path / "project"))


async def test_no_client_adds_the_system_a_home_or_callboards_own_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    for name in ("ann/bin", "ann/.ssh", "work"):
        (tmp_path / name).mkdir(parents=True)
    async with open_daemon() as daemon, open_client(daemon) as client:
        data = daemon.gateway.daemon.folders.data
        assert data is not None
        own = (data, data.parent, tmp_path / "ann", tmp_path, tmp_path / "ann" / ".ssh")
        for path in (*map(str, own), "/proc", "/proc/self", "/sys", "/dev/shm", "/etc", "/usr/bin"):
            with pytest.raises(ValidationError, match="can't be a root"):
                await client.request("root/add", WorkspaceRoot(path), WorkspaceRoots)
        # A root is judged again by where it leads when a session is made.
        root = tmp_path / "work"
        await client.request("root/add", WorkspaceRoot(str(root)), WorkspaceRoots)
        await client.create_session(workspace=str(root))
        root.rmdir()
        for place in (tmp_path / "ann" / ".ssh", Path("/proc/self/fdinfo"), Path("/etc")):
            root.symlink_to(place)
            with pytest.raises(ValidationError, match="can't be a workspace"):
                await client.create_session(workspace=str(root))
            root.unlink()
        root.symlink_to(tmp_path / "ann" / "bin")
        await client.create_session(workspace=str(root))


async def test_no_client_adds_the_folder_of_the_configuration(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    for name, problem in (("rules.toml", "could change its own rules"), ("callboard.toml", None)):
        (work / name).touch()
        given = callboard.load_settings(work / name)
        async with open_daemon(configured=given) as daemon, open_client(daemon) as client:
            for folder in (tmp_path, work):
                with (
                    nullcontext()
                    if problem is None
                    else pytest.raises(ValidationError, match=problem)
                ):
                    await client.request("root/add", WorkspaceRoot(str(folder)), WorkspaceRoots)
            if problem is None:
                await client.create_session(workspace=str(work))


@pytest.mark.parametrize("path", ["/", "//", "/.", "/tmp/..", "/proc/self/root"])
async def test_the_whole_file_system_is_no_root(path: str) -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        with pytest.raises(ValidationError, match="whole file system"):
            await client.request("root/add", WorkspaceRoot(path), WorkspaceRoots)
        assert (await client.request("root/list", Nothing(), WorkspaceRoots)).roots == []
