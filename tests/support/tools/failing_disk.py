"""A disk that fails at a chosen operation of a tool's thread: once, or full from there on."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from callboard.tools.workspace import atomic_write, openat2

OPERATIONS = (
    *("open", "read", "pread", "write", "pwrite", "fsync", "ftruncate", "fchmod", "stat", "fstat"),
    *("rename", "link", "unlink", "mkdir", "rmdir", "scandir", "readlink"),
)
TAKES_ROOM = frozenset({"open", "write", "pwrite", "link", "mkdir", "rename_exclusive"})


class FailingDisk:
    """Counts the operations of threads other than the one that made it, and fails the chosen ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name, self.place = "", 0
        self._own = threading.get_ident()
        self._first = 0
        self._count: int | None = None
        self._is_full = False
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self._failing(name, getattr(os, name)))
        # The raw system call, which `os` does not have.
        exclusive = self._failing("rename_exclusive", openat2.rename_exclusive)
        monkeypatch.setattr(atomic_write, "rename_exclusive", exclusive)

    @contextmanager
    def failing_at(self, place: int, *, is_full: bool) -> Generator[None]:
        """Fail the operation with this number: it alone, or what takes room from there on.

        `name` and `place` are then those of the first that failed; no name: none did.
        """
        self._count, self._first, self._is_full, self.name = 0, place, is_full, ""
        try:
            yield
        finally:
            self._count = None

    def _failing(self, name: str, function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if self._count is None or threading.get_ident() == self._own:
                return function(*args, **options)
            place, self._count = self._count, self._count + 1
            if self._is_full:
                is_due = place >= self._first and _takes_room(name, args, options)
            else:
                is_due = place == self._first
            if is_due:
                if not self.name:
                    self.name, self.place = name, place
                number = errno.ENOSPC if self._is_full else errno.EIO
                raise OSError(number, os.strerror(number))
            return function(*args, **options)

        return call


def _takes_room(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a full disk refuses this; it takes bytes where the file has room already."""
    if name == "pwrite":
        fd, data, at = args
        return bool(at + len(data) > os.lseek(fd, 0, os.SEEK_END))
    if name == "open":
        is_there = os.access(args[0], os.F_OK, dir_fd=options.get("dir_fd"), follow_symlinks=False)
        return not is_there and len(args) > 1 and bool(args[1] & os.O_CREAT)
    return name in TAKES_ROOM
