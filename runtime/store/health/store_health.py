"""The one place that decides whether a store can be used: status, metrics, `/readyz` and all new work ask it.

What is under way counts from its start, so a disk that does not answer is seen while it does not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ...errors import DiskBroken, StorageError, StorageFailed
from .disk_room import LOOK_SECONDS, DiskRoom

STUCK_SECONDS = 10.0
"""A commit takes milliseconds, and a read of thousands of events less than a second."""


class StoreHealth:
    """Watches the reads and writes of one store, and where its file is.

    Args:
        room: Whether the disk has room.
        store: The file of the store; `None` for a store in memory.
        clock: Monotonic seconds.
        name: What to call a store that is not in a file.

    Attributes:
        damage: Returns what a check for damage has found; empty if nothing.
    """

    def __init__(
        self,
        room: DiskRoom,
        store: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        name: str = "",
    ) -> None:
        self.room = room
        self._name = name or f"The disk under {store}"
        self.damage: Callable[[], str] = str
        self._store = store
        self._clock = clock
        self._began: dict[int, float] = {}
        self._count = 0
        self._read_failure = ""
        self._file = _identity(store) if store is not None else None
        self._looked_at = clock()
        self._place = ""
        self._is_gone = False

    # ── for the event loop ───────────────────────────────────────────────────────────────────────

    def problem(self) -> str:
        """Return why the store can't be used now and what to do; empty if it can."""
        return (
            self.damage()
            or self._not_here()
            or self._stuck()
            or self._read_failure
            or self.room.problem()
        )

    def check(self) -> None:
        """Raise `StorageFailed` if nothing new may begin."""
        if problem := self._not_here() or self._stuck():
            raise StorageFailed(problem)
        self.room.check()

    def begin(self) -> int:
        """Count a read or a write as under way, until `end` with what this returns."""
        self._count += 1
        self._began[self._count] = self._clock()
        return self._count

    def end(self, begun: int) -> None:
        """See `begin`."""
        del self._began[begun]

    def read(self, failure: StorageError | None) -> None:
        """Note how the latest read ended."""
        self._read_failure = "" if failure is None else str(failure)

    @property
    def waiting_seconds(self) -> float:
        """How long the oldest read or write has been under way."""
        now = self._clock()
        return now - min(self._began.values(), default=now)

    def _stuck(self) -> str:
        if (seconds := self.waiting_seconds) < STUCK_SECONDS:
            return ""
        return (
            f"{self._name} has not answered for {seconds:.0f} s. Nothing new begins until it does; "
            f"nothing that was acknowledged is lost. Check the {'disk' if self._store else 'database'}."
        )

    # ── for the thread of the writer ─────────────────────────────────────────────────────────────

    def room_to_write(self) -> DiskRoom:
        """Return where commits and removals find room.

        Raises `DiskBroken` if the file is gone: what is written would be lost with its process.
        """
        problem = self._not_here()
        if self._is_gone:
            raise DiskBroken(problem)
        return self.room

    def _not_here(self) -> str:
        """Return why the file can't be found where it was, as of the last second."""
        if self._store is not None and self._clock() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = self._clock()
            self._place = self._look(self._store)
        return self._place

    def _look(self, store: Path) -> str:
        try:
            found = _identity(store)
        except PermissionError as error:
            return (
                f"{store.parent} can't be entered any more: {error.strerror}. Nothing new begins "
                "until it can: give it back to its owner (chmod u+rwx)."
            )
        except (FileNotFoundError, NotADirectoryError):
            found = None
        except OSError as error:
            return f"{store} can't be looked at: {error.strerror}. Check the disk."
        if found == self._file:
            return ""
        self._is_gone = True
        return (
            f"{store} was {'removed' if found is None else 'replaced'} while it was in use: what is "
            "written would not be found again, so nothing is. Put back what was there, and start "
            "callboard again."
        )


def _identity(store: Path) -> tuple[int, int] | None:
    found = os.stat(store)
    return found.st_dev, found.st_ino
