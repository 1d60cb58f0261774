"""The file handles of one call: what they note, mark and clear, and what comes of it on record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from callboard.runtime.definitions import ToolFailure
from callboard.runtime.taint.marked_files import MarkedFiles
from callboard.runtime.taint.tracked_files import FileWatch, TrackedReader, TrackedWriter, disregard
from callboard.tools.workspace.workspace import open_workspace


class Sessions(NamedTuple):
    """A workspace, and calls in it."""

    folder: Path
    marks: MarkedFiles

    def call(self, *, is_tainted: bool) -> TrackedWriter:
        watch = FileWatch(self.marks, str(self.folder))
        watch.begin(lambda: is_tainted)
        return TrackedWriter(open_workspace(self.folder), watch)

    def at(self, name: str) -> str:
        return f"{os.path.realpath(self.folder)}/{name}"


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    folder = tmp_path / "work"
    folder.mkdir()
    return Sessions(folder, MarkedFiles())


def put(files: TrackedWriter, path: str) -> None:
    files.write(path, b"words", replace=True, create_dirs=True)


def test_a_reader_has_no_way_to_write(sessions: Sessions) -> None:
    reader = TrackedReader(open_workspace(sessions.folder), FileWatch(sessions.marks, "."))
    for method in ("write", "append", "replace_unchanged", "move", "delete"):
        assert not hasattr(reader, method)
        assert hasattr(TrackedWriter, method)


def test_what_it_changed_comes_to_one_change(sessions: Sessions) -> None:
    files = sessions.call(is_tainted=True)
    put(files, "a/one")
    put(files, "a/two")
    files.move("a", "b", overwrite=False)
    files.delete("b/two", recursive=False)
    put(files, "three")
    files.delete("three", recursive=False)
    marked, cleared = files.watch.end()
    assert set(marked) == {sessions.at("b/one")}
    assert set(cleared) == {sessions.at("a"), sessions.at("b/two"), sessions.at("three")}
    assert sessions.marks.below(sessions.at("b")) == [sessions.at("b/one")]
    assert sessions.marks.below(sessions.at("a")) == []


def test_what_another_call_has_done_since_stays_on_record(sessions: Sessions) -> None:
    ours, theirs = sessions.call(is_tainted=False), sessions.call(is_tainted=True)
    put(theirs, "a")
    ours.delete("a", recursive=False)
    put(theirs, "a")
    assert theirs.watch.end() == ((sessions.at("a"),), ())
    assert ours.watch.end() == ((), ())


def test_what_another_call_has_cleared_is_not_marked_again(sessions: Sessions) -> None:
    ours, theirs = sessions.call(is_tainted=False), sessions.call(is_tainted=True)
    put(theirs, "a")
    put(ours, "a")
    assert ours.watch.end() == ((), (sessions.at("a"),))
    assert theirs.watch.end() == ((), ())


def test_what_a_preview_read_does_not_count(sessions: Sessions) -> None:
    put(sessions.call(is_tainted=True), "a")
    files = sessions.call(is_tainted=False)
    files.read("a", limit=1)
    assert files.watch.is_tainted
    files.watch.begin(lambda: False)
    assert not files.watch.is_tainted
    files.read("a", limit=1)
    assert list(files.watch.read) == ["a"]


def test_what_was_read_may_be_disregarded(sessions: Sessions) -> None:
    put(sessions.call(is_tainted=True), "a")
    files = sessions.call(is_tainted=False)
    files.read("a", limit=1)
    disregard(files, "other")
    assert list(files.watch.read) == ["a"]
    disregard(files, "a")
    assert not files.watch.read
    disregard(open_workspace(sessions.folder), "a")  # nobody watches: nothing to say


@pytest.mark.parametrize("is_tainted", [True, False])
def test_a_call_that_is_over_writes_nothing_that_would_have_to_be_marked(
    sessions: Sessions, is_tainted: bool
) -> None:
    put(sessions.call(is_tainted=True), "marked")
    files = sessions.call(is_tainted=is_tainted)
    files.watch.end()
    if is_tainted:
        with pytest.raises(ToolFailure, match="the call has ended"):
            put(files, "a")
    else:
        put(files, "a")
    assert (sessions.folder / "a").exists() is not is_tainted
    with pytest.raises(ToolFailure, match="the call has ended"):
        files.move("marked", "b", overwrite=False)
    put(sessions.call(is_tainted=False), "clean")
    files.move("clean", "b", overwrite=False)
    files.delete("marked", recursive=False)
    assert sessions.marks.covers(sessions.at("marked"))  # nothing is on record of that


def test_a_failed_move_leaves_the_marks(sessions: Sessions) -> None:
    files = sessions.call(is_tainted=True)
    put(files, "a")
    (sessions.folder / "b").write_text("mine")
    with pytest.raises(ToolFailure):
        files.move("a", "b", overwrite=False)
    assert sessions.marks.below(sessions.at("a")) == [sessions.at("a")]
    assert not sessions.marks.covers(sessions.at("b"))


def test_without_marks_nothing_is_looked_up(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(sessions.call(is_tainted=False), "a")
    files = sessions.call(is_tainted=False)
    sessions.marks.load(["/elsewhere/a"])
    found: list[str] = []
    monkeypatch.setattr(type(files._files), "find", lambda _, path, **__: found.append(path))
    files.read("a", limit=1)
    assert found == []
    sessions.marks.load([sessions.at("b")])
    files.read("a", limit=1)
    assert found == ["a"]
