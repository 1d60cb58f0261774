"""What a killed runtime leaves in workspaces: the stubs of protected names, and which workspaces.

The kernel ends a killed runtime's sandboxes, but nobody removes the empty folders that held the
places of missing names. So each workspace is noted in the data folder before the first program runs
there; the next runtime on that folder looks into what is noted, and removes what nobody uses.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

from ..workspace.paths import BARE_REPOSITORY
from .box.protected import COMMON_DIR, IN_GIT, OWN_COMMON_DIR, Protection
from .box.stubs import MODE, give_up, is_stub, take

FILE_NAME = "workspaces-in-use"
"""In the data folder: real paths, each ended by a NUL."""
MAX_NOTED = 1024
"""Workspaces of one runtime; what is beyond is cleared by the next program that runs there."""
MAX_FILE_BYTES = MAX_NOTED * 4096
"""Paths are no longer than that."""


class StaleStubs:
    """The workspaces that may hold stubs; safe from any thread.

    Args:
        data: The data folder; `None` notes nothing.
    """

    def __init__(self, data: Path | None) -> None:
        self._file = None if data is None else data / FILE_NAME
        self._noted: set[str] = set()
        self._lock = Lock()

    @property
    def has_any(self) -> bool:
        """Whether any are noted: a quick look."""
        return self._file is not None and os.path.lexists(self._file)

    def note(self, workspace: str) -> None:
        """Notes a workspace (its real path), once; blocks on the disk for a moment.

        What can't be noted is cleared by the next program that runs there.
        """
        with self._lock:
            if self._file is None or workspace in self._noted or len(self._noted) >= MAX_NOTED:
                return
            self._noted.add(workspace)
            with suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(self._file, flags, 0o600)
                try:
                    os.write(fd, os.fsencode(workspace) + b"\0")
                finally:
                    os.close(fd)

    def clear(self) -> list[str]:
        """Removes what is left in the noted workspaces, unless a sandbox uses it; the paths.

        Only for whoever holds the data folder, when none of its programs runs. Blocks on the disk.
        """
        with self._lock:
            if self._file is None:
                return []
            found = [path for each in _noted(self._file) for path in _clear(each)]
            with suppress(OSError):
                self._file.unlink()
            self._noted.clear()
            return found


def stale_stubs(data: Path) -> list[str]:
    """What stands in the noted workspaces, be it left or of a program that runs; takes no lock."""
    return [path for workspace in _noted(data / FILE_NAME) for path in _stubs_in(workspace)]


class _Search(Protection):
    """Finds what a protection of this workspace has made, and makes nothing."""

    def __init__(self, workspace: str) -> None:
        self.found: dict[str, bytes | None] = {}
        super().__init__(workspace)

    def _seal(self, path: str, content: bytes | None = None, mode: int = MODE) -> None:
        if is_stub(path, content):
            self.found[path] = content

    def _keep_from_being_repository(self, workspace: str) -> None:
        for name in (*BARE_REPOSITORY, *IN_GIT, COMMON_DIR):
            self._seal(os.path.join(workspace, name))
        self._seal(os.path.join(workspace, COMMON_DIR), OWN_COMMON_DIR)


def _stubs_in(workspace: str) -> dict[str, bytes | None]:
    try:
        return _Search(workspace).found
    except OSError:  # not ours to look into any more
        return {}


def _clear(workspace: str) -> list[str]:
    found = _stubs_in(workspace)
    for path, content in found.items():
        with suppress(OSError):
            if (stub := take(path, content)) is not None:
                give_up(stub)
    return [path for path in found if not os.path.lexists(path)]


def _noted(file: Path) -> list[str]:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        *whole, _torn = os.read(fd, MAX_FILE_BYTES).split(b"\0")
    except OSError:
        return []
    finally:
        os.close(fd)
    paths = dict.fromkeys(os.fsdecode(each) for each in whole)
    return [path for path in paths if os.path.isabs(path) and os.path.isdir(path)]
