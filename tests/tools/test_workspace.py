"""Opening a workspace, and how its writes reach the disk."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.disk.private_folder import hold
from callboard.runtime.errors import ValidationError
from callboard.tools.workspace import atomic_write, openat2
from callboard.tools.workspace.reader import failure
from callboard.tools.workspace.workspace import Workspace, open_workspace
from support.tools.workbench import Caller, text_of


@pytest.fixture
def no_rename_exclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that has no renameat2."""
    monkeypatch.setattr(openat2, "_renameat2", None)


def descriptors_below(folder: Path) -> int:
    """How many files this process holds open in a folder, or the folder itself."""
    gc.collect()  # What was caught may still hold a frame, and that what it used.
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{number}").startswith(str(folder))
    return count


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def file_size_limit(size: int) -> Generator[None]:
    """A disk on which no file grows beyond a size: writes fail as on a full one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def as_nobody() -> Generator[None]:
    """Without the rights of root, for which no permission bit counts."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_unfit_folders_are_refused_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    data = home / "project" / "data" / "callboard"
    data.mkdir(parents=True)
    (home / "file").touch()
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    refused: dict[str | Path, str] = {
        "/": "whole file system",
        home: "home folder",
        tmp_path / "link": "home folder",
        home / "missing": "does not exist",
        home / "file": "not a folder",
        home / "project": "it holds .*closed to sessions",
        data: "is or lies in .*closed to sessions",
    }
    for path, why in refused.items():
        with pytest.raises(ValidationError, match=why) as caught:
            open_workspace(path, forbidden=[data])
        assert "Choose a project's own folder" in str(caught.value)
        assert caught.value.field == "workspace"
    (home / "other").mkdir()
    with open_workspace(home / "other", forbidden=[data]) as workspace:
        assert workspace.find(".") is not None


def test_case_13_leftovers_of_a_crash_are_removed_at_once_and_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "sub").mkdir()
    left = [folder / f".callboard-{'0a' * 8}.tmp", folder / "sub" / ".callboard-change_0a.tmp"]
    kept = [folder / f".callboard-{'0b' * 8}.tmp", folder / ".callboard-mine.tmp", folder / "x.tmp"]
    for path in [*left, *kept]:
        path.touch()
    others = [folder / f".callboard-{name * 8}.tmp" for name in ("0c", "0d")]
    os.mkfifo(others[0])
    others[1].symlink_to("x.tmp")
    with kept[0].open("rb") as writing:
        hold(writing.fileno())
        open_workspace(folder).close()
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)
    assert all(os.path.lexists(path) for path in others), "only files are ours"
    assert f"removed 2 unfinished writes: {left[0].name}, sub/{left[1].name}" in caplog.text
    open_workspace(folder).close()
    assert not kept[0].exists(), "the control: its writer is gone"


def test_leftovers_without_locks_are_removed_after_a_day(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    old, young = (folder / f".callboard-{name * 8}.tmp" for name in ("0a", "0b"))
    for path in (old, young):
        path.touch()
    os.utime(old, (0, 0))
    open_workspace(folder).close()
    assert [path.exists() for path in (old, young)] == [False, True]


def test_a_closed_workspace_refuses_and_gives_its_descriptor_back(folder: Path) -> None:
    workspace = open_workspace(folder)
    view = workspace.read_only()
    workspace.write("f", b"x", replace=False, create_dirs=False)
    assert view.read("f", limit=1).data == b"x"
    workspace.close()
    workspace.close()
    for files in (workspace, view):
        with pytest.raises(ToolFailure, match="closed"):
            files.read("f", limit=1)
    assert descriptors_below(folder) == 1
    del workspace, view, files
    assert descriptors_below(folder) == 0


def test_no_call_leaks_a_descriptor(workspace: Workspace, folder: Path) -> None:
    (folder / "out").symlink_to("..")
    for _ in range(3):
        workspace.write("a/b/c", b"x", replace=True, create_dirs=True)
        workspace.append("a/b/c", b"y", create_dirs=True)
        workspace.find("a/b/c")
        workspace.read("a/b/c", limit=5)
        workspace.entries(".", recursive=True, include_hidden=True, max_entries=5)
        workspace.move("a/b", "d", overwrite=False)
        for path in ("out/x", "d/c/x", "missing/x", "d"):
            with pytest.raises(ToolFailure):
                workspace.write(path, b"x", replace=False, create_dirs=False)
            with pytest.raises(ToolFailure):
                workspace.read(path, limit=1)
        workspace.delete("a", recursive=True)
        workspace.delete("d", recursive=True)
    assert descriptors_below(folder) == 1


def test_case_12_new_files_are_not_writable_for_others_whatever_the_umask(
    workspace: Workspace, folder: Path
) -> None:
    with umask(0):
        workspace.write("d/f", b"x", replace=False, create_dirs=True)
    assert stat.S_IMODE((folder / "d").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "d" / "f").stat().st_mode) == 0o644
    with umask(0o077):
        workspace.append("e/f", b"x", create_dirs=True)
    assert stat.S_IMODE((folder / "e").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "e" / "f").stat().st_mode) == 0o600


