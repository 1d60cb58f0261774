"""Room on the disk of a data folder: a ballast file that is removed when the disk is full.

On a full disk even a deletion must be written first, and a turn could not store how it ended. So a
ballast file keeps some room, and the first commit that finds none removes it. From then on appends that
begin something are refused, and those that end something use that room. When the disk has room again
the ballast is made again, which ends this state. See docs/operations.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...errors import DiskBroken, StorageError, StorageFailed, StorageFull
from ...events import (
    CallStarted,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    SessionCreated,
    TurnStarted,
)
from ...redaction import redacting_logger
from ..rows import Append, CommitResult

logger = redacting_logger(__name__)

BALLAST_NAME = "callboard.ballast"

BALLAST_BYTES = 16 * 1024 * 1024
"""Room for the ends of all calls that can run at once, and for a purge of some sessions."""
ROOM_FOR_BALLAST_BYTES = 256 * 1024 * 1024
"""No ballast on a disk with less free space: the ballast itself would soon make it full."""
NEEDED_BYTES = 2 * BALLAST_BYTES
"""Free space that a turn needs to begin. More than the ballast, so that removing it lets none begin."""
NEEDED_SHARE = 16
"""On a small disk, this fraction of the whole is enough."""
START_BYTES = 1024 * 1024
"""Free space in which a process can open a store and write its own small files."""
LOOK_SECONDS = 1.0
"""How often the disk is looked at: turns begin more often, and a disk takes longer to fill."""
MADE_AFTER_SECONDS = 3.0
"""A command that ends sooner needs no ballast and does not wait for it."""

_BEGINNINGS = (SessionCreated, InputAccepted, TurnStarted, CallStarted)

_Answer = TypeVar("_Answer")


class Space(NamedTuple):
    """The space of a file system in bytes: what a program may still use, and the whole."""

    free: int
    total: int


def space_of(folder: Path) -> Space | None:
    """Return the space of a folder's file system, or `None` if the system does not tell."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class DiskRoom:
    """Decides whether work may begin, and keeps room on the disk for its end.

    `problem` and `check` are for the event loop: they cost a `statvfs` at most. The rest runs in the
    thread of the writer.

    Args:
        folder: The data folder; `None` for a store in memory, which needs no room.
        space: Returns the space of a folder's file system.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        folder: Path | None,
        space: Callable[[Path], Space | None] = space_of,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._space = space
        self._clock = clock
        self._opened_at = clock()
        self._looked_at = float("-inf")
        self._tried_at = float("-inf")
        self._lack = ""
        self._failure = ""
        self._is_given_up = False
        self._made: int | None = None  # the inode of the ballast that this object made

    # ── for the event loop ───────────────────────────────────────────────────────────────────────

    def problem(self) -> str:
        """Return why the store can't be used now and what to do; empty if it can."""
        return self._failure or self._no_room()

    def check(self) -> None:
        """Raise `StorageFailed` if there is no room for new work."""
        if problem := self._no_room():
            raise StorageFailed(problem)

    def _no_room(self) -> str:
        if self._folder is None:
            return ""
        now = self._clock()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            space = self._space(self._folder)
            self._lack = "" if space is None else self._lacking(self._folder, space)
        return self._lack

    def _lacking(self, folder: Path, space: Space) -> str:
        needed = _needed(space) + (BALLAST_BYTES if self._is_given_up else 0)
        if space.free >= needed:
            return ""
        return (
            f"The disk under {folder} is full: {_mebibytes(space.free)} MiB are free, and "
            f"{_mebibytes(needed)} are needed before anything new begins. Free some space there; "
            "it goes on by itself then."
        )

    # ── for the thread of the writer ─────────────────────────────────────────────────────────────

    def commit(
        self,
        store: Callable[[Sequence[Append]], list[CommitResult]],
        appends: Sequence[Append],
        touch: Callable[[], object] | None = None,
    ) -> list[CommitResult]:
        """Store appends; on a full disk, only those that end something, in the ballast's room.

        `touch` writes something. It finds out whether the disk works again after a failure, when no
        append has an event (the heartbeat's has none).
        """
        if self._is_given_up:
            self._keep_ballast()
        if not self._is_given_up:
            try:
                results = self._watched(lambda: store(appends))
            except StorageFull:
                if not self.give_up_ballast():
                    raise
            else:
                if any(append.events for append in appends):
                    self._failure = ""  # the disk took a write
                elif self._failure and touch is not None:
                    self._try_again(touch)
                self._keep_ballast()
                return results
        return self._watched(lambda: self._store_ends(store, appends))

    def removing(self, work: Callable[[], _Answer]) -> _Answer:
        """Run work that removes something; on a full disk, in the ballast's room."""
        try:
            answer = self._watched(work)
        except StorageFull:
            if not self.give_up_ballast():
                raise
            answer = self._watched(work)
        self._failure = ""
        return answer

    def _try_again(self, touch: Callable[[], object]) -> None:
        """End the failure if something can be written."""
        try:
            self._watched(touch)
        except DiskBroken:
            raise
        except StorageError:
            return  # the failure stays; no append of a caller failed
        self._failure = ""

    def _store_ends(
        self,
        store: Callable[[Sequence[Append]], list[CommitResult]],
        appends: Sequence[Append],
    ) -> list[CommitResult]:
        """Store the appends that begin nothing; refuse each of the others."""
        begins = [_begins(append.events) for append in appends]
        stored = iter(store([a for a, new in zip(appends, begins, strict=True) if not new]))
        return [self._refusal() if new else next(stored) for new in begins]

    def _refusal(self) -> StorageFailed:
        return StorageFailed(
            f"The disk under {self._folder} is full: what little is kept there is for ending what "
            "runs. Nothing of this was stored. Free some space there; it goes on by itself then."
        )

    def _watched(self, work: Callable[[], _Answer]) -> _Answer:
        try:
            return work()
        except StorageFull as error:
            self._lack, self._looked_at = str(error), self._clock()
            raise
        except StorageError as error:
            self._failure = str(error)
            raise

    def make_room(self) -> None:
        """Give up the ballast if a start would find no room: then a store can be read and purged."""
        space = self._space(self._folder) if self._folder is not None else None
        if space is not None and space.free < START_BYTES:
            self.give_up_ballast()

    def give_up_ballast(self) -> bool:
        """Remove the ballast; return whether there was one."""
        if self._folder is None:
            return False
        try:
            (self._folder / BALLAST_NAME).unlink()
        except OSError:
            return False
        self._is_given_up, self._made = True, None
        self._looked_at = float("-inf")
        logger.error("the disk is full: nothing begins until there is room, and what runs can end")
        return True

    def _keep_ballast(self) -> None:
        """Make the ballast if it is missing and there is room for it."""
        now = self._clock()
        is_early = now - self._opened_at < MADE_AFTER_SECONDS and not self._is_given_up
        if self._folder is None or is_early or now - self._tried_at < LOOK_SECONDS:
            return
        self._tried_at = now
        has_ballast = _has_ballast(self._folder, self._made)
        if has_ballast and not self._is_given_up:
            return
        space = self._space(self._folder)
        if space is None:
            self._is_given_up = False  # unknown: the next commit finds out
            return
        if self._is_given_up:
            # A ballast that a person restored from a backup has its room already.
            has_room = space.free >= _needed(space) + (0 if has_ballast else BALLAST_BYTES)
        else:
            has_room = space.free >= ROOM_FOR_BALLAST_BYTES
        if has_room:
            if not has_ballast:
                self._made = _make_ballast(self._folder)
            # A quota may leave no room where the disk has some.
            if self._is_given_up and (has_ballast or self._made is not None):
                self._is_given_up, self._looked_at = False, float("-inf")
                logger.info("there is room on the disk again: work begins as before")


