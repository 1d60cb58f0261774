"""Files that a tainted session wrote: whoever reads them is tainted too, wherever they lie by then."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.events import CallFinished, FilesMarked, SessionTainted, Stored
from support.flows.file_taints import FETCH, READ, WRITE, Call, fetch, open_it, run, taints
from support.stage import make_workspace, on_both_stores, open_in, run_in


def of(kind: type[Any], record: list[Stored]) -> list[Any]:
    return [stored.event for stored in record if isinstance(stored.event, kind)]


# ── from one session to the next ─────────────────────────────────────────────────────────────────


@on_both_stores
async def test_who_reads_what_a_tainted_session_wrote_is_too(tmp_path: Path, store: str) -> None:
    async with open_it(tmp_path, [[FETCH, WRITE], [READ]], store=store) as runtime:
        writer, reader = await runtime.create_session(), await runtime.create_session()
        await writer.run("Go.")
        await reader.run("Go.")
        wrote = await runtime.store.events(writer.session_id)
        read = await runtime.store.events(reader.session_id)
        on_record = await runtime.store.marked_files()
        row = await runtime.store.session(reader.session_id)
    path = str(await trio.Path(tmp_path, "work", "page.md").resolve())
    [marked] = of(FilesMarked, wrote)
    assert (marked.marked, marked.cleared) == ((path,), ())
    assert on_record == [path]
    [tainted] = of(SessionTainted, read)
    assert tainted.source == "file page.md"
    assert row is not None
    assert row.is_tainted
    for record, event in ((wrote, marked), (read, tainted)):
        # Ahead of the call's result, in its commit: they have one time.
        [at] = [number for number, stored in enumerate(record) if stored.event is event]
        behind = next(s for s in record[at:] if isinstance(s.event, CallFinished))
        assert isinstance(behind.event, CallFinished)
        assert behind.event.call_id == event.call_id


@pytest.mark.parametrize(
    ("writer", "reader", "is_tainted"),
    [
        ([WRITE], [READ], False),
        ([FETCH, WRITE], [("read_file", {"path": "other.md"})], False),
        ([FETCH, WRITE], [("list_directory", {"path": "."})], False),
        ([FETCH, WRITE], [("write_file", {"path": "page.md", "content": "", "mode": "append"})], False),
        ([FETCH, WRITE], [("edit_file", {"path": "page.md", "edits": [{"old_text": "their", "new_text": "my"}]})], True),
        ([WRITE, FETCH], [READ], False),
        ([WRITE, FETCH, ("write_file", {"path": "page.md", "content": "", "mode": "append"})], [READ], True),
        ([FETCH, WRITE], [("read_file", {"path": "link.md"})], True),
        ([FETCH, WRITE], [("read_file", {"path": "folder/../page.md"})], True),
        ([FETCH, WRITE], [("first_bytes", {"path": "page.md"})], True),
        ([WRITE], [("first_bytes", {"path": "page.md"})], False),
        ([("download", {"path": "page.md"})], [READ], True),
        ([FETCH, ("write_file", {"path": "link.md", "content": "x"})], [READ], True),
        ([FETCH, ("write_file", {"path": "linked/new.md", "content": "x"})], [("read_file", {"path": "folder/new.md"})], True),
        ([FETCH, ("edit_file", {"path": "other.md", "edits": [{"old_text": "no such", "new_text": "x"}]})], [("read_file", {"path": "other.md"})], False),
    ],
)  # fmt: skip
async def test_what_counts_as_written_and_as_read(
    tmp_path: Path, writer: list[Call], reader: list[Call], is_tainted: bool
) -> None:
    workspace = make_workspace(tmp_path)
    (workspace / "other.md").write_text("mine")
    (workspace / "page.md").write_text("mine")
    (workspace / "folder").mkdir()
    (workspace / "link.md").symlink_to("page.md")
    (workspace / "linked").symlink_to("folder")
    assert (await taints(tmp_path, writer, reader))[1] is is_tainted


@pytest.mark.parametrize(
    ("search", "is_tainted"),
    [
        ({"pattern": "words"}, True),
        ({"pattern": "words", "path": "page.md"}, True),
        ({"pattern": "mine"}, False),
        ({"pattern": "nowhere"}, False),
        ({"glob": "*.md"}, False),
        ({"pattern": "mine", "glob": "*.md"}, False),
        ({"pattern": "words", "glob": "other*"}, False),
    ],
)
async def test_a_search_taints(tmp_path: Path, search: dict[str, Any], is_tainted: bool) -> None:
    (make_workspace(tmp_path) / "other.md").write_text("mine")
    gitignore = ("write_file", {"path": ".gitignore", "content": "*.log"})
    turns = [FETCH, gitignore, WRITE], [("search_files", search)]
    assert await taints(tmp_path, *turns) == [True, is_tainted]


async def test_what_is_copied_out_of_a_marked_file_is_marked(tmp_path: Path) -> None:
    copy = ("copy_file", {"source": "page.md", "target": "copy.md"})
    read_copy = ("read_file", {"path": "copy.md"})
    assert await taints(tmp_path, [FETCH, WRITE], [copy], [read_copy]) == [True] * 3
    (tmp_path / "clean").mkdir()
    assert await taints(tmp_path / "clean", [WRITE], [copy], [read_copy]) == [False] * 3


async def test_a_workspace_inside_another_sees_the_same_file(tmp_path: Path) -> None:
    inner = make_workspace(tmp_path) / "inner"
    inner.mkdir()
    write = ("write_file", {"path": "inner/page.md", "content": "their words"})
    async with open_it(tmp_path, [[FETCH, write], [READ]]) as runtime:
        await run(runtime)
        session = await run_in(runtime, "Go.", workspace=inner)
        row = await runtime.store.session(session.session_id)
    assert row is not None
    assert row.is_tainted


# ── what becomes of the file ─────────────────────────────────────────────────────────────────────

READ_MOVED: Call = ("read_file", {"path": "b/moved.md"})
IN_FOLDER: Call = ("write_file", {"path": "a/page.md", "content": "their words"})
CLEAN: Call = ("write_file", {"path": "a/page.md", "content": "mine"})


@on_both_stores
@pytest.mark.parametrize(
    ("between", "reader", "is_tainted"),
    [
        ([("move_file", {"from": "a/page.md", "to": "b/moved.md"})], READ_MOVED, True),
        ([("move_file", {"from": "a/other.md", "to": "b/moved.md"})], READ_MOVED, False),
        ([("move_file", {"from": "a", "to": "c"})], ("read_file", {"path": "c/page.md"}), True),
        ([("move_file", {"from": "a", "to": "c"})], ("read_file", {"path": "c/other.md"}), False),
        ([("move_file", {"from": "a", "to": "c"}), CLEAN], ("read_file", {"path": "a/page.md"}), False),
        ([("move_file", {"from": "a/other.md", "to": "a/page.md", "overwrite": True})], ("read_file", {"path": "a/page.md"}), False),
        ([("move_file", {"from": "a/page.md", "to": "a/other.md", "overwrite": True})], ("read_file", {"path": "a/other.md"}), True),
        ([("move_file", {"from": "a/page.md", "to": "a/other.md"})], ("read_file", {"path": "a/page.md"}), True),
        ([("delete_file", {"path": "a/page.md"}), ("copy_file", {"source": "a/other.md", "target": "a/page.md"})], ("read_file", {"path": "a/page.md"}), False),
        ([("delete_file", {"path": "a", "recursive": True}), ("copy_file", {"source": "b/other.md", "target": "a/page.md"})], ("read_file", {"path": "a/page.md"}), False),
        ([("delete_file", {"path": "a"})], ("read_file", {"path": "a/page.md"}), True),
        ([CLEAN], ("read_file", {"path": "a/page.md"}), False),
        ([("read_file", {"path": "a/page.md"}), CLEAN], ("read_file", {"path": "a/page.md"}), True),
        ([FETCH, CLEAN], ("read_file", {"path": "a/page.md"}), True),
        ([("copy_file", {"source": "b/other.md", "target": "a/page.md"})], ("read_file", {"path": "a/page.md"}), True),
    ],
)  # fmt: skip
async def test_the_mark_goes_where_the_file_goes(
    tmp_path: Path, store: str, between: list[Call], reader: Call, is_tainted: bool
) -> None:
    workspace = make_workspace(tmp_path)
    for name in ("a", "b"):
        (workspace / name).mkdir()
        (workspace / name / "other.md").write_text("mine")
    if store == "memory":
        found = await taints(tmp_path, [FETCH, IN_FOLDER], between, [reader])
        assert found[2] is is_tainted
        return
    for turn in ([FETCH, IN_FOLDER], between):  # each in a process of its own, as it were
        await taints(tmp_path, turn, store=store)
    assert await taints(tmp_path, [reader], store=store) == [is_tainted]


async def test_a_folder_whose_name_is_no_utf8_keeps_its_marks(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    odd = os.fsdecode(b"p\xe4ges")
    (workspace / odd).mkdir()
    (workspace / odd / "other.md").write_text("mine")
    (workspace / "linked").symlink_to(odd)
    write = ("write_file", {"path": "linked/page.md", "content": "their words"})
    assert await taints(tmp_path, [FETCH, write], store="disk") == [True]
    for name, is_tainted in (("page.md", True), ("other.md", False)):
        read = [("read_file", {"path": f"linked/{name}"})]
        assert await taints(tmp_path, read, store="disk") == [is_tainted]


# ── calls that do not end well ───────────────────────────────────────────────────────────────────


async def test_what_a_cancelled_call_wrote_is_marked(tmp_path: Path) -> None:
    has_written = trio.Event()

    @callboard.tool(needs=["files.write"])
    async def write_and_wait(context: callboard.ToolContext) -> str:
        """Writes, and never ends."""
        assert context.files_write is not None
        context.files_write.write("page.md", b"x", replace=True, create_dirs=False)
        has_written.set()
        await trio.sleep_forever()
        return "never"

    turns = [[FETCH, ("write_and_wait", {})]]
    async with open_it(tmp_path, turns, store="disk", tools=[write_and_wait]) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            await has_written.wait()
            await turn.cancel()
    assert await taints(tmp_path, [READ], store="disk") == [True]


@pytest.mark.parametrize("is_tainted", [True, False])
async def test_a_thread_that_nobody_waits_for_writes_nothing_unnoticed(
    tmp_path: Path, is_tainted: bool
) -> None:
    go_on, refusals = threading.Event(), list[str]()
    has_begun, is_done = trio.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    @callboard.tool(needs=["files.write"])
    def write_late(context: callboard.ToolContext) -> str:
        """Writes when it is over."""
        assert context.files_write is not None
        token.run_sync_soon(has_begun.set)
        go_on.wait()
        try:
            context.files_write.write("late.md", b"x", replace=True, create_dirs=False)
        except ToolFailure as failure:
            refusals.append(str(failure))
        token.run_sync_soon(is_done.set)
        return "late"

    before = [FETCH] if is_tainted else []
    async with open_it(tmp_path, [[*before, ("write_late", {})]], tools=[write_late]) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            await has_begun.wait()
            await turn.cancel()
        go_on.set()
        await is_done.wait()
        assert await runtime.store.marked_files() == []
    assert (tmp_path / "work" / "late.md").exists() is not is_tainted
    assert len(refusals) == is_tainted


async def test_a_file_is_marked_while_the_call_that_writes_it_still_runs(tmp_path: Path) -> None:
    has_written, may_end = trio.Event(), trio.Event()

    @callboard.tool(needs=["files.write"])
    async def write_slowly(context: callboard.ToolContext) -> str:
        """Writes, and ends later."""
        assert context.files_write is not None
        context.files_write.write("page.md", b"x", replace=True, create_dirs=False)
        has_written.set()
        await may_end.wait()
        return "written"

    # The model is one for both: the writer's last answer comes behind the reader's.
    turns = [[FETCH, ("write_slowly", {})]]
    steps: list[Any] = [reply(calls=[call]) for call in turns[0]]
    steps += [reply(calls=[READ]), reply("Read."), reply("Written.")]
    async with open_in(tmp_path, steps, policy="auto", tools=[fetch, write_slowly]) as runtime:
        writer = await runtime.create_session()
        async with writer.prompt("Go.") as turn:
            await has_written.wait()
            assert (await run(runtime))[0]
            may_end.set()
            assert await turn.answer() == "Written."


Act = Callable[[Any], object]


@pytest.mark.parametrize(
    "act",
    [
        lambda files: files.replace_unchanged("page.md", b"x", digest=b"another"),
        lambda files: files.write("page.md", b"x", replace=False, create_dirs=False),
        lambda files: files.append("no/such/folder.md", b"x", create_dirs=False),
    ],
)
async def test_a_write_that_failed_leaves_no_mark(tmp_path: Path, act: Act) -> None:
    (make_workspace(tmp_path) / "page.md").write_text("mine")

    @callboard.tool(needs=["files.write"])
    def try_it(context: callboard.ToolContext) -> str:
        """Fails."""
        act(context.files_write)
        return "written"

    async with open_it(tmp_path, [[FETCH, ("try_it", {})], [READ]], tools=[try_it]) as runtime:
        is_tainted, results = await run(runtime)
        assert is_tainted
        assert results[-1]["status"] == "error"
        assert await runtime.store.marked_files() == []
        assert not (await run(runtime))[0]
