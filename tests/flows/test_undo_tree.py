"""Undoing a session takes back what it delegated, too, in the order in which it happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError
from callboard.runtime.events import ChangesUndone
from callboard.runtime.identity import now_ms
from callboard.tools.undo import undo
from support.cli.command import Command
from support.stage import make_workspace, on_both_stores, open_in


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content, "if_exists": "overwrite"}


DELEGATE = ("delegate", {"kind": "branch", "task": "Go on."})
STEPS = [
    reply(calls=[write("a.txt", "parent")]),
    reply(calls=[DELEGATE]),
    reply(calls=[write("a.txt", "child")]),
    reply(calls=[write("new/b.txt", "child")]),
    reply("Mine."),
    reply("Done."),
]
BEFORE = {"a.txt": "first"}
AFTER = {"a.txt": "child", "new/b.txt": "child"}


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def open_tree(folder: Path, store: str = "memory", steps: Any = STEPS) -> Any:
    (make_workspace(folder) / "a.txt").write_text("first")
    return open_in(folder, steps, store, on_approval="allow")


async def undone(runtime: callboard.Runtime, session_id: str) -> list[ChangesUndone]:
    stored = await runtime.store.events(session_id)
    return [each.event for each in stored if isinstance(each.event, ChangesUndone)]


@on_both_stores
async def test_all_of_it_comes_back_and_goes_again(tmp_path: Path, store: str) -> None:
    async with open_tree(tmp_path, store) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        [child] = await runtime.store.children(session.session_id)
        assert contents(tmp_path / "work") == AFTER
        listed = [(each.session_id, each.paths) for each in await session.changes()]
        assert listed == [
            (session.session_id, ("a.txt",)),
            (child.session_id, ("a.txt",)),
            (child.session_id, ("new", "new/b.txt")),
        ]
        foreseen = await session.undo(dry_run=True)
        assert contents(tmp_path / "work") == AFTER
        report = await session.undo()
        assert report.lines == foreseen.lines
        assert len(report.call_ids) == 3
        assert contents(tmp_path / "work") == BEFORE
        [whole], [part] = [
            await undone(runtime, each) for each in (session.session_id, child.session_id)
        ]
        assert (whole.call_ids, part.call_ids) == (report.call_ids, report.call_ids[:2])
        assert [each.state for each in await session.changes()][:3] == ["undone"] * 3
        await session.undo(report.undo_id)
        assert contents(tmp_path / "work") == AFTER


async def test_what_was_undone_within_a_millisecond_goes_again_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent and its child changed the same file, each in its own record."""
    async with open_tree(tmp_path) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        now = now_ms()
        monkeypatch.setattr(undo, "now_ms", lambda: now)
        report = await session.undo()
        assert contents(tmp_path / "work") == BEFORE
        await session.undo(report.undo_id)
        assert contents(tmp_path / "work") == AFTER


async def test_a_call_that_delegated_is_undone_by_itself(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        [call] = await runtime.store.calls(name="delegate")
        await session.undo(call.call_id)
        assert contents(tmp_path / "work") == {"a.txt": "parent"}
        await session.undo()
        assert contents(tmp_path / "work") == BEFORE


async def test_what_was_changed_since_below_leaves_all_as_it_is(tmp_path: Path) -> None:
    async with open_tree(tmp_path) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        (tmp_path / "work" / "new" / "b.txt").write_text("mine")
        with pytest.raises(ConflictError, match=r"Nothing was undone: new/b\.txt: it was changed"):
            await session.undo()
        assert contents(tmp_path / "work") == {**AFTER, "new/b.txt": "mine"}
        await session.undo(force=True)
        assert contents(tmp_path / "work") == BEFORE


async def test_a_later_change_of_the_session_is_named_where_only_the_delegated_is_undone(
    tmp_path: Path,
) -> None:
    steps = [*STEPS[:5], reply(calls=[write("a.txt", "again")]), STEPS[5]]
    async with open_tree(tmp_path, steps=steps) as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        [row] = await runtime.store.children(session.session_id)
        *_, last = await session.changes()
        child = await runtime.get_session(row.session_id)
        with pytest.raises(ConflictError, match=r"a\.txt: it was changed since"):
            await child.undo()
        [call] = await runtime.store.calls(name="delegate")
        with pytest.raises(ConflictError, match=f"a.txt: it was changed since.*{last.call_id}"):
            await session.undo(call.call_id)
        assert contents(tmp_path / "work") == {**AFTER, "a.txt": "again"}
        await session.undo()
        assert contents(tmp_path / "work") == BEFORE


async def test_nothing_is_undone_while_a_delegated_session_works(tmp_path: Path) -> None:
    refused: list[str] = []
    sessions: list[callboard.Session] = []

    @callboard.tool(tier="read_only", effect="read")
    async def look(context: callboard.ToolContext) -> str:
        """Looks whether the session above can be undone."""
        try:
            await sessions[0].undo()
        except ConflictError as error:
            refused.append(str(error))
        return context.session_id

    steps = [STEPS[0], reply("Written."), reply(calls=[("look", {})]), reply("Mine.")]
    (make_workspace(tmp_path) / "a.txt").write_text("first")
    async with open_in(tmp_path, steps, on_approval="allow", tools=[look]) as runtime:
        above = await runtime.create_session()
        await above.run("Go.")
        sessions.append(above)
        below = await runtime.create_session()
        await below.run("Look.")
        assert contents(tmp_path / "work") == BEFORE, "the control: it is no session below"
    steps = [reply(calls=[DELEGATE]), reply(calls=[("look", {})]), reply("Mine."), reply("Done.")]
    async with open_in(tmp_path, steps, on_approval="allow", tools=[look]) as runtime:
        sessions[0] = await runtime.create_session()
        await sessions[0].run("Go.")
    assert "runs, and may change the same files" in refused[0]


async def test_the_command_lists_and_undoes_what_was_delegated(tmp_path: Path) -> None:
    command = Command(tmp_path)
    (command.workspace / "a.txt").write_text("first")
    async with command.open_runtime(STEPS, on_approval="allow") as runtime:
        session = await runtime.create_session()
        await session.run("Go.")
        [child] = await runtime.store.children(session.session_id)
        [call] = await runtime.store.calls(name="delegate")
    listed = await command("undo", session.session_id, "--list")
    assert listed.out.count(f"(by {child.session_id})") == 2
    assert len(listed.out.splitlines()) == 3
    foreseen = await command("undo", session.session_id, call.call_id[:14], "--dry-run")
    assert foreseen.out == "remove new/b.txt\nremove new\nput back a.txt\n"
    assert (await command("undo", session.session_id, "--yes")).code == 0
    assert contents(command.workspace) == BEFORE
