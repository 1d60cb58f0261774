"""The marked files: paths in all workspaces that hold what a tainted session wrote.

The store has a table of the same paths, which a runtime loads when it starts; each call records there
what it changed here. A mark on a folder covers everything below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .origins import Origins
    from .writers import Writer, Writers

MAX_MARKED_FILES = 10_000
"""At most so many paths, about a megabyte; beyond it a whole workspace is marked instead."""

_OPEN = "/./"
"""Between the workspace of an open look and the rest; no real path has it."""
MAX_KNOWN_FOREIGN = 1_000
"""Foreign folders that are remembered; with more, the first are forgotten."""
MAX_KNOWN_WORKSPACES = 1_000
"""The size of a cache, cleared by each mark, of which workspaces hold marked files."""


class OpenLook(NamedTuple):
    """A row of the table of marks that says that what a background program wrote is not marked yet.

    A start that finds one looks. As a path it is a file of no name below the workspace: marks and clears of a whole
    workspace take it along, and those of files do not.
    """

    workspace: str
    session_id: str
    since_ns: int

    @property
    def row(self) -> str:
        """The row."""
        return f"{self.workspace}{_OPEN}{self.session_id}/{self.since_ns}"


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
        self._noted: dict[str, int] = {}
        self._forgotten = 0
        self._time = 0
        self._writers: Writers | None = None

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

    @property
    def writers(self) -> Writers:
        """The programs that may be writing what is not marked yet."""
        if (found := self._writers) is None:
            from .writers import Writers  # here: many turns run no program

            found = self._writers = Writers(self)
        return found

    @property
    def has_writers(self) -> bool:
        """Whether there are any."""
        return bool(self._writers)

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

    def load(self, paths: Iterable[str]) -> list[tuple[OpenLook, Writer]]:
        """Add the paths of the store's table; return the looks that are due, each with its writer, which is to be ended."""
        marked: list[str] = []
        due: list[tuple[OpenLook, Writer]] = []
        for path in paths:
            workspace, sign, look = path.rpartition(_OPEN)
            if sign:
                session_id, _, since = look.partition("/")
                writer = self.writers.begin(workspace, workspace, int(since), None, lambda: True)
                due.append((OpenLook(workspace, session_id, int(since)), writer))
            else:
                marked.append(path)
        with self._lock:
            self._concerned.clear()
            self._marks.update(dict.fromkeys(marked, self._time))
        return due

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
            self._note(workspace)
            if path not in self._marks:
                path = self._bearer(path, workspace)
                self._concerned.clear()
            self._marks[path] = math.inf if is_being_written else self._time
            return path

    def note(self, workspace: str) -> None:
        """Note that there is, or was, untrusted content in a workspace."""
        with self._lock:
            self._note(workspace)

    def has_marked(self, workspace: str, since: int) -> bool:
        """Whether anything was marked or noted in a workspace, one in it or around it, since a time."""
        with self._lock:
            return since < self._forgotten or any(
                at > since and self.overlap(each, workspace) for each, at in self._noted.items()
            )

    @staticmethod
    def overlap(one: str, other: str) -> bool:
        """Whether a folder is another one, or lies in it, or around it; both are real paths."""
        return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")

    def _note(self, workspace: str) -> None:
        self._time += 1
        self._noted.pop(workspace, None)
        self._noted[workspace] = self._time
        if len(self._noted) > MAX_KNOWN_WORKSPACES:
            self._forgotten = self._noted.pop(next(iter(self._noted)))

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
