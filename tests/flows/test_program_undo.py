"""What programs change in a git repository comes back byte for byte; elsewhere it is said that it can't."""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import CallFinished, CallProgress
from callboard.tools.sandbox.changes import change_tracker, snapshot
from callboard.tools.sandbox.changes import scan as scan_module
from callboard.tools.undo import undo
from callboard.tools.undo.plan import plan_undo
from support.flows import killed_program
from support.flows.file_calls import random_calls
from support.flows.killed import killed_when_ready
from support.stage import finished, make_workspace, open_in, run_in
from support.tools.shell_edits import git, random_lines, seed_repository, tree

Call = tuple[str, dict[str, Any]]


pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace that is a repository."""
    folder = make_workspace(tmp_path)
    seed_repository(folder)
    return folder


def bash(code: str) -> Call:
    return "run_code", {"language": "bash", "code": code}


@asynccontextmanager
async def session_on(
    place: Path, calls: list[Call], store: str = "memory", **options: Any
) -> AsyncGenerator[tuple[callboard.Runtime, callboard.Session]]:
    """A session in which these calls were made, one after another."""
    script = [*(reply(calls=[call]) for call in calls), reply("Done.")]
    model, environ = options.pop("model", script), {"PATH": os.environ["PATH"]}
    async with open_in(
        place, model, store, environ=environ, on_approval="allow", **options
    ) as runtime:
        session = await runtime.create_session()
        if calls:
            await session.run("Go.")
        yield runtime, session


def said(call: CallFinished) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(call.result)
    result: dict[str, Any] = told.get("result", told)
    return result


# ── byte for byte ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(6))
async def test_random_edits_by_programs_come_back(tmp_path: Path, folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    calls = [bash(random_lines(chance, 12)) for _ in range(3)]
    before = tree(folder)
    async with session_on(tmp_path, calls) as (_, session):
        after = tree(folder)
        assert after != before
        assert len(await session.changes()) >= 2
        report = await session.undo()
        assert report.left == ()
        assert tree(folder) == before
        await session.undo(report.undo_id)
        assert tree(folder) == after


async def test_programs_and_tools_come_back_in_their_order(tmp_path: Path, folder: Path) -> None:
    calls: list[Call] = [
        ("write_file", {"path": "b.txt", "content": "by a tool"}),
        ("shell", {"command": "cat b.txt b.txt > c.txt; rm b.txt; mkdir b.txt"}),
        ("move_file", {"from": "c.txt", "to": "b.txt/d"}),
        bash("echo more >> b.txt/d; mv a z"),
        ("delete_file", {"path": "z", "recursive": True}),
    ]
    before = tree(folder)
    async with session_on(tmp_path, calls, "disk") as (runtime, session):
        done = await finished(runtime, session)
        assert {each.status for each in done} == {"success"}
        assert not any("not_undoable" in each.result for each in done)
        with pytest.raises(ConflictError, match=r"b\.txt: it was changed since"):
            await session.undo(done[1].call_id)
        report = await session.undo()
        assert report.call_ids == tuple(each.call_id for each in reversed(done))
        assert report.programs == ()
        assert tree(folder) == before


@pytest.mark.parametrize(
    "code",
    [
        "rm b.txt && mkdir b.txt && echo x > b.txt/y",
        "rm -r a && echo x > a",
        "rm b.txt && ln -s a b.txt",
        "ln -sfn b.txt 'to nothing'",
        "rm -rf own a untracked b.txt",
        "chmod 0700 own/empty; chmod 0751 a",
        "git -c user.name=x -c user.email=x@x commit -qam two",
        "git checkout -q -f HEAD -- b.txt; git clean -fdq || true",
        "mv tracked.log own/other",
        "rm -rf .git/objects .git/index; rm b.txt",
        "printf 'text\\n' > \"$(printf 'odd \\377 name')\"; rm b.txt",
    ],
)
async def test_kinds_modes_and_git_come_back(tmp_path: Path, folder: Path, code: str) -> None:
    before = tree(folder)
    async with session_on(tmp_path, [bash(code)]) as (runtime, session):
        [call] = await finished(runtime, session)
        assert said(call)["exit_code"] == 0
        assert "not_undoable" not in said(call)
        if code.startswith("git -c"):
            assert tree(folder) == before
            return
        assert tree(folder) != before
        await session.undo(call.call_id)
        assert tree(folder) == before


async def test_what_only_looks_changed_or_came_since_stays(tmp_path: Path, folder: Path) -> None:
    calls = [bash("touch b.txt"), bash("echo x > b.txt; mkdir new; echo y > new/y")]
    async with session_on(tmp_path, calls) as (runtime, session):
        touched, wrote = await finished(runtime, session)
        assert said(touched)["changed"] == {"modified": ["b.txt"]}
        assert [each.call_id for each in await session.changes()] == [wrote.call_id]
        (folder / "new" / "mine").write_text("mine")
        (folder / "b.txt").write_text("by hand")
        with pytest.raises(ConflictError, match=r"b\.txt: it was changed since"):
            await session.undo()
        await session.undo(force=True)
        assert (folder / "b.txt").read_bytes() == b"changed, not committed\n"
        assert [path.name for path in (folder / "new").iterdir()] == ["mine"]


@pytest.mark.parametrize("seed", [2007, 2010])  # 2007: a folder that was moved, and is made anew
async def test_random_edits_by_both_come_back(tmp_path: Path, folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    calls: list[Call] = []
    for _ in range(5):
        calls += [*random_calls(chance, 5), bash(random_lines(chance, 12))]
    before = tree(folder)
    async with session_on(tmp_path, calls) as (_, session):
        after = tree(folder)
        report = await session.undo()
        assert tree(folder) == before
        await session.undo(report.undo_id)
        assert tree(folder) == after


# ── each program sees what the one before it left ────────────────────────────────────────────────


async def test_each_of_many_programs_comes_back_by_itself(tmp_path: Path, folder: Path) -> None:
    """Copies are shared by programs: each must have what was there right before it."""
    calls = [bash(f"printf '{number:04}' > b.txt") for number in range(5)]
    async with session_on(tmp_path, calls) as (runtime, session):
        done = await finished(runtime, session)
        for number, call in reversed(list(enumerate(done))):
            assert (folder / "b.txt").read_text() == f"{number:04}"
            await session.undo(call.call_id)
        assert (folder / "b.txt").read_bytes() == b"changed, not committed\n"


async def test_a_program_that_runs_out_of_time_is_undone_too(tmp_path: Path, folder: Path) -> None:
    call: Call = ("shell", {"command": "rm b.txt; sleep 60", "timeout": 5})
    before = tree(folder)
    async with session_on(tmp_path, [call]) as (runtime, session):
        [ended] = await finished(runtime, session)
        assert '"error_type":"timeout"' in ended.result or ended.status == "timeout"
        assert not (folder / "b.txt").exists()
        await session.undo()
        assert tree(folder) == before


async def test_a_program_that_was_cancelled_is_undone_too(tmp_path: Path, folder: Path) -> None:
    before = tree(folder)
    calls = [bash("rm b.txt; echo gone; sleep 60")]
    model = callboard.ScriptedModel([reply(calls=calls), reply("Done.")])
    async with session_on(tmp_path, [], model=model) as (_, session):
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    await turn.cancel()
        [change] = await session.changes()
        assert change.paths == ("b.txt",)
        report = await session.undo()
        assert report.programs == ()
        assert tree(folder) == before


# ── what can't come back is told ─────────────────────────────────────────────────────────────────


async def test_where_there_is_no_repository_it_says_so(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path)
    (folder / "b.txt").write_text("x")
    async with session_on(tmp_path, [bash("rm b.txt"), bash("true")]) as (runtime, session):
        changed, idle = await finished(runtime, session)
        assert said(changed)["not_undoable"] == [
            "the workspace is no git repository, so that what programs change is not kept"
        ]
        assert "not_undoable" not in said(idle)
        with pytest.raises(NotFoundError, match="no git repository"):
            await session.undo(changed.call_id)


async def test_what_git_ignores_or_tools_make_is_left(tmp_path: Path, folder: Path) -> None:
    code = "rm x.log b.txt; mkdir build node_modules; echo o > build/o; echo m > node_modules/m"
    async with session_on(tmp_path, [bash(code)]) as (runtime, session):
        [call] = await finished(runtime, session)
        told = {
            "x.log, build/o: git ignores it",
            "node_modules/: what tools make for themselves is not kept",
        }
        assert set(said(call)["not_undoable"]) == told
        report = await session.undo()
        assert report.lines == ("put back b.txt",)
        [line] = report.programs
        assert all(each in line for each in told)
        assert (folder / "build" / "o").exists()
        assert not (folder / "x.log").exists()


@pytest.mark.parametrize(
    ("where", "name", "value", "told"),
    [
        (snapshot, "MAX_FILE_BYTES", 10, "its 23 bytes are more than is kept"),
        (snapshot, "MAX_TREE_BYTES", 1, "the repository is larger than what is kept of one"),
        (snapshot, "MAX_CPU_SECONDS", -1, "not all of it was kept yet"),
        (change_tracker, "MAX_PATHS", 0, "the 1 paths are more than is kept of one program"),
        (change_tracker, "MAX_SECONDS", -1, "reading what the program left took too long"),
    ],
)
async def test_what_is_beyond_a_bound_is_told(
    tmp_path: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
    value: float,
    told: str,
) -> None:
    monkeypatch.setattr(where, name, value)
    async with session_on(tmp_path, [bash("rm b.txt")]) as (runtime, session):
        [call] = await finished(runtime, session)
        [line] = said(call)["not_undoable"]
        assert told in line
        assert await session.changes() == []
        with pytest.raises(NotFoundError, match="can't be undone"):
            await session.undo()


async def test_a_large_repository_is_kept_by_and_by(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first programs run before all of it was put aside; later ones can be undone."""
    monkeypatch.setattr(snapshot, "MAX_CPU_SECONDS", -1)
    async with session_on(tmp_path, [bash("true"), bash("rm b.txt")]) as (_, session):
        assert await session.changes() == []
    (folder / "b.txt").write_bytes(b"again")
    monkeypatch.undo()
    async with session_on(tmp_path, [bash("rm b.txt")]) as (_, session):
        await session.undo()
        assert (folder / "b.txt").read_bytes() == b"again"


