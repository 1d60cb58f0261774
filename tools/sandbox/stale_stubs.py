"""Stubs that a killed runtime left in workspaces, and how the next one finds and removes them.

The kernel ends a killed runtime's sandboxes, but nobody removes the stubs (`box.stubs`) that stood in the
places of missing names. So each workspace is noted in the data folder before the first program runs there; the
note is on the disk before a stub can be. The next runtime on that folder looks into the noted workspaces, and
removes the stubs that nobody uses.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from threading import Lock

from ...config.private_file import write_private
from ...runtime.disk.private_folder import sync_path
from ...runtime.errors import StorageError
from ..workspace.paths import BARE_REPOSITORY
from ..workspace.protected_places import COMMON_DIR, OWN_COMMON_DIR, is_stub
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

    def needs(self, workspace: str) -> bool:
        """Return whether a workspace has yet to be noted; cheap."""
        return self._file is not None and workspace not in self._noted

    def note(self, workspace: str) -> None:
        """Note a workspace (its real path), once and durably. Blocks on the disk; its errors are ignored."""
        with self._lock:
            if self._file is None or not self.needs(workspace) or len(self._noted) >= MAX_NOTED:
                return
            self._noted.add(workspace)
            with suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(self._file, flags, 0o600)
                try:
                    os.write(fd, os.fsencode(workspace) + b"\0")
                    os.fsync(fd)
                finally:
                    os.close(fd)
                sync_path(self._file.parent)

    def clear(self) -> list[str]:
        """Remove the stubs in the noted workspaces that no sandbox uses; return their paths.

        What can't be removed, or is in use by another runtime, stays noted. Call it only with the data folder locked,
        and no program of this runtime running. Blocks on the disk.
        """
        with self._lock:
            if self._file is None:
                return []
            noted = _noted(self._file)
            found = [path for each in noted for path in _clear(each)]
            left = b"".join(os.fsencode(each) + b"\0" for each in noted if _stubs_in(each))
            with suppress(OSError, StorageError):
                if left:
                    write_private(self._file, left, replace=True)
                else:
                    self._file.unlink()
            self._noted.clear()
            return found


def stale_stubs(data: Path, *more: str) -> list[str]:
    """Return the stubs that nobody uses in the noted workspaces, and in further folders (real paths)."""
    workspaces = dict.fromkeys((*_noted(data / FILE_NAME), *more))
    return [path for each in workspaces for path in _stubs_in(each) if not _is_held(path)]


def _is_held(path: str) -> bool:
    """Return whether a sandbox uses a stub (or somebody is just removing it)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


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
