"""What fails behind an effect: a tool that has done its work never reports an error, or says what it changed."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import trio

from callboard.actors.people.lineage import Served
from callboard.actors.people.speech import OpenChannel, Speech
from callboard.runtime.changes.file_versions import NOTHING, Change, ChangeEnded, PathStep
from callboard.runtime.changes.version_log import (
    END_ROOM_BYTES,
    CallVersions,
    VersionLog,
    VersionStore,
)
from callboard.runtime.channel import Channel, ChannelMessage
from callboard.runtime.definitions import Effect, ErrorType, SessionKind, ToolFailure, ToolResult
from callboard.runtime.errors import StorageFull
from callboard.runtime.identity import new_id
from callboard.runtime.processes import Command, Ran
from callboard.runtime.taint.marked_files import MarkedFiles
from callboard.runtime.taint.tracked_files import FileWatch, TrackedWriter
from callboard.tools.sandbox.changes.change_tracker import conclude, observe
from callboard.tools.sandbox.changes.snapshot import CopyCache
from callboard.tools.undo.recorded_files import RecordedFiles
from callboard.tools.workshop import Author, Workshop
from callboard.tools.workspace.workspace import Workspace, open_workspace
from support.tools.failing_disk import FailingDisk
from support.tools.workbench import REGISTRY, context_of

EDIT = {"path": "a.txt", "edits": [{"old_text": "first", "new_text": "second"}]}

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "a new file": ("write_file", {"path": "new.txt", "content": "x"}),
    "in new folders": ("write_file", {"path": "n/m/new.txt", "content": "x"}),
    "over a file": ("write_file", {"path": "a.txt", "content": "second"}),
    "append": ("write_file", {"path": "a.txt", "content": "more", "mode": "append"}),
    "edit": ("edit_file", EDIT),
    "move": ("move_file", {"from": "a.txt", "to": "d/b.txt"}),
    "move over a file": ("move_file", {"from": "a.txt", "to": "d/c.txt", "overwrite": True}),
    "move a folder": ("move_file", {"from": "d", "to": "e"}),
    "delete": ("delete_file", {"path": "a.txt"}),
    "delete a tree": ("delete_file", {"path": "d", "recursive": True}),
}
MOST = 400
"""More operations than any of these calls has."""


@pytest.fixture
def files(folder: Path) -> Iterator[Workspace]:
    make_tree(folder)
    with open_workspace(folder) as opened:
        yield opened


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    return FailingDisk(monkeypatch)


def tree(folder: Path) -> dict[str, str]:
    """What the folder holds, without temporary files: their removal may be what failed."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "/"
        for path in folder.rglob("*")
        if not path.name.startswith(".callboard-")
    }