def _begins(events: Sequence[DurableEvent]) -> bool:
    """Whether events begin something. The input with an answer, and one cancelled at once, do not."""
    cancelled = {event.input_id for event in events if isinstance(event, InputCancelled)}
    return any(
        isinstance(event, _BEGINNINGS)
        and not (
            isinstance(event, InputAccepted)
            and (event.child_id or event.call_id or event.input_id in cancelled)
        )
        for event in events
    )


def _needed(space: Space) -> int:
    return min(NEEDED_BYTES, space.total // NEEDED_SHARE)


def _mebibytes(count: int) -> str:
    return f"{count / 1024**2:.1f}"


def _has_ballast(folder: Path, made: int | None) -> bool:
    """Whether there is a ballast that takes its room; removing a sparse file would free none.

    A ballast that this process made always counts: a file system that compresses reports less.
    """
    try:
        found = (folder / BALLAST_NAME).lstat()
    except OSError:
        return False
    takes_room = found.st_ino == made or found.st_blocks * 512 >= BALLAST_BYTES
    return found.st_size == BALLAST_BYTES and takes_room


def _make_ballast(folder: Path) -> int | None:
    """Make the ballast and return its inode; on an error leave nothing and return `None`."""
    path = folder / BALLAST_NAME
    try:
        path.unlink(missing_ok=True)  # a part of one that a crash left
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, BALLAST_BYTES)
            return os.fstat(descriptor).st_ino
        finally:
            os.close(descriptor)
    except (OSError, AttributeError):  # macOS has no posix_fallocate
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
