"""What a program of a tainted session writes while nobody looks after it taints whoever reads it, as a mark does."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.runtime.taint import writers
from support.flows.file_taints import FETCH, WRITE, open_it
from support.stage import make_workspace
from support.waits import until

pytestmark = pytest.mark.usefixtures("sandbox", "sharp_times")

UNTIL_STOPPED = "while ! test -e stop; do sleep 0.02; done"
WROTE = "echo theirs > page.md"


@pytest.fixture
def sharp_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written a moment before is old."""
    monkeypatch.setattr(writers, "SLACK_NS", 0)


class Scene:
    def __init__(self, runtime: callboard.Runtime, work: Path) -> None:
        self.runtime = runtime
        self.work = work

    async def session(self, *, is_tainted: bool = False) -> str:
        session = await self.runtime.create_session()
        if is_tainted:
            await self.call(session.session_id, *FETCH)
        return session.session_id

    async def call(self, session_id: str, name: str, arguments: dict[str, Any]) -> Any:
        called = await self.runtime.call_tool(name, arguments, session=session_id)
        assert called.status == "success", called
        return called

    async def shell(self, session_id: str, line: str, **more: Any) -> None:
        await self.call(session_id, "shell", {"command": line, **more})

    async def reads(self, path: str, session_id: str | None = None) -> bool:
        """Whether a session is tainted behind reading a file; a new one, if none is given."""
        reader = session_id or await self.session()
        await self.call(reader, "read_file", {"path": path})
        return await self.is_tainted(reader)

    async def is_tainted(self, session_id: str) -> bool:
        row = await self.runtime.store.session(session_id)
        assert row is not None
        return row.is_tainted

    async def until_marked(self, *paths: str) -> None:
        """Wait until these are marked on record, and nothing else."""
        wanted = [str(self.work / path) for path in paths if path]
        while await self.runtime.store.marked_files() != wanted:  # ruff: ignore[async-busy-wait] nothing tells of it  # noqa: ASYNC110
            await trio.sleep(0.003)


@asynccontextmanager
async def scene(folder: Path, **options: Any) -> AsyncGenerator[Scene]:
    async with open_it(folder, [], **options) as runtime:
        try:
            yield Scene(runtime, (folder / "work").resolve())
        finally:
            (folder / "work" / "stop").touch()


@pytest.mark.parametrize("is_tainted", [True, False])
async def test_in_the_background_while_it_runs(tmp_path: Path, *, is_tainted: bool) -> None:
    work = make_workspace(tmp_path)
    (work / "old.md").write_text("mine")
    async with scene(tmp_path) as found:
        writer = await found.session(is_tainted=is_tainted)
        await found.shell(
            writer, f"mkdir n; echo x > n/a; {WROTE}; {UNTIL_STOPPED}", background=True
        )
        await until((work / "page.md").exists)
        assert await found.reads("page.md") is is_tainted
        assert await found.reads("n/a") is is_tainted
        clean = await found.session()
        await found.call(clean, "write_file", {"path": "own.md", "content": "mine"})
        edit = {"path": "own.md", "edits": [{"old_text": "mine", "new_text": "ours"}]}
        await found.call(clean, "edit_file", edit)
        assert not await found.reads("own.md", clean)
        assert not await found.reads("old.md", clean)
        await found.shell(clean, "true")  # it runs beside it
        assert await found.is_tainted(clean) is is_tainted


@pytest.mark.parametrize("is_tainted", [True, False])
async def test_in_the_background_when_it_has_ended_unseen(
    tmp_path: Path, *, is_tainted: bool
) -> None:
    work = make_workspace(tmp_path)
    (work / "old.md").write_text("mine")
    async with scene(tmp_path) as found:
        writer = await found.session(is_tainted=is_tainted)
        await found.shell(writer, WROTE, background=True)
        await until((work / "page.md").exists)
        await found.until_marked("page.md" if is_tainted else "")
        assert await found.reads("page.md") is is_tainted
        assert not await found.reads("old.md")


