"""The ballast is made where there is room, given up for ends alone, and made again."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from callboard.runtime.errors import DiskBroken, StorageError, StorageFailed, StorageFull
from callboard.runtime.events import (
    CallStarted,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    SessionCreated,
    SessionDeleted,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.store.health.disk_room import (
    BALLAST_BYTES,
    BALLAST_NAME,
    LOOK_SECONDS,
    MADE_AFTER_SECONDS,
    NEEDED_BYTES,
    NEEDED_SHARE,
    ROOM_FOR_BALLAST_BYTES,
    DiskRoom,
    Space,
)
from callboard.runtime.store.ledger import Ledger, storage_error
from callboard.runtime.store.migrations import migrate
from callboard.runtime.store.rows import Append, CommitResult
from callboard.runtime.wire.rpc import STORAGE_FAILED, error_from, rpc_error

GIBIBYTE = 1024**3
DELETED = SessionDeleted()
CREATED = SessionCreated(agent="general", workspace="/work")


class Scene:
    """A disk whose room is what the test says, and a store on it that is full without any."""

    def __init__(self, folder: Path, free: int = GIBIBYTE, total: int = 4 * GIBIBYTE) -> None:
        self.folder = folder
        self.free = free
        self.total = total
        self.now = 0.0
        self.looks = 0
        self.error: StorageError | None = None
        self.room = DiskRoom(folder, self._space, lambda: self.now)

    def _space(self, folder: Path) -> Space:
        assert folder == self.folder
        self.looks += 1
        return Space(self.free, self.total)

    def store(self, appends: Sequence[Append]) -> list[CommitResult]:
        if self.error is not None:
            raise self.error
        if self.free == 0 and self.has_ballast:
            raise StorageFull("full")
        return [() for _ in appends]

    def commit(self, *events: DurableEvent) -> list[CommitResult]:
        return self.room.commit(self.store, [Append("s1", (event,)) for event in events])

    def later(self, seconds: float = MADE_AFTER_SECONDS) -> None:
        self.now += seconds

    @property
    def has_ballast(self) -> bool:
        return (self.folder / BALLAST_NAME).exists()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A large disk with its ballast."""
    scene = Scene(tmp_path)
    scene.commit(DELETED)
    assert not scene.has_ballast  # a command that is soon over needs none
    scene.later()
    scene.commit(DELETED)
    return scene


def test_the_ballast_takes_room_and_is_the_owners_alone(scene: Scene) -> None:
    found = (scene.folder / BALLAST_NAME).stat()
    assert (found.st_size, found.st_mode & 0o777) == (BALLAST_BYTES, 0o600)
    assert found.st_blocks * 512 >= BALLAST_BYTES


@pytest.mark.parametrize(("free", "made"), [(ROOM_FOR_BALLAST_BYTES, True), (1, False)])
def test_a_disk_with_little_room_has_none(tmp_path: Path, free: int, made: bool) -> None:
    scene = Scene(tmp_path, ROOM_FOR_BALLAST_BYTES - 1 + free * made)
    scene.later()
    scene.commit(DELETED)
    assert scene.has_ballast is made


def test_half_of_one_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / BALLAST_NAME).write_bytes(b"half")
    scene = Scene(tmp_path)
    scene.later()
    scene.commit(DELETED)
    assert (tmp_path / BALLAST_NAME).stat().st_size == BALLAST_BYTES


def test_a_ballast_that_can_not_be_made_leaves_nothing_and_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no such call here")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    scene = Scene(tmp_path)
    scene.later()
    assert scene.commit(CREATED) == [()]
    assert not scene.has_ballast


def test_it_is_given_up_for_what_ends_and_nothing_begins(scene: Scene) -> None:
    scene.free = 0
    ended = TurnEnded(turn_id="t", outcome="answered")
    begun: list[DurableEvent] = [
        CREATED,
        InputAccepted(input_id="i", text="Hello."),
        TurnStarted(turn_id="t", input_ids=("i",), provider="p", model="m"),
        CallStarted(turn_id="t", call_id="c"),
    ]
    first, *refused, last = scene.commit(DELETED, *begun, ended)
    assert (first, last) == ((), ())
    assert [type(each) for each in refused] == [StorageFailed] * len(begun)
    assert not scene.has_ballast
    with pytest.raises(StorageFailed, match=str(scene.folder)):
        scene.room.check()


