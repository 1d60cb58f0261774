"""Undoing while others write, after it was broken off, and in parts: nothing of anybody is lost."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.changes.file_versions import Change, FileKind, FileState, PathStep
from callboard.runtime.changes.version_log import VersionLog, VersionStore
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.tools.undo import undo
from callboard.tools.workspace.atomic_write import TemporaryFile
from support.stage import make_workspace, open_in, run_in

Call = tuple[str, dict[str, Any]]

CHANGES: dict[str, Call] = {
    "written": ("write_file", {"path": "a", "content": "second"}),
    "made": ("write_file", {"path": "b", "content": "second"}),
    "deleted": ("delete_file", {"path": "a"}),
}
"""What a call did, and so what its undoing puts back, removes, or makes."""
PATHS = {"written": "a", "made": "b", "deleted": "a"}


def open_on(folder: Path, calls: list[Call], data: Path | None = None) -> Any:
    steps = [*(reply(calls=[call]) for call in calls), reply("Done.")]
    return callboard.open_runtime(
        workspace=folder,
        data=data,
        environ={},
        strict=True,
        on_approval="allow",
        model=callboard.ScriptedModel(steps),
    )


def hooked(
    monkeypatch: pytest.MonkeyPatch, where: tuple[object, str], act: Callable[[], object]
) -> None:
    """Does something else, once, right behind a function."""
    place, name = where
    real = getattr(place, name)
    is_done = False

    def function(*arguments: Any, **options: Any) -> Any:
        nonlocal is_done
        found = real(*arguments, **options)
        if not is_done:
            is_done = True
            act()
        return found

    monkeypatch.setattr(place, name, function)


# ── who writes meanwhile ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moment", ["planned", "recorded"])
@pytest.mark.parametrize("what", CHANGES)
async def test_what_a_person_writes_while_an_undoing_works_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, moment: str
) -> None:
    """Behind the plan, or when what was there is kept already and its turn has come."""
    folder = make_workspace(tmp_path)
    (folder / "a").write_text("first")
    file = folder / PATHS[what]
    async with open_on(folder, [CHANGES[what]]) as runtime:
        session = await run_in(runtime, "Go.")
        with monkeypatch.context() as patch:
            where: tuple[object, str] = (undo, "plan_undo")
            if moment == "recorded":
                where = (undo.UndoWork, "_record")
            hooked(patch, where, lambda: file.write_text("by hand"))
            with pytest.raises(ConflictError, match="undo again"):
                await session.undo()
        assert file.read_text() == "by hand"
        file.unlink()
        await session.undo(force=True)
        assert [path.name for path in folder.iterdir()] == ["a"]
        assert (folder / "a").read_text() == "first"


async def test_each_path_of_a_change_is_looked_at_when_its_turn_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_workspace(tmp_path)
    (folder / "d").mkdir()
    for name in "ab":
        (folder / "d" / name).write_text("first")
    async with open_on(folder, [("delete_file", {"path": "d", "recursive": True})]) as runtime:
        session = await run_in(runtime, "Go.")
        later = folder / "d" / "a"
        with monkeypatch.context() as patch:
            hooked(patch, (undo, "publish"), lambda: later.write_text("by hand"))
            with pytest.raises(ConflictError, match="d/a was changed while"):
                await session.undo()
        assert later.read_text() == "by hand"
        assert (folder / "d" / "b").read_text() == "first"


async def test_a_turn_that_begins_stops_an_undoing_that_waits(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    hold, go_on, asked = trio.Event(), trio.Event(), trio.Event()

    @callboard.tool(tier="read_only", resources=lambda arguments: ("",))
    async def occupy() -> str:
        """Works in the whole workspace."""
        hold.set()
        await go_on.wait()
        return "done"

    async def wait(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        asked.set()
        await trio.sleep_forever()
        raise AssertionError

    steps = [
        reply(calls=[CHANGES["made"]]),
        reply("Done."),
        reply(calls=[("occupy", {})]),
        reply(calls=[("delete_file", {"path": "b"})]),
        reply("Done."),
    ]
    async with open_in(tmp_path, steps, tools=[occupy], on_approval=wait) as runtime:
        session, other = await runtime.create_session(), await runtime.create_session()
        await session.run("Go.")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.run, "Occupy.")
            await hold.wait()

            async def undo_meanwhile() -> None:
                with pytest.raises(ConflictError, match="A turn of this session runs"):
                    await session.undo()
                nursery.cancel_scope.cancel()

            nursery.start_soon(undo_meanwhile)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(session.run, "Go on.")
            await asked.wait()
            go_on.set()
        assert (folder / "b").read_text() == "second"


# ── in parts ─────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_forced_undoing_had_to_leave_can_be_undone_later(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    (folder / "d").mkdir()
    for name in "ab":
        (folder / "d" / name).write_text("first")
    async with open_on(folder, [("delete_file", {"path": "d", "recursive": True})]) as runtime:
        session = await run_in(runtime, "Go.")
        (folder / "d" / "a").mkdir(parents=True)
        part = await session.undo(force=True)
        assert part.lines == ("put back d/b",)
        assert part.left == ("d/a: it was changed since",)
        (folder / "d" / "a").rmdir()
        # What is back already is no part of it any more.
        (folder / "d" / "b").write_text("by hand")
        rest = await session.undo()
        assert rest.lines == ("put back d/a",)
        assert (folder / "d" / "a").read_text() == "first"
        assert (folder / "d" / "b").read_text() == "by hand"
        with pytest.raises(NotFoundError, match="undone already"):
            await session.undo()
        # The rest taken back again, it can be undone once more: it alone.
        await session.undo(rest.undo_id)
        assert not (folder / "d" / "a").exists()
        assert (await session.undo(dry_run=True)).lines == ("put back d/a",)


# ── broken off ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["file", "link"])
async def test_what_a_killed_undoing_left_half_written_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = make_workspace(tmp_path)
    (folder / "d").mkdir()
    file = folder / "d" / "a"
    if kind == "file":
        file.write_text("first")
    else:
        file.symlink_to("nowhere")
    async with open_on(folder, [("delete_file", {"path": "d/a"})], tmp_path / "data") as runtime:
        session = await run_in(runtime, "Go.")

        def killed(*_: object, **__: object) -> None:
            raise OSError(errno.EIO, "as if it were killed here")

        with monkeypatch.context() as patch:
            patch.setattr(undo, "publish", killed)
            patch.setattr(TemporaryFile, "__exit__", lambda *_: None)
            with pytest.raises(ConflictError, match="The undo stopped"):
                await session.undo()
        (left,) = (folder / "d").iterdir()
        mine = folder / "d" / ".callboard-mine.tmp"
        mine.write_text("not of an undoing")
        await session.undo()
        assert left not in set((folder / "d").iterdir())
        assert file in set((folder / "d").iterdir())
        assert mine.exists()


async def test_a_protected_name_is_not_written_whatever_the_log_says(tmp_path: Path) -> None:
    """A log of another version, or one that somebody has changed."""
    folder, data = make_workspace(tmp_path), tmp_path / "data"
    (folder / ".callboard").mkdir()
    (folder / ".callboard" / "x").write_text("kept")
    async with open_on(folder, [CHANGES["made"]], data) as runtime:
        session = await run_in(runtime, "Go.")
        record(VersionStore(data).log(session.session_id), session.session_id, b".callboard/x")
    async with open_on(folder, [], data) as runtime:
        session = await runtime.get_session(session.session_id)
        report = await session.undo(force=True)
        assert report.left == (".callboard/x: it is protected",)
        assert report.lines == ("remove b",)
    assert (folder / ".callboard" / "x").read_text() == "kept"
    assert not (folder / "b").exists()


def record(log: VersionLog, session_id: str, path: bytes) -> None:
    """A change that says that a path was made."""
    made = FileState(FileKind.FILE, size_bytes=4)
    with log.draft() as draft:
        draft.commit(
            Change(
                change_id="change_forged",
                session_id=session_id,
                call_id="call_forged",
                at_ms=1,
                actions=(PathStep(path, FileState(FileKind.NOTHING), made),),
            )
        )