def make_tree(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    (folder / "d" / "deep").mkdir(parents=True)
    for name in ("a.txt", "d/c.txt", "d/deep/x", "d/y"):
        (folder / name).write_text(f"first {name}")


async def call(files: Workspace, log: VersionLog, name: str, **arguments: Any) -> ToolResult:
    """Runs a call with the handles that a session has, as somebody has allowed it."""
    recorded = RecordedFiles(files, log, "session", "call")
    writer = TrackedWriter(recorded, FileWatch(MarkedFiles(), files.place))
    context = context_of(files_read=writer, files_write=writer, approval_reason="allowed")
    tool = REGISTRY.get(name)
    assert tool is not None
    return await tool.execute(tool.decode(json.dumps(arguments)), context)


@pytest.mark.parametrize("is_full", [False, True], ids=["broken", "full"])
@pytest.mark.parametrize("case", CALLS)
async def test_an_error_means_that_nothing_has_changed_or_names_it(
    tmp_path: Path, folder: Path, files: Workspace, disk: FailingDisk, case: str, is_full: bool
) -> None:
    name, arguments = CALLS[case]
    before = tree(folder)
    await call(files, VersionStore(tmp_path / "sound").log("session"), name, **arguments)
    wanted = tree(folder)
    assert wanted != before, "the control: with a sound disk it happens"
    place = 0
    while True:  # noqa: ASYNC913
        make_tree(folder)
        versions = VersionStore(tmp_path / f"data{place}")
        result, failure = None, None
        with disk.failing_at(place, is_full=is_full):
            try:
                result = await call(files, versions.log("session"), name, **arguments)
            except ToolFailure as raised:
                failure = raised
        now, where = tree(folder), f"{disk.name} at {disk.place}"
        if result is None:
            assert failure is not None
            changed = {path for path, held in before.items() if now.get(path) != held}
            changed |= now.keys() - before.keys()
            assert changed <= set(failure.details.get("changed", [])), f"{where}: {failure}"
        else:
            assert now == wanted, f"{where}: it is said to have happened"
            states = [known.is_whole for known in versions.changes("session")]
            warnings = result.output.get("warnings", [])
            assert states == [True] or (warnings and not is_full), f"{where}: room was reserved"
            if not disk.name:
                return
        place = disk.place + 1
        assert place < MOST


async def test_a_file_that_was_written_is_reported_as_written_when_its_log_is_full(
    tmp_path: Path, folder: Path, files: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = VersionStore(tmp_path / "data")
    log = versions.log("session")

    def full(*args: Any, **options: Any) -> None:
        raise StorageFull("The log of file versions can't be written (No space left on device).")

    monkeypatch.setattr(log, "end", full)
    arguments = {"path": "a.txt", "content": "more", "mode": "append"}
    result = await call(files, log, "write_file", **arguments)
    assert (folder / "a.txt").read_text() == "first a.txtmore"
    assert result.output["bytes_written"] == 4
    [warning] = result.output["warnings"]
    assert "No space left" in warning
    assert "The change is there" in warning
    [known] = versions.changes("session")
    assert not known.is_whole, "an undo takes it back all the same"


def test_the_room_for_an_end_holds_one_of_each_kind() -> None:
    ended = ChangeEnded(change_id=new_id("change"), is_void=True)
    assert len(msgspec.msgpack.encode(ended)) + 13 <= END_ROOM_BYTES


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_ends_find_their_room_in_any_order_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]
) -> None:
    versions = VersionStore(tmp_path)
    log = versions.log("session")
    for name in "abc":
        begin(log, name)
    disk = FailingDisk(monkeypatch)
    disk._own = -1  # here the only thread is the tool's
    with disk.failing_at(0, is_full=True):
        with pytest.raises(StorageFull):
            begin(log, "d")
        for name in order:
            log.end(name)
    assert [known.is_whole for known in versions.changes("session")] == [True] * 3
    begin(log, "e")  # the control: with room again
    log.end("e")
    again = VersionStore(tmp_path).changes("session")
    assert [(known.change.change_id, known.is_whole) for known in again] == [
        (name, True) for name in "abce"
    ]


def begin(log: VersionLog, change_id: str) -> None:
    step = PathStep(b"a", NOTHING, NOTHING)
    with log.draft() as draft:
        draft.commit(
            Change(change_id=change_id, session_id="session", call_id="c", at_ms=1, actions=(step,))
        )


# ── tools that run programs, and those that reach people ─────────────────────────────────────────


class Programs:
    """A `Processes` that answers as git would, until the effect; everything behind it fails."""

    def __init__(self, effect: str, said: str) -> None:
        self.has_happened = False
        self._effect = effect
        self._said = said

    async def run(self, command: Command, on_line: object = None) -> Ran:
        await trio.lowlevel.checkpoint()
        words = " ".join(command.argv)
        if self.has_happened:
            raise ToolFailure(ErrorType.SANDBOX_UNAVAILABLE, "Nothing was run: no room.")
        if self._effect in words:
            self.has_happened = True
            return ran(self._said)
        answers = {
            "git config --list": "remote.origin.url\nhttps://a.test/r.git\0"
            "remote.origin.fetch\n+refs/heads/*:refs/remotes/origin/*\0",
            "symbolic-ref": "main\0" + "a" * 40 + "\0",
            "git status": "? a.txt\0",
        }
        return ran(next((said for part, said in answers.items() if part in words), ""))


def ran(stdout: str) -> Ran:
    return Ran(stdout=stdout, stderr="", exit_code=0, duration_seconds=0.1)