async def test_a_full_log(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.runtime.changes.version_log.MAX_SESSION_BYTES", 100)
    (folder / "large").write_bytes(b"x" * 200)
    async with session_on(tmp_path, [bash("rm b.txt large")], "disk") as (runtime, session):
        [call] = await finished(runtime, session)
        [line] = said(call)["not_undoable"]
        assert line.startswith("large: the versions of this session have reached")
        await session.undo()
        assert (folder / "b.txt").exists()


async def test_files_of_a_folder_that_nobody_could_look_into_are_never_removed(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They seem to be new when the program opened the folder, and are not."""
    real = scan_module.scan

    def look(workspace: str) -> Any:
        found = real(workspace)
        if not seen:
            inner = {path for path in found.entries if path.startswith("a/") and path != "a/"}
            entries = {path: f for path, f in found.entries.items() if path not in inner}
            found = type(found)(entries, closed=frozenset({"a/"}))
        seen.append(found)
        return found

    seen: list[Any] = []
    monkeypatch.setattr(change_tracker, "scan", look)
    async with session_on(tmp_path, [bash("rm b.txt")]) as (runtime, session):
        [call] = await finished(runtime, session)
        assert "could not be looked into" in said(call)["not_undoable"][0]
        await session.undo()
        assert (folder / "a" / "run").exists()
        assert (folder / "b.txt").exists()


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("chmod 0 a; rm b.txt", ["put back a", "put back b.txt"]),
        ("rm a/run; chmod 500 a", ["put back a", "put back a/run"]),
        ("chmod 700 shut; touch shut/x", ["put back shut", "remove shut/x"]),
    ],
)
async def test_closed_folders(tmp_path: Path, folder: Path, code: str, lines: list[str]) -> None:
    """What is in a closed one seems to be gone, to a user whom modes bind; it is not touched."""
    (folder / "shut").mkdir(mode=0o500)
    before = tree(folder)
    async with session_on(tmp_path, [bash(code)]) as (_, session):
        report = await session.undo()
        assert sorted(report.lines) == lines
        assert tree(folder) == before
        again = await session.undo(report.undo_id)
        await session.undo(again.undo_id)
        assert tree(folder) == before


async def test_what_a_killed_process_left_is_recognised(tmp_path: Path, folder: Path) -> None:
    session_id = killed_when_ready(killed_program.__file__, tmp_path)
    async with session_on(tmp_path, [], "disk") as (runtime, _):
        session = await runtime.get_session(session_id)
        assert await session.changes() == []
        with pytest.raises(NotFoundError, match="it was ended, and what it changed is not known"):
            await session.undo()
        assert not (folder / "b.txt").exists()


# ── a repository that somebody else prepared ─────────────────────────────────────────────────────


HOSTILE = {
    "filter.bad.clean": "{mark}; cat",
    "filter.bad.smudge": "{mark}; cat",
    "core.fsmonitor": "{mark}; false",
    "core.hooksPath": "hooks",
}


async def test_a_hostile_repository_runs_nothing(tmp_path: Path, folder: Path) -> None:
    """With the control that git itself would have run it."""
    marks = tmp_path / "marks"
    marks.mkdir()
    (folder / ".gitattributes").write_text("* filter=bad\n")
    git(folder, "add", ".gitattributes")
    for name, value in HOSTILE.items():
        mark = f"touch {marks}/{name}"
        git(folder, "config", name, value.format(mark=mark))
    (folder / "sub").mkdir()
    git(folder / "sub", "init", "-q")
    git(folder / "sub", "config", "core.fsmonitor", f"touch {marks}/sub; false")
    (folder / "sub" / "s").write_text("s")
    before = tree(folder)
    async with session_on(tmp_path, [bash("rm b.txt sub/s; echo x > new")]) as (runtime, session):
        [call] = await finished(runtime, session)
        assert "not_undoable" not in said(call)
        await session.undo()
        assert tree(folder) == before
    assert list(marks.iterdir()) == []
    git(folder, "add", "-A", "b.txt")
    assert {path.name for path in marks.iterdir()} >= {"filter.bad.clean", "core.fsmonitor"}


def lies_elsewhere(folder: Path) -> None:
    (folder / ".git").rename(folder.parent / "elsewhere")
    (folder / ".git").write_text(f"gitdir: {folder.parent / 'elsewhere'}\n")


def has_an_index_that_lies(folder: Path) -> None:
    """It says that files hold what was committed; what comes back is what was there."""
    git(folder, "update-index", "--assume-unchanged", "b.txt")
    git(folder, "update-index", "--skip-worktree", "a/run")


@pytest.mark.parametrize("prepare", [lies_elsewhere, has_an_index_that_lies])
async def test_an_unusual_repository_is_one_too(
    tmp_path: Path, folder: Path, prepare: Callable[[Path], None]
) -> None:
    prepare(folder)
    before = tree(folder)
    async with session_on(tmp_path, [bash("echo x > b.txt; rm a/run")]) as (_, session):
        await session.undo()
        assert tree(folder) == before


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_what_only_has_the_name_is_none(tmp_path: Path, kind: str) -> None:
    folder = make_workspace(tmp_path)
    (folder / ".git").mkdir() if kind == "folder" else (folder / ".git").write_text("x")
    (folder / "b.txt").write_text("x")
    async with session_on(tmp_path, [bash("rm b.txt")]) as (runtime, session):
        [call] = await finished(runtime, session)
        assert "no git repository" in said(call)["not_undoable"][0]


async def test_an_undoing_names_the_programs_of_its_session_that_still_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may write to the same files; control: those of another session are not named."""
    steps = [
        reply(calls=[("write_file", {"path": "made", "content": "x"})]),
        reply(calls=[("shell", {"command": "sleep 1000", "background": True})]),
        reply("Done."),
        reply(calls=[("write_file", {"path": "other", "content": "x"})]),
        reply("Done."),
    ]
    model = callboard.ScriptedModel(steps)
    async with session_on(folder.parent, [], model=model) as (runtime, session):
        await session.run("Go.")
        [program] = (await runtime.status()).background
        named = (f"{program.process_id}: {program.command}",)
        assert (await session.undo(dry_run=True)).running == named
        real = plan_undo

        def plan_and_write(*arguments: Any) -> Any:
            found = real(*arguments)
            (folder / "made").write_text("by the program")
            return found

        with monkeypatch.context() as patch:
            patch.setattr(undo, "plan_undo", plan_and_write)
            with pytest.raises(ConflictError, match=r"Still running: .*sleep 1000"):
                await session.undo()
        assert (await session.undo(force=True)).running == named
        other = await run_in(runtime, "Go.")
        report = await other.undo()
        assert (report.lines, report.running) == (("remove other",), ())
