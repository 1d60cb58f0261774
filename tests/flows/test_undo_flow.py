"""What file tools change comes back byte for byte, and what others changed since is never lost."""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.changes.version_log import FOLDER, VersionLog
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import ChangesUndone, FilesMarked
from support.flows.file_calls import random_calls
from support.sandbox.sandbox_users import needs_sandbox
from support.stage import finished, make_workspace, on_both_stores, open_in, run_in

Call = tuple[str, dict[str, Any]]
Tree = dict[bytes, tuple[str, int, bytes]]


def tree(folder: Path) -> Tree:
    """Every entry with its kind, its mode and what it holds."""
    found: Tree = {}
    for base, names, files in os.walk(os.fsencode(folder)):
        for name in (*names, *files):
            path = os.path.join(base, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[path] = "link", 0, os.readlink(path)
            elif stat.S_ISDIR(mode):
                found[path] = "folder", stat.S_IMODE(mode), b""
            else:
                found[path] = "file", stat.S_IMODE(mode), Path(os.fsdecode(path)).read_bytes()
    return found


def seed_tree(folder: Path) -> None:
    (folder / "a").mkdir(mode=0o750)
    (folder / "a" / "empty").mkdir(mode=0o711)
    (folder / "b.txt").write_bytes(b"text\n" * 9)
    (folder / "b.txt").chmod(0o640)
    (folder / "a" / "run").write_bytes(b"#!/bin/sh\n")
    (folder / "a" / "run").chmod(0o755)
    (folder / "a" / "ümläut").write_bytes(bytes(range(256)))
    (folder / "to file").symlink_to("b.txt")
    (folder / "a" / "to nothing").symlink_to("nowhere")
    (folder / "to folder").symlink_to("a")
    os.link(folder / "b.txt", folder / "a" / "second name")
    (folder / "a" / os.fsdecode(b"\xff\xfe")).write_bytes(b"odd")


def script(calls: list[Call]) -> callboard.ScriptedModel:
    return callboard.ScriptedModel([*(reply(calls=[call]) for call in calls), reply("Done.")])


def open_on(folder: Path, calls: list[Call], store: str = "memory", **options: Any) -> Any:
    options.setdefault("on_approval", "allow")
    return open_in(folder, options.pop("model", script(calls)), store, **options)


# ── byte for byte ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(8 if os.environ.get("CALLBOARD_SOAK") else 4))
async def test_random_edits_come_back_byte_for_byte(tmp_path: Path, seed: int) -> None:
    folder = make_workspace(tmp_path)
    seed_tree(folder)
    calls = list(random_calls(random.Random(seed), 40))
    before = tree(folder)
    async with open_on(tmp_path, calls) as runtime:
        session = await run_in(runtime, "Go.")
        done = [each for each in await finished(runtime, session) if each.status == "success"]
        after = tree(folder)
        assert len(done) >= 5
        assert after != before
        report = await session.undo()
        assert tree(folder) == before
        assert report.left == ()
        await session.undo(report.undo_id)
        assert tree(folder) == after


@pytest.mark.parametrize("seed", range(100, 104))
async def test_each_call_comes_back_by_itself_in_reverse(tmp_path: Path, seed: int) -> None:
    folder = make_workspace(tmp_path)
    seed_tree(folder)
    trees: list[Tree] = []

    calls = list(random_calls(random.Random(seed), 25))
    async with open_on(tmp_path, [], model=script_in_turns(calls)) as runtime:
        session = await runtime.create_session()
        for _ in calls:
            trees.append(tree(folder))
            await session.run("One.")
        calls_made = [each.call_id for each in await finished(runtime, session)]
        changed = {each.call_id for each in await session.changes()}
        assert len(changed) >= 4
        for call_id, before in zip(reversed(calls_made), reversed(trees), strict=True):
            if call_id in changed:
                await session.undo(call_id)
            assert tree(folder) == before


def script_in_turns(calls: list[Call]) -> callboard.ScriptedModel:
    steps = [step for call in calls for step in (reply(calls=[call]), reply("Done."))]
    return callboard.ScriptedModel(steps)


# ── what was changed since ───────────────────────────────────────────────────────────────────────


@on_both_stores
async def test_what_was_changed_since_stays_until_forced(tmp_path: Path, store: str) -> None:
    folder = make_workspace(tmp_path)
    (folder / "a.txt").write_text("first")
    (folder / "b.txt").write_text("first")
    calls = [
        ("write_file", {"path": "a.txt", "content": "second"}),
        ("write_file", {"path": "b.txt", "content": "second"}),
    ]
    async with open_on(tmp_path, calls, store) as runtime:
        session = await run_in(runtime, "Go.")
        (folder / "a.txt").write_text("by hand")
        with pytest.raises(
            ConflictError, match=r"Nothing was undone: a\.txt: it was changed since"
        ):
            await session.undo()
        assert (folder / "b.txt").read_text() == "second"
        foreseen = await session.undo(dry_run=True)
        assert foreseen.left == ("a.txt: it was changed since",)
        forced = await session.undo(force=True)
        assert [(folder / name).read_text() for name in ("a.txt", "b.txt")] == ["first", "first"]
        await session.undo(forced.undo_id)
        assert (folder / "a.txt").read_text() == "by hand"
        assert (folder / "b.txt").read_text() == "second"


async def test_a_later_call_that_changed_the_file_is_named(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    calls = [
        ("write_file", {"path": "a.txt", "content": "first"}),
        ("write_file", {"path": "a.txt", "content": "second"}),
    ]
    async with open_on(tmp_path, calls) as runtime:
        session = await run_in(runtime, "Go.")
        first, second = [each.call_id for each in await finished(runtime, session)]
        with pytest.raises(ConflictError, match=f"changed since \\(by {second}\\)"):
            await session.undo(first)
        await session.undo(second)
        assert (folder / "a.txt").read_text() == "first"
        await session.undo(first)
        assert not (folder / "a.txt").exists()
        with pytest.raises(NotFoundError, match="undone already"):
            await session.undo(first)


async def test_nothing_is_written_where_a_link_leads_since(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "d").mkdir()
    (folder / "d" / "a.txt").write_text("first")
    calls = [("write_file", {"path": "d/a.txt", "content": "second"})]
    async with open_on(tmp_path, calls) as runtime:
        session = await run_in(runtime, "Go.")
        (folder / "d").rename(outside / "d")
        (folder / "d").symlink_to(outside / "d")
        with pytest.raises(ConflictError, match="Nothing was undone"):
            await session.undo(force=False)
        await session.undo(force=True)
        assert (outside / "d" / "a.txt").read_text() == "second"
        (folder / "d").unlink()
        (outside / "d").rename(folder / "d")
        await session.undo()
        assert (folder / "d" / "a.txt").read_text() == "first"


async def test_a_folder_that_others_use_by_now_stays(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    async with open_on(
        tmp_path, [("write_file", {"path": "new/deep/a.txt", "content": "x"})]
    ) as runtime:
        session = await run_in(runtime, "Go.")
        (folder / "new" / "mine.txt").write_text("mine")
        await session.undo()
        assert sorted(path.name for path in folder.rglob("*")) == ["mine.txt", "new"]


async def test_a_made_folder_goes_behind_what_is_moved_out_of_it(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    (folder / "b.txt").write_text("first")
    calls: list[Call] = [
        ("write_file", {"path": "new/a.txt", "content": "x"}),
        ("move_file", {"from": "b.txt", "to": "new/b.txt"}),
        ("write_file", {"path": "new/b.txt", "content": "second"}),
    ]
    async with open_on(tmp_path, calls) as runtime:
        session = await run_in(runtime, "Go.")
        await session.undo()
    assert [path.name for path in folder.iterdir()] == ["b.txt"]
    assert (folder / "b.txt").read_text() == "first"


# ── when, and by whom ────────────────────────────────────────────────────────────────────────────


async def test_nothing_is_undone_while_a_turn_runs(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    asked, go_on = trio.Event(), trio.Event()

    async def wait(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        asked.set()
        await go_on.wait()
        return callboard.ApprovalAnswer(decision="allow")

    calls: list[Call] = [
        ("write_file", {"path": "a.txt", "content": "first"}),
        ("delete_file", {"path": "a.txt"}),
    ]
    async with open_on(tmp_path, calls, on_approval=wait) as runtime:
        session = await runtime.create_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "Go.")
            await asked.wait()
            with pytest.raises(ConflictError, match="A turn of this session runs"):
                await session.undo()
            assert (folder / "a.txt").read_text() == "first"
            go_on.set()
        await session.undo()
        assert not (folder / "a.txt").exists()


async def test_an_undoing_is_on_record_with_who_did_it(tmp_path: Path) -> None:
    calls = [("write_file", {"path": "a.txt", "content": "first"})]
    async with open_on(tmp_path, calls, "disk") as runtime:
        session = await run_in(runtime, "Go.")
        [call] = await finished(runtime, session)
        report = await session.undo()
        stored = await runtime.store.events(session.session_id)
        [event] = [each.event for each in stored if isinstance(each.event, ChangesUndone)]
    assert event == ChangesUndone(
        undo_id=report.undo_id, call_ids=(call.call_id,), paths=1, undone_by="application"
    )


async def test_a_session_with_no_change_has_nothing_to_undo(tmp_path: Path) -> None:
    async with open_on(tmp_path, [("list_directory", {"path": "."})]) as runtime:
        session = await run_in(runtime, "Go.")
        assert await session.changes() == []
        with pytest.raises(NotFoundError, match=r"has no change of a file that can be undone\."):
            await session.undo()


async def test_a_refused_change_leaves_nothing_to_undo(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    (folder / "full").mkdir()
    (folder / "full" / "a.txt").write_text("x")
    calls: list[Call] = [
        ("delete_file", {"path": "full"}),
        ("write_file", {"path": ".callboard/x", "content": "x"}),
        ("move_file", {"from": "gone", "to": "b"}),
        ("write_file", {"path": "full", "content": "x"}),
    ]
    async with open_on(tmp_path, calls) as runtime:
        session = await run_in(runtime, "Go.")
        assert {each.status for each in await finished(runtime, session)} == {"error"}
        assert await session.changes() == []


# ── what can't be kept ───────────────────────────────────────────────────────────────────────────


async def test_what_is_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.tools.undo.file_states.MAX_KEPT_FILE_BYTES", 100)
    folder = make_workspace(tmp_path)
    (folder / "large").write_bytes(b"x" * 101)
    (folder / "small").write_bytes(b"x" * 100)
    previews: list[str] = []

    def allow(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        previews.append(request.preview)
        return callboard.ApprovalAnswer(decision="allow")

    async def answer(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        return allow(request)

    calls = [("delete_file", {"path": name}) for name in ("large", "small")]
    async with open_on(tmp_path, calls, on_approval=answer) as runtime:
        session = await run_in(runtime, "Go.")
        large, small = await finished(runtime, session)
        told = "large: its 101 bytes are more than is kept of a file (100 bytes)"
        assert told in large.result
        assert "can't be undone" not in small.result
        assert [told in preview for preview in previews] == [True, False]
        with pytest.raises(ConflictError, match="large: it was not kept: its 101 bytes"):
            await session.undo()
        report = await session.undo(force=True)
        assert len(report.left) == 1
        assert [path.name for path in folder.iterdir()] == ["small"]


async def test_a_full_session_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.runtime.changes.version_log.MAX_SESSION_BYTES", 1500)
    folder = make_workspace(tmp_path)
    for name in ("a", "b"):
        (folder / name).write_bytes(name.encode() * 1000)
    calls = [("delete_file", {"path": name}) for name in ("a", "b")]
    async with open_on(tmp_path, calls, "disk") as runtime:
        session = await run_in(runtime, "Go.")
        first, second = await finished(runtime, session)
        assert "undoable" not in first.result
        assert "the versions of this session have reached what is kept" in second.result
        await session.undo(first.call_id)
        assert (folder / "a").read_bytes() == b"a" * 1000


# ── crashes, and the folder of versions ──────────────────────────────────────────────────────────


async def test_versions_are_for_their_owner_alone_and_outside_the_workspace(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    (folder / "a").write_text("secret")
    async with open_on(tmp_path, [("delete_file", {"path": "a"})], "disk") as runtime:
        await (await runtime.create_session()).run("Go.")
    versions = tmp_path / "data" / FOLDER
    [log] = versions.iterdir()
    assert stat.S_IMODE(versions.stat().st_mode) == 0o700
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert b"secret" in log.read_bytes()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_change_that_a_crash_broke_off_is_recognised_and_comes_back(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends when the change is on record, right before or right behind its effect."""
    folder = make_workspace(tmp_path)
    (folder / "a.txt").write_text("first")
    monkeypatch.setattr(VersionLog, "end", lambda *_, **__: None)
    if moment == "before":
        monkeypatch.setattr("callboard.tools.workspace.workspace.publish", lambda *_, **__: None)
    calls = [("write_file", {"path": "a.txt", "content": "second"})]
    async with open_on(tmp_path, calls, "disk") as runtime:
        session = await run_in(runtime, "Go.")
    monkeypatch.undo()
    async with open_on(tmp_path, [], "disk") as runtime:
        session = await runtime.get_session(session.session_id)
        [change] = await session.changes()
        assert change.state == "broken_off"
        assert (folder / "a.txt").read_text() == ("first" if moment == "before" else "second")
        report = await session.undo()
        assert len(report.lines) == (0 if moment == "before" else 1)
    assert (folder / "a.txt").read_text() == "first"


async def test_a_torn_end_of_the_log_is_cut_off_and_the_rest_holds(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    (folder / "a.txt").write_text("first")
    calls = [("write_file", {"path": "a.txt", "content": "second"})]
    async with open_on(tmp_path, calls, "disk") as runtime:
        session = await run_in(runtime, "Go.")
    [log] = (tmp_path / "data" / FOLDER).iterdir()
    whole = log.read_bytes().rstrip(b"\0")  # without the room for ends
    for torn in (b"E", b"E" + bytes(11), whole[:30], b"\0" * 100, b"B" + b"\xff" * 40):
        log.write_bytes(whole + torn)
        async with open_on(tmp_path, [], "disk") as runtime:
            session = await runtime.get_session(session.session_id)
            report = await session.undo()
            assert (folder / "a.txt").read_text() == "first"
            await session.undo(report.undo_id)
        assert log.read_bytes().startswith(whole)
        log.write_bytes(whole)


async def test_a_crashed_undoing_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_workspace(tmp_path)
    for name in ("a", "b", "c"):
        (folder / name).write_text("first")
    calls = [("write_file", {"path": name, "content": "second"}) for name in ("a", "b", "c")]
    async with open_on(tmp_path, calls, "disk") as runtime:
        session = await run_in(runtime, "Go.")
        with monkeypatch.context() as patch:
            patch.setattr("callboard.tools.undo.undo.publish", fail_at(2))
            with pytest.raises(ConflictError, match="The undo stopped"):
                await session.undo()
        assert sorted((folder / name).read_text() for name in "abc") == [
            "first",
            "second",
            "second",
        ]
        await session.undo()
        assert {(folder / name).read_text() for name in "abc"} == {"first"}


def fail_at(number: int) -> Any:
    from callboard.tools.workspace.atomic_write import publish

    calls = 0

    def failing(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise OSError(5, "Input/output error")
        publish(*arguments, **options)

    return failing


# ── the words of strangers ───────────────────────────────────────────────────────────────────────


@callboard.tool(tier="read_only", needs=["network"], effect="read")
async def look(context: callboard.ToolContext) -> str:
    """Reads what strangers wrote."""
    return "words"


async def test_what_a_tainted_session_wrote_is_marked_when_put_back(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    calls: list[Call] = [("look", {}), ("write_file", {"path": "a.txt", "content": "words"})]
    async with open_on(tmp_path, calls, tools=[look]) as runtime:
        tainted = await run_in(runtime, "Go.")
        marks = await runtime.store.marked_files()
        assert marks == [str(folder / "a.txt")]
        report = await tainted.undo()
        assert await runtime.store.marked_files() == []
        await tainted.undo(report.undo_id)
        assert await runtime.store.marked_files() == marks
        stored = await runtime.store.events(tainted.session_id)
        assert sum(isinstance(each.event, FilesMarked) for each in stored) == 3


# ── programs ─────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_program_changed_is_named_as_not_undoable(tmp_path: Path) -> None:
    needs_sandbox()
    folder = make_workspace(tmp_path)
    (folder / "a.txt").write_text("first")
    code = "rm a.txt; echo x > b.txt"
    calls: list[Call] = [
        ("run_code", {"language": "bash", "code": code}),
        ("shell", {"command": "true"}),
        ("write_file", {"path": "c.txt", "content": "x"}),
    ]
    async with open_on(tmp_path, calls) as runtime:
        session = await run_in(runtime, "Go.")
        program, idle, written = await finished(runtime, session)
        assert '"changed":{"created":["b.txt"],"deleted":["a.txt"]}' in program.result
        assert "changed" not in idle.result
        with pytest.raises(NotFoundError, match="What programs changed and can't be undone: call_"):
            await session.undo(program.call_id)
        report = await session.undo()
        assert report.call_ids == (written.call_id,)
        [told] = report.programs
        assert told.startswith(
            f"{program.call_id} (run_code): created b.txt; deleted a.txt (the workspace is no git "
        )
    assert [path.name for path in folder.iterdir()] == ["b.txt"]


async def test_an_undoing_waits_for_calls_in_the_same_workspace(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    began, go_on = trio.Event(), trio.Event()
    order: list[str] = []

    @callboard.tool(tier="read_only", resources=lambda arguments: ["a.txt"])
    async def hold() -> str:
        """Works with a file for a while."""
        began.set()
        await go_on.wait()
        order.append(f"held {(folder / 'a.txt').read_text()}")
        return "held"

    calls: list[Call] = [("write_file", {"path": "a.txt", "content": "first"})]
    model = callboard.ScriptedModel(
        [reply(calls=calls), reply("Ok."), reply(calls=[("hold", {})]), reply("Ok.")]
    )
    async with open_on(tmp_path, [], model=model, tools=[hold]) as runtime:
        session, other = await runtime.create_session(), await runtime.create_session()
        await session.run("Go.")

        async def undo() -> None:
            await session.undo()
            order.append("undone")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.run, "Hold it.")
            await began.wait()
            nursery.start_soon(undo)
            await trio.testing.wait_all_tasks_blocked(0.05)
            go_on.set()
    assert order == ["held first", "undone"]
