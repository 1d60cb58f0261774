"""Marked files: which paths they cover, and that nothing which was written meanwhile is forgotten."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.events import DurableEvent, FilesMarked, SessionCreated
from callboard.runtime.store.interface import Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append
from callboard.runtime.taint import marked_files
from callboard.runtime.taint.marked_files import MarkedFiles
from support.both_stores import KINDS, opened_store

ROOT = "/work"


def test_a_mark_covers_what_lies_below_it_and_nothing_else() -> None:
    marks = MarkedFiles()
    assert not marks
    marks.mark("/work/a", ROOT)
    assert marks
    for path, covered in (
        ("/work/a", True), ("/work/a/b/c", True), ("/work/ab", False), ("/work", False),
        ("/other/work/a", False),
    ):  # fmt: skip
        assert marks.covers(path) is covered
    marks.clear("/work/a", marks.now())
    assert not marks


@pytest.mark.parametrize(
    ("workspace", "concerned"),
    [("/work", True), ("/work/inner", True), ("/work/inner/x.md", True), ("/", True),
     ("/work/in", False), ("/other", False)],
)  # fmt: skip
def test_whether_a_workspace_is_concerned_follows_the_marks(
    workspace: str, concerned: bool
) -> None:
    marks = MarkedFiles()
    root = workspace.rstrip("/")
    assert not marks.concern(root)
    marks.mark("/work/inner/x.md", ROOT)
    assert marks.concern(root) is concerned
    marks.clear("/work/inner", marks.now())
    assert not marks.concern(root)
    marks.load(["/work/inner/x.md"])
    assert marks.concern(root) is concerned


def test_what_was_written_since_is_not_cleared() -> None:
    marks = MarkedFiles()
    marks.mark("/work/a", ROOT)
    before = marks.now()
    marks.mark("/work/a", ROOT)
    marks.clear("/work/a", before)
    assert marks.covers("/work/a")
    marks.mark("/work/a", ROOT, is_being_written=True)
    marks.clear("/work/a", math.inf)
    assert marks.covers("/work/a")  # until the write has ended
    marks.mark("/work/a", ROOT)
    marks.clear("/work/a", marks.now())
    assert not marks.covers("/work/a")


def test_too_many_marks_become_one_on_their_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marked_files, "MAX_MARKED_FILES", 3)
    marks = MarkedFiles()
    marks.load(["/other/x"])
    assert [marks.mark(f"/work/{name}", ROOT) for name in "ab"] == ["/work/a", "/work/b"]
    assert marks.mark("/work/a", ROOT) == "/work/a"
    assert marks.mark("/work/c", ROOT) == ROOT
    assert marks.below(ROOT) == [ROOT]
    assert marks.covers("/work/never/written")
    assert not marks.covers("/other/y")
    assert marks.mark("/work/d", ROOT) == ROOT


# ── on record ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with opened_store(request.param, tmp_path / "data") as opened:
        await opened.commit([Append("s1", (SessionCreated(agent="general", workspace=ROOT),))])
        yield opened


def event(*marked: str, cleared: tuple[str, ...] = ()) -> DurableEvent:
    return FilesMarked(call_id="c1", marked=marked, cleared=cleared)


@pytest.mark.parametrize(
    ("events", "paths"),
    [
        ([event("/work/a", "/work/b")], {"/work/a", "/work/b"}),
        ([event("/work/a"), event("/work/a")], {"/work/a"}),
        ([event("/work/a/b", "/work/ab", "/work/a.b"), event(cleared=("/work/a",))], {"/work/ab", "/work/a.b"}),
        ([event("/work/a/b"), event("/work/c/b", cleared=("/work/c", "/work/a"))], {"/work/c/b"}),
        ([event("/work/a", cleared=("/work/a",))], {"/work/a"}),
        ([event("/work/a/b", "/work2/a"), event("/work")], {"/work", "/work2/a"}),
        ([event("/work/%", "/work/_/ö\U0001f600"), event(cleared=("/work/x",))], {"/work/%", "/work/_/ö\U0001f600"}),
    ],
)  # fmt: skip
async def test_a_store_knows_what_is_marked(
    store: Store, events: list[DurableEvent], paths: set[str]
) -> None:
    for one in events:
        await store.commit([Append("s1", (one,))])
    assert set(await store.marked_files()) == paths


NAMES = st.lists(st.sampled_from(["a", "b", "a.", "a0", "ä"]), min_size=1, max_size=3)
PATHS = NAMES.map(lambda names: "/".join([ROOT, *names]))


@given(steps=st.lists(st.tuples(st.booleans(), PATHS), max_size=30))
async def test_what_is_on_record_covers_what_the_marks_do(steps: list[tuple[bool, str]]) -> None:
    marks, store = MarkedFiles(), open_memory_store()
    await store.commit([Append("s1", (SessionCreated(agent="general", workspace=ROOT),))])
    for is_written, path in steps:
        if is_written:
            one = event(marks.mark(path, ROOT))
        else:
            marks.clear(path, marks.now())
            one = event(cleared=(path,))
        await store.commit([Append("s1", (one,))])
    again = MarkedFiles()
    again.load(await store.marked_files())
    await store.aclose()
    for _, path in steps:
        for asked in (path, f"{path}/below"):
            assert again.covers(asked) is marks.covers(asked)
