"""Room on the disk of a data folder: a ballast file that is given up for the ends of what runs.

On a full disk even a deletion has to be written first. So some room is kept in a file, and given up
when a commit finds none: from then on nothing begins, and what runs can be ended, deleted and purged.
The file is made again when there is room for it, and that ends this state. See docs/operations.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..errors import DiskBroken, StorageError, StorageFailed, StorageFull
from ..events import (
    CallStarted,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    SessionCreated,
    TurnStarted,
)
from ..redaction import redacting_logger
from .rows import Append, CommitResult

logger = redacting_logger(__name__)

BALLAST_NAME = "callboard.ballast"

BALLAST_BYTES = 16 * 1024 * 1024
"""Room for the ends of all calls that may run at once, and for a purge of some sessions."""
ROOM_FOR_BALLAST_BYTES = 256 * 1024 * 1024
"""A disk with less free is small or busy: a sixteenth of that would itself make it full."""
NEEDED_BYTES = 2 * BALLAST_BYTES
"""Free before a turn begins. More than the ballast, so that its end makes no turn begin."""
NEEDED_SHARE = 16
"""On a small disk, this part of the whole is enough."""
LOOK_SECONDS = 1.0
"""Between two looks at the disk: turns begin more often, and a disk of today takes longer to fill."""
MADE_AFTER_SECONDS = 3.0
"""A command that is soon over needs no ballast, and does not wait for it."""

_BEGINNINGS = (SessionCreated, InputAccepted, TurnStarted, CallStarted)

_Answer = TypeVar("_Answer")


class Space(NamedTuple):
    """Of a file system, in bytes: what a program may still use, and the whole."""

    free: int
    total: int


def space_of(folder: Path) -> Space | None:
    """The space around a folder; `None` where the system does not tell."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class DiskRoom:
    """Whether work may begin on a disk, and the room that is kept for its end.

    `problem` and `check` are for the event loop: at most a `statvfs`. The rest runs in the thread
    that writes.

    Args:
        folder: The data folder; `None` for a store in memory, which has no disk.
        space: How much is free there.
        clock: Seconds, monotonic.
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
        self._made: int | None = None  # the inode of the ballast that this one has made

    # ── what others ask ──────────────────────────────────────────────────────────────────────────

    def problem(self) -> str:
        """Why the store can't be relied on now, and what to do; empty when it can."""
        return self._failure or self._no_room()

    def check(self) -> None:
        """Raises `StorageFailed` when nothing new may begin, since there is no room for it."""
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

    # ── what the writer does ─────────────────────────────────────────────────────────────────────

    def commit(
        self,
        store: Callable[[Sequence[Append]], list[CommitResult]],
        appends: Sequence[Append],
        touch: Callable[[], object] | None = None,
    ) -> list[CommitResult]:
        """Stores appends; without room, those that end something in the ballast's place.

        After a failure `touch`, which writes something, finds out whether the disk is well again when
        no append has an event, as a heartbeat's has none.
        """
        if self._is_given_up:
            self._keep_ballast()
        if not self._is_given_up:
            try:
                results = self._watched(lambda: store(appends))
            except StorageFull:
                if not self._give_up_ballast():
                    raise
            else:
                if any(append.events for append in appends):
                    self._failure = ""  # it was written: the disk is well
                elif self._failure and touch is not None:
                    self._try_again(touch)
                self._keep_ballast()
                return results
        return self._watched(lambda: self._store_ends(store, appends))

    def removing(self, work: Callable[[], _Answer]) -> _Answer:
        """Has something removed; without room, in the ballast's place."""
        try:
            answer = self._watched(work)
        except StorageFull:
            if not self._give_up_ballast():
                raise
            answer = self._watched(work)
        self._failure = ""
        return answer

    def _try_again(self, touch: Callable[[], object]) -> None:
        """Ends the state of a failure when something can be written."""
        try:
            self._watched(touch)
        except DiskBroken:
            raise
        except StorageError:
            return  # told as before; nobody's append has failed
        self._failure = ""

    def _store_ends(
        self,
        store: Callable[[Sequence[Append]], list[CommitResult]],
        appends: Sequence[Append],
    ) -> list[CommitResult]:
        """Each append that begins nothing; the others are refused one by one."""
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

    def _give_up_ballast(self) -> bool:
        """Whether there was one."""
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
        """Makes the ballast when it is missing and there is room for it."""
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
            self._is_given_up = False  # nobody can tell: the next commit finds out
            return
        if self._is_given_up:
            # One that somebody put back, from a backup, takes its room already.
            has_room = space.free >= _needed(space) + (0 if has_ballast else BALLAST_BYTES)
        else:
            has_room = space.free >= ROOM_FOR_BALLAST_BYTES
        if has_room:
            if not has_ballast:
                self._made = _make_ballast(self._folder)
            if self._is_given_up:
                self._is_given_up, self._looked_at = False, float("-inf")
                logger.info("there is room on the disk again: work begins as before")


def _begins(events: Sequence[DurableEvent]) -> bool:
    """Whether something begins with them; an answer, and an input cancelled with them, ends it."""
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
    """Whether it is there and takes its room: a sparse file gives none back.

    Our own counts, whatever the file system says of it: one that compresses says less.
    """
    try:
        found = (folder / BALLAST_NAME).lstat()
    except OSError:
        return False
    takes_room = found.st_ino == made or found.st_blocks * 512 >= BALLAST_BYTES
    return found.st_size == BALLAST_BYTES and takes_room


def _make_ballast(folder: Path) -> int | None:
    """Makes it, and returns its inode, or leaves nothing: work goes on without it."""
    path = folder / BALLAST_NAME
    try:
        path.unlink(missing_ok=True)  # half of one, that a crash left
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
