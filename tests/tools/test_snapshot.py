"""Copies of a repository are shared by programs, and each gets what was there right before it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.runtime.changes.version_log import VersionStore
from callboard.tools.sandbox.changes import snapshot as module
from callboard.tools.sandbox.changes.git_files import open_reader
from callboard.tools.sandbox.changes.scan import scan
from callboard.tools.sandbox.changes.snapshot import WorkspaceCopies, WorkspaceSnapshot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_text(name * 10)
    return folder


def new_tree(folder: Path) -> WorkspaceCopies:
    return WorkspaceCopies(VersionStore(folder.parent / "data").open_aside)


def kept(tree: WorkspaceCopies, folder: Path) -> WorkspaceSnapshot:
    return tree.snapshot(open_reader(str(folder)), scan(str(folder)))


def content(snapshot: WorkspaceSnapshot, path: str) -> bytes:
    return b"".join(snapshot.aside.pieces(snapshot.states[path]))


def test_only_what_changed_is_copied_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED_NS", 0)
    tree = new_tree(folder)
    first = kept(tree, folder)
    assert first.aside.end == 30
    (folder / "b").write_text("second")
    second = kept(tree, folder)
    assert (second.aside, second.aside.end) == (first.aside, 36)
    assert content(second, "b") == b"second"
    assert content(second, "a") == b"a" * 10
    assert content(first, "b") == b"b" * 10


def test_a_file_that_may_change_once_more_at_the_same_time_is_copied_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times tell nothing of two writes within one tick of the clock that files have."""
    monkeypatch.setattr(module, "SETTLED_NS", 10**18)
    tree = new_tree(folder)
    kept(tree, folder)
    assert kept(tree, folder).aside.end == 60


def test_a_file_that_changes_while_it_is_kept_is_not(folder: Path) -> None:
    seen = scan(str(folder))
    (folder / "a").write_text("other")
    snapshot = new_tree(folder).snapshot(open_reader(str(folder)), seen)
    assert snapshot.why == {"a": module.BEING_CHANGED}
    assert snapshot.states.keys() == {"b", "c"}


def test_what_is_no_file_is_not_read(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to("/etc/hostname")
    snapshot = kept(new_tree(folder), folder)
    assert snapshot.why == {"fifo": "it is a FIFO, a socket or a device"}
    assert snapshot.states["link"].target == b"/etc/hostname"


def test_old_copies_go_and_who_still_reads_them_can(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TREE_BYTES", 90)
    tree = new_tree(folder)
    first = snapshot = kept(tree, folder)
    for _ in range(6):
        snapshot = kept(tree, folder)  # too young to be settled, so that all is copied each time
        assert snapshot.aside.end <= 90
        assert content(snapshot, "c") == b"c" * 10
    assert snapshot.aside is not first.aside
    assert content(first, "c") == b"c" * 10
