"""What may be a root: one table for the command, the configuration and the wire."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

import callboard
from callboard.runtime.errors import ValidationError
from callboard.tools.workspace.roots import (
    SECRET_FOLDERS,
    SYSTEM_PLACES,
    check_root,
    check_workspace,
    homes,
    why_no_root,
    why_no_workspace,
)

HERE = [place for place in SYSTEM_PLACES if os.path.isdir(place)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this user, with callboard's folders in it and a project."""
    home = tmp_path / "people" / "ann"
    for name in (".local/share/callboard", ".config/callboard", "project/src", *SECRET_FOLDERS):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def own(home: Path) -> tuple[Path, Path]:
    return home / ".local/share/callboard", home / ".config/callboard"


def test_the_folder_that_the_work_is_in_is_one(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (home / "link").symlink_to(tmp_path / "elsewhere")
    for folder in (
        home / "project",
        home / "project" / "src",
        home / "link",
        tmp_path / "elsewhere",
    ):
        assert check_root(folder, own(home)) == str(folder)


@pytest.mark.parametrize("place", ["/", "//", "/.", "/tmp/..", "/proc/self/root", *HERE])
def test_the_system_is_none(place: str) -> None:
    with pytest.raises(ValidationError, match="can't be a root for sessions"):
        check_root(place)


@pytest.mark.parametrize(
    "place",
    [
        *("/proc/self", "/proc/1", "/proc/sys/kernel", "/proc/self/cwd/../../proc", "/sys/fs", "/dev/shm"),
        *("/run/lock", "/var/run", "/etc/ssl", "/usr/local/bin", "/usr/lib", "/dev/fd"),
    ],
)  # fmt: skip
def test_nor_is_what_lies_in_it(place: str) -> None:
    if not os.path.isdir(place):
        pytest.skip(f"{place} is not here")
    assert why_no_root(place)
    assert why_no_workspace(os.path.realpath(place))


def test_homes_and_what_holds_them_are_none(home: Path) -> None:
    wide = {home, *home.parents, Path("/home"), Path("/root"), *map(Path, homes())}
    for folder in wide:
        assert why_no_root(str(folder), own(home)), folder
    assert why_no_workspace(str(home / "project"), own(home)) == ""


def test_what_callboard_lives_by_and_keys_are_none(home: Path) -> None:
    code = Path(callboard.__path__[0]).resolve()
    for closed in (*own(home), home / ".ssh", home / ".aws", code, Path(sys.prefix)):
        (inside := closed / "inside") if closed.is_relative_to(home) else (inside := closed)
        inside.mkdir(exist_ok=True)
        for folder in {closed, closed.parent, inside}:
            assert why_no_root(str(folder), own(home)), folder
        assert why_no_workspace(str(inside.resolve()), own(home)), inside
    assert why_no_root(str(home / "project"), own(home)) == ""


def test_programs_that_others_start_are_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / "project" / "bin"
    folder.mkdir()
    assert why_no_root(str(folder)) == ""
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin")
    assert "closed to sessions" in why_no_root(str(folder))


async def test_who_works_alone_works_in_none_of_them_either(home: Path, tmp_path: Path) -> None:
    """A command and a program: what a model does there is the same, whoever chose the folder."""
    data, config = own(home)
    inner = [data / "skills", data / "workspaces", config / "agents", home / ".ssh/keys"]
    for folder in inner:
        folder.mkdir()
    (link := tmp_path / "link").symlink_to("/etc")
    system = map(Path, ("/", *HERE, "/proc/self", "/etc/ssl"))
    closed = [*system, link, home, home.parent, data, *inner[:2], inner[3]]
    for folder in (*closed, config, *inner):
        with pytest.raises(ValidationError, match="can't be the workspace"):
            check_workspace(folder, own(home))
    (made := data / "workspaces/workspace_1").mkdir()
    for folder in (home / "project", tmp_path, made):
        if folder != tmp_path:  # which holds the home
            check_workspace(folder, own(home))
    async with callboard.open_runtime(
        model="rehearsal", workspace=home / "project", data=data
    ) as runtime:
        await runtime.create_session()
        await runtime.create_session(workspace=made)
        for folder in closed:
            with pytest.raises(ValidationError, match="can't be the workspace") as caught:
                await runtime.create_session(workspace=folder)
            assert caught.value.field == "workspace"
    async with callboard.open_runtime(model="rehearsal", workspace="/etc") as runtime:
        with pytest.raises(ValidationError, match="closed to sessions"):
            await runtime.create_session()


async def test_a_workspace_that_leads_to_a_closed_place_by_now_is_not_undone_nor_worked_in(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work := tmp_path / "work").mkdir()
    (closed := tmp_path / "closed").mkdir()
    monkeypatch.setattr("callboard.tools.workspace.roots.SYSTEM_PLACES", (str(closed),))
    write = callboard.reply(calls=[("write_file", {"path": "a.txt", "content": "new"})])
    model = callboard.ScriptedModel(
        [write, callboard.reply("Done."), write, callboard.reply("Done.")]
    )
    async with callboard.open_runtime(model=model, workspace=work, data=own(home)[0]) as runtime:
        session = await runtime.create_session()
        await session.run("Write.")
        moved = work.rename(tmp_path / "moved")
        shutil.copytree(moved, closed, dirs_exist_ok=True)
        work.symlink_to(closed)
        for force in (False, True):
            with pytest.raises(ValidationError, match="closed to sessions"):
                await session.undo(force=force)
        await session.run("Write.")
        assert [call.status for call in await runtime.store.calls()] == ["error", "success"]
        work.unlink()
        moved.rename(work)
        await session.undo()  # the control
    assert ((closed / "a.txt").exists(), (work / "a.txt").exists()) == (True, False)


def test_who_works_alone_may_have_callboard_in_the_project_and_any_disk(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = home / "project"
    code = project / ".venv/lib/callboard"
    code.mkdir(parents=True)
    monkeypatch.setattr("callboard.tools.workspace.roots.own_code", lambda: (str(code),))
    assert "callboard runs from" in why_no_root(str(project))
    assert why_no_root(str(project), is_lone=True) == ""
    assert why_no_root(str(code), is_lone=True)
    mounts = tmp_path / "mountinfo"
    for kind, is_open in (("gpfs", True), ("proc", False), ("debugfs", False), ("cgroup2", False)):
        mounts.write_text(f"1 0 8:1 / / rw - {kind} /dev/root rw\n")
        assert (why_no_root(str(project), mounts=mounts, is_lone=True) == "") is is_open, kind
        assert why_no_root(str(project / "src"), mounts=mounts)


def test_sources_below_usr_may_be_worked_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = (str(tmp_path / "usr"), [str(tmp_path / "usr/src")])
    (tmp_path / "usr/src/app").mkdir(parents=True)
    monkeypatch.setattr("callboard.tools.workspace.roots.SYSTEM_PLACES", places[:1])
    monkeypatch.setattr("callboard.tools.workspace.roots.SOURCES", places[1])
    assert why_no_root(str(tmp_path / "usr/src/app")) == ""
    for closed in ("usr/src", "usr"):
        assert "closed to sessions" in why_no_root(str(tmp_path / closed))


def test_the_files_of_the_configuration_are_in_none(home: Path, tmp_path: Path) -> None:
    """Under a name that tools write, by a link that they could replace, and before the file is there."""
    work, safe = home / "project", tmp_path / "safe"
    safe.mkdir()
    (safe / "rules.toml").touch()
    (work / "link.toml").symlink_to(safe / "rules.toml")
    (safe / "linked.toml").symlink_to(work / "src" / "rules.toml")
    (work / "src" / "callboard.toml").symlink_to(work / "src" / "rules.toml")
    (work / "way").symlink_to(safe)
    (work / "callboard.toml").touch()
    closed = ["rules.toml", "src/rules.toml", "link.toml", "way/rules.toml", "way/../rules.toml"]
    for file in (
        *(work / name for name in closed),
        safe / "linked.toml",
        work / "src/callboard.toml",
    ):
        files = (*own(home), file)
        assert "could change its own rules" in why_no_root(str(work), files), file
        assert "call it callboard.toml" in why_no_root(str(work), files, is_lone=True), file
        (work / "docs").mkdir(exist_ok=True)
        check_root(work / "docs", files)
    for file in (
        work / "callboard.toml",
        work / "managed.toml",
        safe / "rules.toml",
    ):  # the controls
        check_root(work, (*own(home), file))
        check_workspace(work, (*own(home), file))


async def test_a_program_that_reads_a_configuration_works_nowhere_around_it(
    home: Path, tmp_path: Path
) -> None:
    work = home / "project"
    (work / "rules.toml").write_text('model = "rehearsal"')
    (work / "src/callboard.toml").write_text('model = "rehearsal"')
    for file in ("rules.toml", "src/callboard.toml"):
        settings = callboard.load_settings(work / file)
        async with callboard.open_runtime(settings=settings, workspace=work / "src") as runtime:
            await runtime.create_session()
            if file == "rules.toml":
                with pytest.raises(ValidationError, match="could change its own rules"):
                    await runtime.create_session(workspace=work)
            else:
                await runtime.create_session(workspace=work)


def test_a_link_is_judged_by_where_it_leads(home: Path) -> None:
    for name, target in {
        "a": "/etc",
        "b": "/proc/self",
        "c": str(home),
        "d": str(own(home)[0]),
    }.items():
        (home / "project" / name).symlink_to(target)
        assert why_no_root(str(home / "project" / name), own(home))


@pytest.mark.parametrize(
    "path", ["", "relative", "a/../b", "/a\0b", "/no/such/folder", "/etc/passwd"]
)
def test_what_is_no_folder_is_none(path: str) -> None:
    with pytest.raises(ValidationError):
        check_root(path)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts are read as Linux shows them")
@pytest.mark.parametrize(
    ("kind", "is_ordinary"),
    [
        *((kind, True) for kind in ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "nfs4", "fuse.sshfs")),
        *((kind, False) for kind in ("proc", "sysfs", "cgroup2", "debugfs", "tracefs", "securityfs")),
        *((kind, False) for kind in ("devtmpfs", "devpts", "bpf", "fusectl", "fuse.lxcfs", "mqueue")),
        *((kind, False) for kind in ("binfmt_misc", "configfs", "pstore", "efivarfs", "autofs", "new")),
    ],
)  # fmt: skip
def test_a_file_system_that_does_more_than_keep_files_is_none(
    tmp_path: Path, kind: str, is_ordinary: bool
) -> None:
    (folder := tmp_path / "a b" / "work").mkdir(parents=True)
    mounts = tmp_path / "mountinfo"
    point = str(tmp_path.resolve() / "a b").replace(" ", "\\040")
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/root rw\n"
        f"2 1 0:5 / {point} rw shared:1 - ext3 first rw\n"
        f"3 1 0:6 / {point} rw - {kind} second rw\n"  # over the first
        f"4 1 0:7 / {point}x rw - proc proc rw\n"
    )
    why = why_no_root(str(folder), mounts=mounts)
    assert (why == "") is is_ordinary
    assert is_ordinary or f"file system ({kind})" in why
    assert why_no_root(str(folder), mounts=tmp_path / "gone").startswith(
        "its file system (unknown)"
    )