@pytest.mark.parametrize(
    "events",
    [
        (InputAccepted(input_id="i", text="Late.", call_id="c"),),
        (InputAccepted(input_id="i", text="Late.", child_id="s2"),),
        (InputAccepted(input_id="i", text="Late."), InputCancelled(input_id="i", reason="r")),
    ],
)
def test_an_answer_and_an_input_that_is_cancelled_at_once_are_ends(
    scene: Scene, events: tuple[DurableEvent, ...]
) -> None:
    scene.free = 0
    begun = InputAccepted(input_id="j", text="Hello.")
    stored, *refused = scene.room.commit(
        scene.store, [Append("s1", events), Append("s1", (begun,)), Append("s1", (*events, begun))]
    )
    assert stored == ()
    assert [type(each) for each in refused] == [StorageFailed] * 2


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_ballast_that_somebody_puts_back_ends_the_state(scene: Scene, is_sparse: bool) -> None:
    scene.free = 0
    scene.commit(DELETED)
    path = scene.folder / BALLAST_NAME
    path.touch()
    if is_sparse:
        os.truncate(path, BALLAST_BYTES)
    else:
        path.write_bytes(b"x" * BALLAST_BYTES)
    scene.later()
    scene.free = NEEDED_BYTES + BALLAST_BYTES * is_sparse - 1
    (refused,) = scene.commit(CREATED)
    assert isinstance(refused, StorageFailed)
    scene.later()
    scene.free += 1
    assert scene.commit(CREATED) == [()]
    assert path.stat().st_blocks * 512 >= BALLAST_BYTES


def test_a_removal_is_done_in_its_place(scene: Scene) -> None:
    scene.free = 0

    def purge() -> str:
        if scene.has_ballast:
            raise StorageFull("full")
        return "purged"

    assert scene.room.removing(purge) == "purged"