PROGRAMS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "git_commit": ("git commit", "b" * 40, {"message": "x"}, "can't be listed"),
    "git_push": ("git push", "*\trefs/heads/main\t[new]\nDone", {}, "could not be noted"),
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_that_fails_behind_the_effect_is_a_warning(name: str) -> None:
    effect, said, arguments, warning = PROGRAMS[name]
    programs = Programs(effect, said)
    workshop = Workshop(
        author=lambda: Author("Ada", "ada@example.org"),
        credential=lambda origin: None,
        certificates=lambda: None,
    )
    tool = REGISTRY.get(name)
    assert tool is not None
    context = context_of(processes=programs, network=object(), workshop=workshop)
    result = await tool.execute(tool.decode(json.dumps(arguments)), context)
    assert programs.has_happened
    [told] = result.output["warnings"]
    assert warning in told
    assert "no room" in told


@pytest.mark.parametrize("stays_full", [False, True], ids=["once", "full"])
async def test_what_a_program_changed_is_told_when_it_can_not_be_kept(
    tmp_path: Path, folder: Path, disk: FailingDisk, stays_full: bool
) -> None:
    for place in itertools.count():
        assert place < MOST
        make_tree(folder)
        make_repository(folder)
        versions = VersionStore(tmp_path / f"data{place}")
        kept = CallVersions(
            log=versions.log("session"),
            session_id="session",
            call_id="call",
            is_marked=lambda path: False,
            open_aside=versions.open_aside,
        )
        seen = observe(str(folder), CopyCache(), kept)
        (folder / "a.txt").write_text("by a program")
        with disk.failing_at(place, is_full=stays_full):
            changed = await trio.to_thread.run_sync(conclude, str(folder), seen, kept)
        whole = changed.modified == ("a.txt",) and not changed.not_undoable
        assert whole or disk.name, "the control: on a sound disk it is kept"
        if not disk.name:
            return


class Refusing:
    """A journal whose disk is broken."""

    async def ask(self, message: object) -> None:
        await trio.lowlevel.checkpoint()
        raise StorageFull("There is no room.")


class Desk(Channel):
    """A channel that keeps what came."""

    def __init__(self) -> None:
        self.came: list[str] = []

    async def tell(self, message: ChannelMessage) -> None:
        self.came.append(message.text)


async def test_a_message_that_was_delivered_is_reported_so_when_it_is_not_on_record() -> None:
    desk = Desk()
    served = Served(channel=desk, session_id="s1")
    speech = Speech(cast(Any, None), cast(Any, None), cast(Any, Refusing()))
    place: Any = SimpleNamespace(session_id="s1")
    call_of: Any = SimpleNamespace(call_id="c1")
    channel = OpenChannel(speech, place, call_of, (served,))
    assert await channel.tell("The kettle is on.") == desk.name
    assert desk.came == ["The kettle is on."]


def make_repository(folder: Path) -> None:
    for name in (".git/objects", ".git/refs"):
        (folder / name).mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")


LOOKED_AT = {
    "write_file": "the disk above",
    "edit_file": "the disk above",
    "move_file": "the disk above",
    "delete_file": "the disk above",
    "git_commit": "the programs above",
    "git_push": "the programs above",
    "http_request": "test_web_client: what a server has done",
    "message": "the journal above",
    "run_code": "what a program changed, above",
    "shell": "what a program changed, above",
    "run_tests": "what a program changed, above",
    "format_code": "formatting again changes nothing; a missing path is found before anything is formatted",
    "install_package": "its last program is the effect, and undoes itself when it fails",
    "memory_store": "storing the same text again keeps it once",
    "plan": "setting the same plan again changes nothing",
    "delegate": "a failure names the session and holds its answer",
    "ask_user": "an answer is put on record by whoever gives it, before the tool has it",
    "process": "each action is its own last step; the kernel's word is the result",
}
"""Every tool that does more than read, and what was found out about it. A new one has to be looked at."""


def test_every_tool_with_an_effect_was_looked_at() -> None:
    acting = {
        each.name
        for each in REGISTRY.definitions(None, SessionKind.MAIN)
        if each.effect is not Effect.READ
    }
    assert acting == LOOKED_AT.keys()
