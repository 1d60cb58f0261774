"""Remove a folder with everything in it, however deep it is and whatever its permissions.

Read-only folders (as in Go's module cache) first get their owner's rights. Subfolders are moved up
before they are emptied, so neither the depth of calls nor the number of open files grows with the depth
of the tree, and no path gets too long. Every entry is addressed relative to an open folder, and symbolic
links are not followed. Mounts inside the tree belong elsewhere and stay with all their content.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

from ..identity import new_id

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_OWNER = 0o700

_Mount = bytes | int
"""Identifies a mount. A bind mount has the device of its surroundings, so the kernel's id is used."""


def remove_tree(parent: int, name: str) -> None:
    """Remove a folder below an open one; blocks. An entry that can't be removed stops no other.

    Raises:
        OSError: Something is left.
    """
    with suppress(FileNotFoundError):
        mount = _mount(parent)
        folder = _open(parent, name, mount)
        try:
            failure = _Emptying(folder, mount).run()
        finally:
            os.close(folder)
        if failure is not None:
            raise failure
        os.rmdir(name, dir_fd=parent)


class _Emptying:
    def __init__(self, top: int, mount: _Mount) -> None:
        self._top = top
        self._mount = mount
        self._stuck: set[str] = set()
        self._failure: OSError | None = None

    def run(self) -> OSError | None:
        """Empty the folder; return why something is left, if it is."""
        while folders := [name for name in self._clear(self._top) if name not in self._stuck]:
            for name in folders:
                try:
                    self._lift(name)
                    os.rmdir(name, dir_fd=self._top)
                except FileNotFoundError:
                    pass  # another process removes it too
                except OSError as error:
                    self._failure = self._failure or error
                    self._stuck.add(name)
        return self._failure

    def _clear(self, folder: int) -> list[str]:
        """Remove all entries that are not folders; return the names of the folders."""
        folders = []
        with os.scandir(folder) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                    continue
                try:
                    os.unlink(entry.name, dir_fd=folder)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    self._failure = self._failure or error
        return folders

    def _lift(self, name: str) -> None:
        """Empty a folder, moving its subfolders up beside it."""
        folder = _open(self._top, name, self._mount)
        try:
            for inner in self._clear(folder):
                try:
                    # A folder that is not writable can't be moved.
                    os.close(_open(folder, inner, self._mount))
                    os.rename(inner, new_id("lifted"), src_dir_fd=folder, dst_dir_fd=self._top)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    self._failure = self._failure or error
        finally:
            os.close(folder)


def _mount(folder: int) -> _Mount:
    """Return the mount of an open folder: its line in /proc, or its device without /proc."""
    with suppress(FileNotFoundError), open(f"/proc/self/fdinfo/{folder}", "rb") as lines:
        for line in lines:
            if line.startswith(b"mnt_id:"):
                return line
    return os.fstat(folder).st_dev


def _keep_to(mount: _Mount, folder: int, name: str) -> None:
    if _mount(folder) != mount:
        raise OSError(errno.EBUSY, "Something is mounted here; unmount it first", name)


def _open(parent: int, name: str, mount: _Mount) -> int:
    """Open a folder, giving its owner the rights to list and change it."""
    try:
        folder = os.open(name, _FLAGS, dir_fd=parent)
    except PermissionError:
        _permit(parent, name, mount)
        folder = os.open(name, _FLAGS, dir_fd=parent)
    try:
        _keep_to(mount, folder, name)
        if os.fstat(folder).st_mode & _OWNER != _OWNER:
            os.fchmod(folder, _OWNER)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _permit(parent: int, name: str, mount: _Mount) -> None:
    """Give the owner's rights to a folder that can't be opened."""
    if sys.platform != "linux":
        os.chmod(name, _OWNER, dir_fd=parent, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        _keep_to(mount, handle, name)
        os.chmod(f"/proc/self/fd/{handle}", _OWNER)
    finally:
        os.close(handle)