def test_without_it_a_full_disk_is_told_as_it_is(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.error = StorageFull("full")
    with pytest.raises(StorageFull, match="full"):
        scene.commit(DELETED)
    with pytest.raises(StorageFull, match="full"):
        scene.room.removing(lambda: scene.store([]))
    assert scene.room.problem() == "full"
    scene.later(LOOK_SECONDS)
    assert scene.room.problem() == ""


def test_the_state_is_left_when_the_ballast_has_room_again(scene: Scene) -> None:
    scene.free = 0
    scene.commit(DELETED)
    scene.later()
    scene.free = NEEDED_BYTES + BALLAST_BYTES - 1
    (refused,) = scene.commit(CREATED)
    assert isinstance(refused, StorageFailed)
    assert scene.room.problem()
    scene.later()
    scene.free += 1
    assert scene.room.problem() == ""  # whoever asks first finds out
    scene.room.check()
    assert scene.commit(CREATED) == [()]
    assert scene.has_ballast


@pytest.mark.parametrize("total", [4 * GIBIBYTE, 6 * 1024**2])
def test_a_turn_needs_room_by_the_size_of_the_disk(tmp_path: Path, total: int) -> None:
    needed = min(NEEDED_BYTES, total // NEEDED_SHARE)
    Scene(tmp_path, free=needed, total=total).room.check()
    with pytest.raises(StorageFailed, match="Free some space"):
        Scene(tmp_path, free=needed - 1, total=total).room.check()


def test_the_disk_is_looked_at_once_in_a_while(scene: Scene) -> None:
    before = scene.looks
    for _ in range(100):
        scene.room.check()
    assert scene.looks == before + 1
    scene.later(LOOK_SECONDS)
    scene.room.check()
    assert scene.looks == before + 2


def test_a_disk_that_fails_is_a_problem_until_something_is_written(scene: Scene) -> None:
    scene.error = StorageError("the disk failed")
    with pytest.raises(StorageError):
        scene.commit(DELETED)
    assert scene.room.problem() == "the disk failed"
    scene.error = None
    scene.room.commit(scene.store, [Append("", ())])  # a heartbeat writes nothing
    assert scene.room.problem() == "the disk failed"
    scene.commit(DELETED)
    assert scene.room.problem() == ""


def test_a_failure_ends_with_a_removal_that_is_done(scene: Scene) -> None:
    scene.error = StorageError("the disk failed")
    with pytest.raises(StorageError):
        scene.room.removing(lambda: scene.store([]))
    assert scene.room.problem() == "the disk failed"
    scene.error = None
    scene.room.removing(lambda: scene.store([]))
    assert scene.room.problem() == ""


def test_a_heartbeat_finds_out_whether_a_failure_has_passed(scene: Scene) -> None:
    touched: list[str] = []

    def beat() -> None:
        def touch() -> None:
            touched.append("")
            if scene.error is not None:
                raise scene.error

        assert scene.room.commit(lambda _: [()], [Append("", ())], touch) == [()]

    beat()
    assert not touched  # nothing has failed: nothing is written
    scene.error = StorageError("the disk failed")
    with pytest.raises(StorageError):
        scene.room.removing(lambda: scene.store([]))
    beat()
    assert scene.room.problem() == "the disk failed"
    scene.error = DiskBroken("the disk kept nothing")
    with pytest.raises(DiskBroken):
        beat()
    scene.error = None
    beat()
    assert (scene.room.problem(), len(touched)) == ("", 3)


def test_memory_and_what_nobody_knows_are_never_full(tmp_path: Path) -> None:
    DiskRoom(None).check()
    DiskRoom(tmp_path, lambda _: None).check()
    DiskRoom(tmp_path / "missing").check()


def test_a_failed_fsync_is_told_from_other_failures() -> None:
    failed, lost = apsw.IOError("disk I/O error"), apsw.IOError("disk I/O error")
    vars(failed)["extendedresult"] = apsw.SQLITE_IOERR_WRITE
    vars(lost)["extendedresult"] = apsw.SQLITE_IOERR_FSYNC
    assert type(storage_error("it", failed)) is StorageError
    assert type(storage_error("it", lost)) is DiskBroken


def test_it_goes_over_the_wire_and_comes_back() -> None:
    sent = rpc_error(StorageFailed("full"))
    assert (sent.code, sent.data.kind, sent.data.retryable) == (
        STORAGE_FAILED,
        "storage_failed",
        True,
    )
    assert type(error_from(sent)) is StorageFailed
    assert type(error_from(rpc_error(StorageError("broken")))) is StorageError


class Quota(apsw.VFS):
    """A disk on which the user's share is used up: SQLite takes that for a failure of the disk."""

    def __init__(self) -> None:
        super().__init__("quota", "")
        self.is_used_up = False

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return QuotaFile(name, flags, self)

    def xGetLastError(self) -> tuple[int, str]:
        return errno.EDQUOT, ""


class QuotaFile(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], quota: Quota) -> None:
        super().__init__("", name, flags)
        self._quota = quota

    def xWrite(self, data: Any, offset: int) -> None:
        if self._quota.is_used_up:
            raise apsw.IOError("Disk quota exceeded")
        super().xWrite(data, offset)


def test_a_quota_that_is_used_up_is_a_full_disk(tmp_path: Path) -> None:
    quota = Quota()
    connection = apsw.Connection(str(tmp_path / "it.db"), vfs="quota")
    migrate(connection, "it")
    ledger = Ledger(connection, "it")
    ledger.commit([Append("s1", (CREATED,))])
    quota.is_used_up = True
    with pytest.raises(StorageFull, match="the disk is full"):
        ledger.commit([Append("s1", (DELETED,))])
    quota.is_used_up = False
    ledger.commit([Append("s1", (DELETED,))])
    connection.close()
    quota.unregister()


def test_the_state_lasts_while_a_quota_leaves_no_room_for_the_ballast(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used_up(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    allocate = os.posix_fallocate
    scene.free = 0
    scene.commit(DELETED)
    scene.free = GIBIBYTE  # of the disk, which are not this user's
    monkeypatch.setattr(os, "posix_fallocate", used_up)
    scene.later()
    assert isinstance(scene.commit(CREATED)[0], StorageFailed)
    monkeypatch.setattr(os, "posix_fallocate", allocate)
    scene.later()
    assert scene.commit(CREATED) == [()]
    assert scene.has_ballast
