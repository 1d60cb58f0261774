"""Programs of tainted sessions: what they write is marked, and who runs one near marked files is tainted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.runtime.events import FilesMarked, SessionTainted
from callboard.runtime.taint import writers
from callboard.tools.sandbox.changes import scan
from support.flows.file_taints import FETCH, READ, WRITE, open_it, run, taints
from support.flows.program_calls import Call
from support.stage import make_workspace, on_both_stores, play, read_result, run_in
from support.waits import leap_when

pytestmark = pytest.mark.usefixtures("sandbox")


def sh(line: str, **more: Any) -> Call:
    return "shell", {"command": line, **more}


def read(path: str) -> Call:
    return "read_file", {"path": path}


async def marks(folder: Path, *calls: Call, store: str = "memory") -> list[str]:
    """What is marked after a session made these calls, relative to the workspace."""
    async with open_it(folder, [calls], store=store) as runtime:
        await (await runtime.create_session()).run("Go.")
        work = (folder / "work").resolve()
        on_record = await runtime.store.marked_files()
    return sorted(str(Path(path).relative_to(work)) for path in on_record)


# ── what they write ──────────────────────────────────────────────────────────────────────────────


@on_both_stores
async def test_what_a_program_of_a_tainted_session_writes_is_marked(
    tmp_path: Path, store: str
) -> None:
    write = sh("mkdir -p deep/er; echo x > deep/er/new; echo x >> old; ln -s old link")
    assert await marks(tmp_path, sh("echo kept > old"), FETCH, write, store=store) == [
        "deep/er/new",
        "link",
        "old",
    ]


@pytest.mark.parametrize(
    ("writer", "reader", "is_tainted"),
    [
        ([FETCH, sh("echo theirs > page.md")], READ, True),
        ([sh("echo ours > page.md"), FETCH], READ, False),
        ([FETCH, sh("true")], sh("ls"), False),
        ([FETCH, sh("echo theirs > page.md")], sh("cat page.md"), True),
        ([FETCH, sh("echo theirs > page.md")], sh("true"), True),  # nobody sees what it reads
        ([FETCH, WRITE], sh("true"), True),
        ([FETCH, WRITE], ("list_directory", {"path": "."}), False),
        ([FETCH, ("run_code", {"language": "bash", "code": "echo x > page.md"})], READ, True),
        ([FETCH, sh("echo theirs > page.md; exit 3")], READ, True),
        ([FETCH, sh("echo x > page.md; mv page.md other")], read("other"), True),
    ],
)
async def test_readers(tmp_path: Path, writer: list[Call], reader: Call, is_tainted: bool) -> None:
    assert (await taints(tmp_path, writer, [reader]))[1] is is_tainted


async def test_a_reader_of_what_a_program_wrote_that_was_stopped(
    tmp_path: Path, leaping_clock: trio.testing.MockClock
) -> None:
    writer = [FETCH, sh("echo theirs > page.md; sleep 600", timeout=60)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leap_when, (tmp_path / "work/page.md").exists, 60)
        assert await taints(tmp_path, writer, [READ]) == [True, True]


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("mv in/page.md out.md", "out.md"),
        ("cp in/page.md out.md", "out.md"),
        ("mv in elsewhere", "elsewhere/page.md"),
        ("mv in elsewhere; mkdir in; touch in/page.md", "elsewhere/page.md"),
        ("cd in; ln page.md ../hard.md", "hard.md"),
    ],
)
async def test_marks_go_with_what_a_program_moves(tmp_path: Path, line: str, path: str) -> None:
    """The session that runs it is tainted by that, though it has no network."""
    write = ("write_file", {"path": "in/page.md", "content": "their words"})
    assert await taints(tmp_path, [FETCH, write], [sh(line)], [read(path)]) == [True] * 3


async def test_a_person_wrote_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (make_workspace(tmp_path) / "own.md").write_text("mine")
    monkeypatch.setattr(writers, "SLACK_NS", 0)
    assert await marks(tmp_path, FETCH, sh("cat own.md; echo x > new")) == ["new"]


async def test_a_repository_is_marked_as_one(tmp_path: Path) -> None:
    """The names of what git keeps mean nothing."""
    repository = make_workspace(tmp_path) / ".git"
    repository.mkdir()
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    assert await marks(tmp_path, FETCH, sh("echo x > .git/index")) == [".git"]


async def test_a_workspace_that_is_too_large_to_look_through_is_marked_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MAX_WRITTEN_ENTRIES", 3)
    few = sh("touch a b")
    assert await marks(tmp_path, FETCH, few) == ["a", "b"]
    assert await marks(tmp_path, FETCH, sh("touch c d e")) == ["."]


async def test_what_was_written_before_a_cancel_is_marked(tmp_path: Path) -> None:
    async with open_it(
        tmp_path, [[FETCH, sh("echo x > page.md; echo begun; sleep 600")], [READ]]
    ) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, callboard.CallProgress):
                    await turn.cancel("enough")
        record = await runtime.store.events(session.session_id)
    marked = [stored.event for stored in record if isinstance(stored.event, FilesMarked)]
    assert [Path(path).name for event in marked for path in event.marked] == ["page.md"]


# ── what they read, and programs beside the calls ────────────────────────────────────────────────


async def test_the_record_names_a_marked_file(tmp_path: Path) -> None:
    async with open_it(tmp_path, [[FETCH, WRITE], [sh("true")]]) as runtime:
        await (await runtime.create_session()).run("Go.")
        session = await run_in(runtime, "Go.")
        record = await runtime.store.events(session.session_id)
    [tainted] = [s.event for s in record if isinstance(s.event, SessionTainted)]
    assert tainted.source == "file page.md"


async def test_what_the_background_writes_is_marked_when_seen(tmp_path: Path) -> None:
    begin = sh("read line; echo $line > page.md; echo written", background=True)
    write = ("process", {"action": "write", "id": "p1", "text": "theirs\n"})
    wait = ("process", {"action": "wait", "id": "p1"})
    turns = [[begin, FETCH, write, wait], [READ]]
    assert await taints(tmp_path, *turns) == [True, True]


async def test_nor_does_a_clean_session_s_mark_anything(tmp_path: Path) -> None:
    begin = sh("read line; echo $line > page.md", background=True)
    write = ("process", {"action": "write", "id": "p1", "text": "ours\n"})
    wait = ("process", {"action": "wait", "id": "p1"})
    assert await taints(tmp_path, [begin, write, wait, FETCH], [READ]) == [True, False]


async def test_its_output_may_be_what_it_read(tmp_path: Path) -> None:
    begin = sh(
        "while ! test -e page.md; do sleep 0.05; done; cat page.md; sleep 600", background=True
    )
    async with open_it(tmp_path, [[begin], [FETCH, WRITE]]) as runtime:
        session = await runtime.create_session()
        assert [r["status"] for r in [read_result(e) for e in (await play(session, "Go.")).results]]
        row = await runtime.store.session(session.session_id)
        assert row is not None
        assert not row.is_tainted
        tainted, _ = await run(runtime)
        assert tainted
