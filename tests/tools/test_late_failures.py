"""What fails behind an effect: a tool that has done its work never reports an error, or says what it changed."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.runtime.changes.file_versions import NOTHING, Change, ChangeEnded, PathStep
from callboard.runtime.changes.version_log import END_ROOM_BYTES, VersionLog, VersionStore
from callboard.runtime.definitions import ToolFailure, ToolResult
from callboard.runtime.errors import StorageFull
from callboard.runtime.identity import new_id
from callboard.runtime.taint.marked_files import MarkedFiles
from callboard.runtime.taint.tracked_files import FileWatch, TrackedWriter
from callboard.tools.undo.recorded_files import RecordedFiles
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
    while True:
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
