"""Stubs that a killed runtime left in workspaces, and how the next one finds and removes them.

The kernel ends a killed runtime's sandboxes, but nobody removes the stubs (`box.stubs`) that stood in the
places of missing names. So each workspace is noted in the data folder before the first program runs there.
The next runtime on that folder looks into the noted workspaces, and removes the stubs that nobody uses.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

from ..workspace.paths import BARE_REPOSITORY
from ..workspace.stubs import COMMON_DIR, OWN_COMMON_DIR, is_stub
from .box.protected import IN_GIT, Protection
from .box.stubs import MODE, give_up, take

FILE_NAME = "workspaces-in-use"
"""In the data folder: real paths, each with a NUL behind it."""
MAX_NOTED = 1024
"""Workspaces of one runtime; in others, the next program that runs there takes stale stubs over."""
MAX_FILE_BYTES = MAX_NOTED * 4096
"""Paths are no longer than that."""


class StaleStubs:
    """The workspaces that may hold stubs; safe to use from any thread. Without a data folder none is noted."""

    def __init__(self, data: Path | None) -> None:
        self._file = None if data is None else data / FILE_NAME
        self._noted: set[str] = set()
        self._lock = Lock()

    @property
    def has_any(self) -> bool:
        """Whether any are noted; cheap."""
        return self._file is not None and os.path.lexists(self._file)

    def note(self, workspace: str) -> None:
        """Note a workspace (its real path), once. Blocks on the disk for a moment; errors are ignored."""
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
        """Remove the stubs in the noted workspaces that no sandbox uses; return their paths.

        Call it only with the data folder locked, and no program of this runtime running. Blocks on the
        disk.
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
    """Return the stubs in the noted workspaces, stale or in use; takes no lock."""
    return [path for workspace in _noted(data / FILE_NAME) for path in _stubs_in(workspace)]


class _Search(Protection):
    """Finds the stubs that a protection of this workspace would make, and makes none."""

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