def test_case_12_a_replaced_file_keeps_its_bits_but_setuid(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "f").write_text("old")
    (folder / "f").chmod(0o4751)
    workspace.write("f", b"new", replace=True, create_dirs=False)
    assert stat.S_IMODE((folder / "f").stat().st_mode) == 0o751


def test_a_write_that_fails_leaves_the_old_content_and_no_litter(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "f").write_bytes(b"old")
    with file_size_limit(4096):
        for path, replace in (("f", True), ("g", False)):
            with pytest.raises(ToolFailure) as caught:
                workspace.write(path, bytes(8192), replace=replace, create_dirs=False)
            assert caught.value.error_type == ErrorType.STORAGE_FULL
        with pytest.raises(ToolFailure) as caught:
            workspace.append("f", bytes(8192), create_dirs=False)
        assert caught.value.error_type == ErrorType.STORAGE_FULL
        workspace.write("fits", bytes(4096), replace=False, create_dirs=False)
    assert (folder / "f").read_bytes() == b"old"
    assert sorted(os.listdir(folder)) == ["f", "fits"]


def test_case_13_a_crash_before_the_rename_leaves_the_old_content(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: object, **__: object) -> None:
        raise Crash

    (folder / "f").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(atomic_write.TemporaryFile, "__exit__", lambda made, *_: os.close(made._fd))
        patch.setattr(os, "rename", crash)
        with pytest.raises(Crash):
            workspace.write("f", b"new", replace=True, create_dirs=False)
    assert (folder / "f").read_bytes() == b"old"
    leftover = [name for name in os.listdir(folder) if name != "f"]
    assert [(folder / name).read_bytes() for name in leftover] == [b"new"]
    assert not leftover[0].startswith("f")
    open_workspace(folder).close()
    assert os.listdir(folder) == ["f"]


def race_to_write(workspace: Workspace, count: int) -> list[str]:
    """What became of writes of one new path at once."""
    outcomes: list[str] = []
    start = threading.Barrier(count)

    def write(number: int) -> None:
        start.wait()
        try:
            workspace.write("d/new", b"%d" % number, replace=False, create_dirs=True)
            outcomes.append(str(number))
        except ToolFailure as refused:
            outcomes.append(refused.error_type.value)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_of_parallel_writes_of_one_new_path_one_wins(workspace: Workspace, folder: Path) -> None:
    outcomes = race_to_write(workspace, 8)
    winners = [outcome for outcome in outcomes if outcome != "already_exists"]
    assert len(outcomes) == 8
    assert len(winners) == 1
    assert (folder / "d" / "new").read_text() == winners[0]
    assert os.listdir(folder / "d") == ["new"]


@pytest.mark.usefixtures("no_rename_exclusive")
def test_without_renameat2_one_wins_too(workspace: Workspace, folder: Path) -> None:
    outcomes = race_to_write(workspace, 8)
    # Without the system call the new file has two names for a moment, which is refused as such.
    refused = [outcome for outcome in outcomes if outcome in {"already_exists", "access_denied"}]
    assert len(refused) == 7
    assert os.listdir(folder / "d") == ["new"]


