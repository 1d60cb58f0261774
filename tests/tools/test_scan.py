"""What a program changed is told of by the looks before and behind it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.runtime.processes import ChangedFiles
from callboard.tools.sandbox.changes import scan as module
from callboard.tools.sandbox.changes.scan import MAX_NAMED, changed, scan, written_since


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a.txt").write_text("a")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "b.txt").write_text("b")
    (tmp_path / "link").symlink_to("kept")
    return tmp_path


def told(folder: Path, act: object) -> ChangedFiles:
    before = scan(str(folder))
    assert callable(act)
    act()
    return changed(before, scan(str(folder)))


def test_nothing_is_told_where_nothing_changed(folder: Path) -> None:
    assert told(folder, lambda: None) == ChangedFiles()


def test_each_kind_of_change_is_told(folder: Path) -> None:
    def act() -> None:
        (folder / "kept" / "a.txt").write_text("A")  # as long as before
        (folder / "old" / "b.txt").unlink()
        (folder / "old").rmdir()
        (folder / "new").mkdir()
        (folder / "new" / "c\x1b[31m").touch()

    assert told(folder, act) == ChangedFiles(
        created=("new/", "new/c\\x1b[31m"),
        modified=("kept/a.txt",),
        deleted=("old/", "old/b.txt"),
        sizes={"new/c\\x1b[31m": 0, "kept/a.txt": 1},
    )


def test_times_that_were_put_back_hide_no_change(folder: Path) -> None:
    file = folder / "kept" / "a.txt"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns

    def act() -> None:
        file.write_text("A")
        os.utime(file, ns=times)

    assert told(folder, act).modified == ("kept/a.txt",)


def test_modes_and_links_count(folder: Path) -> None:
    def act() -> None:
        (folder / "kept").chmod(0o711)
        (folder / "link").unlink()
        (folder / "link").symlink_to("old")

    assert told(folder, act).modified == ("kept/", "link")


def test_links_are_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (folder / "way out").symlink_to(outside)
    assert told(folder, lambda: (outside / "x").touch()) == ChangedFiles()


def test_of_folders_of_tools_it_is_told_whether_they_changed(folder: Path) -> None:
    for name in (".git", "node_modules"):
        (folder / name / "deep").mkdir(parents=True)

    def act() -> None:
        (folder / ".git" / "x").touch()
        (folder / "node_modules" / "x").touch()
        (folder / "node_modules" / "deep" / "y").touch()

    assert told(folder, act) == ChangedFiles(modified=("node_modules/",))


def test_many_changes_are_counted(folder: Path) -> None:
    def act() -> None:
        for number in range(MAX_NAMED + 7):
            (folder / f"n{number:03}").touch()

    found = told(folder, act)
    assert (len(found.created), found.more) == (MAX_NAMED, 7)


def test_a_workspace_that_is_too_large_is_not_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 5)
    assert told(folder, lambda: None) == ChangedFiles()
    found = told(folder, (folder / "one more").touch)
    assert found == ChangedFiles(why_not="the workspace holds more than 5 entries")


def test_a_look_that_takes_too_long_is_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SECONDS", -1)
    assert told(folder, lambda: None).why_not == "looking at the workspace took too long"


def test_what_was_written_is_found_by_its_times(folder: Path) -> None:
    everything = written_since(str(folder), 0)
    assert everything is not None
    assert set(everything.files) == {"kept/a.txt", "old/b.txt", "link"}
    assert set(everything.folders) == {"kept", "old"}
    nothing = written_since(str(folder), 2**62)
    assert nothing is not None
    assert (nothing.files, nothing.folders) == ((), ())