async def test_a_folder_of_marked_files_is_moved_meanwhile(tmp_path: Path) -> None:
    work = make_workspace(tmp_path)
    (work / "kept").mkdir()
    (work / "kept/own.md").write_text("mine")
    async with scene(tmp_path) as found:
        writer = await found.session(is_tainted=True)
        await found.call(writer, WRITE[0], {**WRITE[1], "path": "in/page.md"})
        await found.shell(writer, f"mv in out; {UNTIL_STOPPED}", background=True)
        await until((work / "out").exists)
        assert not await found.reads("kept/own.md")  # the control
        assert await found.reads("out/page.md")


async def test_a_clean_session_s_program_that_copies_what_others_mark(tmp_path: Path) -> None:
    work = make_workspace(tmp_path)
    copy = "while ! test -e page.md; do sleep 0.02; done; cp page.md copy.md"
    async with scene(tmp_path) as found:
        copier = await found.session()
        await found.shell(copier, f"{copy}; {UNTIL_STOPPED}", background=True)
        tainted = await found.session(is_tainted=True)
        await found.call(tainted, *WRITE)
        await until((work / "copy.md").exists)
        assert await found.reads("copy.md")


async def test_what_is_typed_to_it_by_a_session_that_is_tainted_since(tmp_path: Path) -> None:
    work = make_workspace(tmp_path)
    async with scene(tmp_path) as found:
        writer = await found.session()
        line = f"read line; sleep 0.1; echo $line > page.md; {UNTIL_STOPPED}"
        await found.shell(writer, line, background=True)
        await found.call(writer, *FETCH)
        await found.call(writer, "process", {"action": "write", "id": "p1", "text": "theirs\n"})
        await until((work / "page.md").exists)
        assert await found.reads("page.md")


@pytest.mark.parametrize("is_tainted", [True, False])
async def test_what_a_call_writes_before_it_ends(tmp_path: Path, *, is_tainted: bool) -> None:
    """Calls in one workspace wait for one another, and those in a folder of it don't."""
    work = make_workspace(tmp_path)
    (work / "sub").mkdir()
    async with scene(tmp_path) as found, trio.open_nursery() as nursery:
        writer = await found.session(is_tainted=is_tainted)
        reader = await found.runtime.create_session(workspace=work / "sub")
        nursery.start_soon(found.shell, writer, f"{WROTE}; mv page.md sub; {UNTIL_STOPPED}")
        await until((work / "sub/page.md").exists)
        assert await found.reads("page.md", reader.session_id) is is_tainted
        (work / "stop").touch()


@pytest.mark.parametrize("is_tainted", [True, False])
async def test_a_program_that_hears_through_a_fifo(tmp_path: Path, *, is_tainted: bool) -> None:
    """Nothing of what goes through it is ever in a file."""
    work = make_workspace(tmp_path)
    async with scene(tmp_path) as found:
        tells, hears = await found.session(is_tainted=is_tainted), await found.session()
        await found.shell(tells, "mkfifo f; echo theirs > f", background=True)
        await until((work / "f").exists)
        await found.shell(hears, "cat f")
        assert await found.is_tainted(hears) is is_tainted


@pytest.mark.parametrize("is_tainted", [True, False])
async def test_a_program_in_the_background_that_hears_through_a_socket(
    tmp_path: Path, *, is_tainted: bool
) -> None:
    work = make_workspace(tmp_path)
    listen = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); c, _ = s.accept()"
    listen += "; open('page.md', 'wb').write(c.recv(9)); import time; time.sleep(600)"
    tell = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('s'); s.send(b'theirs')"
    async with scene(tmp_path) as found:
        tells, hears = await found.session(is_tainted=is_tainted), await found.session()
        await found.shell(hears, f'python3 -c "{listen}"', background=True)
        await until((work / "s").exists)
        await found.shell(tells, f'python3 -c "{tell}"')
        await until((work / "page.md").exists)
        assert await found.reads("page.md") is is_tainted


async def test_a_kill_before_anybody_looked(tmp_path: Path) -> None:
    """The next start looks; before, what changed since is not trusted."""
    work = make_workspace(tmp_path)
    async with scene(tmp_path, store="disk") as found:
        writer = await found.session(is_tainted=True)
        await found.shell(writer, f"{WROTE}; {UNTIL_STOPPED}", background=True)
        await until((work / "page.md").exists)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    (work / "stop").unlink()
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "killed").rename(tmp_path / "data")
    async with scene(tmp_path, store="disk") as found:
        assert await found.reads("page.md")
        await found.until_marked("page.md")
