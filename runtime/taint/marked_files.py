"""Which files hold what a tainted session wrote: paths in all workspaces, as they are right now.

The table of the store says the same of what is on record; whoever begins loads it, and each call
records what it changed here. A mark on a folder is one on everything below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from threading import Lock

MAX_MARKED_FILES = 10_000
"""As many as one deletion takes, some megabyte; beyond it, a whole workspace is marked instead."""

MAX_KNOWN_WORKSPACES = 1_000
"""Of so many it is known whether they hold marked files, until the next mark."""


class MarkedFiles:
    """The marked paths, absolute and without links; safe to use from any thread.

    Each mark knows when its file was last written, so that what another call wrote meanwhile is
    never cleared. Calls without resource keys may overlap as they like.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._marks: dict[str, float] = {}
        self._concerned: dict[str, bool] = {}
        self._time = 0

    def __bool__(self) -> bool:
        return bool(self._marks)

    def concern(self, workspace: str) -> bool:
        """Whether any of them lies in a workspace, or above it."""
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
        """Takes over what is on record."""
        with self._lock:
            self._concerned.clear()
            self._marks.update(dict.fromkeys(paths, self._time))

    def covers(self, path: str) -> bool:
        """Whether a file is marked, by itself or by a folder above."""
        return self._covering(path) is not None

    def below(self, path: str) -> list[str]:
        """The marks at a path and below it."""
        with self._lock:
            return self._below(path)

    def now(self) -> int:
        """A time, for `clear`."""
        with self._lock:
            self._time += 1
            return self._time

    def mark(self, path: str, workspace: str, *, is_being_written: bool = False) -> str:
        """Marks a file before it is written, and again when it is; gives what bears the mark.

        That is its whole workspace when there are too many.
        """
        with self._lock:
            self._time += 1
            if path not in self._marks:
                path = self._bearer(path, workspace)
                self._concerned.clear()
            self._marks[path] = math.inf if is_being_written else self._time
            return path

    def clear(self, path: str, before: float) -> None:
        """Takes the marks at a path and below it away, of what was written before a time."""
        with self._lock:
            for marked in self._below(path):
                if self._marks[marked] < before:
                    del self._marks[marked]
            self._concerned.clear()

    def _bearer(self, path: str, workspace: str) -> str:
        """What is to bear a new mark; makes room for it."""
        covering = self._covering(path)
        if covering is not None or len(self._marks) < MAX_MARKED_FILES:
            return covering or path
        inside = self._below(workspace)
        self._marks[workspace] = self._time  # first: whoever looks needs no lock
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
