"""The marked files: paths in all workspaces that hold what a tainted session wrote.

The store has a table of the same paths, which a runtime loads when it starts; each call records there
what it changed here. A mark on a folder covers everything below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .origins import Origins

MAX_MARKED_FILES = 10_000
"""At most so many paths, about a megabyte; beyond it a whole workspace is marked instead."""

MAX_KNOWN_FOREIGN = 1_000
"""Foreign folders that are remembered; with more, the first are forgotten."""
MAX_KNOWN_WORKSPACES = 1_000
"""The size of a cache, cleared by each mark, of which workspaces hold marked files."""


class MarkedFiles:
    """The marked paths, absolute and without links, and where files came from; safe to use from any thread.

    Each mark has the time at which its file was last written. Calls without resource keys may overlap
    in any way, and a call that clears a mark must not clear what another call wrote meanwhile.
    """

    def __init__(self) -> None:
        self._trust: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
        self._origins: Origins | None = None
        self._lock = Lock()
        self._marks: dict[str, float] = {}
        self._concerned: dict[str, bool] = {}
        self._foreign: dict[str, None] = {}
        self._time = 0

    def trust(self, trusted: tuple[str, ...], untrusted: tuple[str, ...]) -> None:
        """Go by these settings about where files came from."""
        self._trust, self._origins = (trusted, untrusted), None

    @property
    def origins(self) -> Origins:
        """What is known of where files came from."""
        if (found := self._origins) is None:
            from .origins import Origins  # here: many turns read no file

            found = self._origins = Origins(*self._trust)
        return found

    def know_foreign(self, folder: str) -> None:
        """Remember a foreign folder that a program was told of: it may take away what tells that it is foreign."""
        with self._lock:
            self._foreign[folder] = None
            if len(self._foreign) > MAX_KNOWN_FOREIGN:
                del self._foreign[next(iter(self._foreign))]

    def foreign_in(self, workspace: str) -> list[str]:
        """Return the remembered folders at and below a path."""
        with self._lock:
            return [each for each in self._foreign if f"{each}/".startswith(f"{workspace}/")]

    def __bool__(self) -> bool:
        return bool(self._marks)

    def concern(self, workspace: str) -> bool:
        """Whether there are marks inside or above a workspace."""
        known = self._concerned.get(workspace)
        if known is not None:
            return known
        with self._lock:
            found = bool(self._below(workspace)) or self._covering(workspace) is not None
            if len(self._concerned) >= MAX_KNOWN_WORKSPACES:
                self._concerned.clear()
            self._concerned[workspace] = found
            return found

    def load(self, paths: Iterable[str]) -> None:
        """Add the paths of the store's table."""
        with self._lock:
            self._concerned.clear()
            self._marks.update(dict.fromkeys(paths, self._time))

    def covers(self, path: str) -> bool:
        """Whether a path is marked, itself or by a folder above it."""
        return self._covering(path) is not None

    def below(self, path: str) -> list[str]:
        """Return the marks at a path and below it."""
        with self._lock:
            return self._below(path)

    def now(self) -> int:
        """Return a time for `clear`."""
        with self._lock:
            self._time += 1
            return self._time

    def mark(self, path: str, workspace: str, *, is_being_written: bool = False) -> str:
        """Mark a file, before it is written and again after; return the path that has the mark.

        That is the whole workspace if there are too many marks.
        """
        with self._lock:
            self._time += 1
            if path not in self._marks:
                path = self._bearer(path, workspace)
                self._concerned.clear()
            self._marks[path] = math.inf if is_being_written else self._time
            return path

    def clear(self, path: str, before: float) -> None:
        """Remove the marks at a path and below it, of files last written before a time."""
        with self._lock:
            for marked in self._below(path):
                if self._marks[marked] < before:
                    del self._marks[marked]
            self._concerned.clear()

    def _bearer(self, path: str, workspace: str) -> str:
        """Return the path that gets a new mark, making room for it."""
        covering = self._covering(path)
        if covering is not None or len(self._marks) < MAX_MARKED_FILES:
            return covering or path
        inside = self._below(workspace)
        self._marks[workspace] = self._time  # first, because `covers` takes no lock
        for marked in inside:
            del self._marks[marked]
        return workspace

    def _covering(self, path: str) -> str | None:
        while path not in self._marks:
            end = path.rfind("/")
            if end < 0:
                return None
            path = path[:end]
        return path

    def _below(self, path: str) -> list[str]:
        inside = f"{path}/"
        return [marked for marked in self._marks if marked == path or marked.startswith(inside)]