@pytest.mark.parametrize("has_renameat2", [True, False])
def test_moves_claim_a_free_name(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch, has_renameat2: bool
) -> None:
    if not has_renameat2:
        monkeypatch.setattr(openat2, "_renameat2", None)
    (folder / "f").write_text("file")
    (folder / "d").mkdir()
    (folder / "d" / "inner").write_text("inner")
    (folder / "l").symlink_to("nowhere")
    for name in "fdl":
        for taken in "fdl":
            with pytest.raises(ToolFailure) as caught:
                workspace.move(name, taken, overwrite=False)
            expected = {"already_exists", "validation_error"} if name == "d" else {"already_exists"}
            assert caught.value.error_type in expected
    for name in "fdl":
        workspace.move(name, f"{name}2", overwrite=False)
    assert sorted(os.listdir(folder)) == ["d2", "f2", "l2"]
    assert (folder / "f2").read_text() == "file"
    assert (folder / "d2" / "inner").read_text() == "inner"
    assert os.readlink(folder / "l2") == "nowhere"


async def test_what_the_system_denies_is_access_denied(caller: Caller, folder: Path) -> None:
    (folder / "locked").mkdir()
    for path in ("closed", "open", "locked/f"):
        (folder / path).write_text("text")
    os.chmod(folder / "closed", 0)
    os.chmod(folder / "locked", 0o555)
    os.chmod(folder, 0o777)
    with as_nobody():
        assert await caller.error_type("read_file", path="closed") == "access_denied"
        assert (await caller.output("read_file", path="open"))["content"] == "text"
        for name, arguments in (
            ("write_file", {"path": "locked/new", "content": "x"}),
            ("write_file", {"path": "locked/f", "content": "x"}),
            ("delete_file", {"path": "locked/f"}),
            ("move_file", {"from": "locked/f", "to": "moved"}),
        ):
            assert await caller.error_type(name, **arguments) == "access_denied"
        assert (await caller.output("list_directory", path="locked"))["total"] == 1
        await caller.result("write_file", path="new", content="x")
        await caller.result("move_file", **{"from": "new", "to": "moved"})
        await caller.result("delete_file", path="moved")
    assert text_of(folder / "locked" / "f") == "text"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOENT, "file_not_found"),
        (errno.ENOTDIR, "not_a_directory"),
        (errno.EISDIR, "not_a_file"),
        (errno.EEXIST, "already_exists"),
        (errno.ENOTEMPTY, "not_empty"),
        (errno.EACCES, "access_denied"),
        (errno.EPERM, "access_denied"),
        (errno.EROFS, "access_denied"),
        (errno.ENOSPC, "storage_full"),
        (errno.EDQUOT, "storage_full"),
        (errno.EXDEV, "path_not_allowed"),
        (errno.ELOOP, "path_not_allowed"),
        (errno.EIO, "execution_error"),
    ],
)
def test_what_the_system_says_has_its_error_type(number: int, expected: str) -> None:
    refused = failure(OSError(number, os.strerror(number)), "a\nb")
    assert refused.error_type == expected
    assert str(refused).startswith("a\\nb: ")


@pytest.mark.parametrize("replace", [False, True])
def test_a_file_and_then_its_name_are_on_the_disk(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    """A name that is on the disk before the bytes are is an empty file after a crash."""
    file = folder / "a.txt"
    if replace:
        file.write_text("first")
    flushed: list[tuple[int, str]] = []
    flush = os.fsync

    def fsync(fd: int) -> None:
        flush(fd)
        inode = os.fstat(fd).st_ino
        is_named = file.exists() and file.read_bytes() == b"second"
        flushed.append((inode, "named" if is_named else "unnamed"))

    monkeypatch.setattr(os, "fsync", fsync)
    workspace.write("a.txt", b"second", replace=replace, create_dirs=False)
    assert file.read_bytes() == b"second"
    assert flushed[0] == (file.stat().st_ino, "unnamed")
    assert flushed[-1] == (folder.stat().st_ino, "named")
