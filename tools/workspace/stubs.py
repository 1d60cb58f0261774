"""Stubs: what stands on the disk, while a program runs, in the place of a protected name that is missing.

The sandbox makes them (`sandbox.box.stubs`), since nothing but an entry in a folder keeps its name from being
taken: a mount needs one to lie on. They are nobody's work, and go with the program. So whoever looks at a
workspace meanwhile, or before and behind another program, leaves them out.
"""

from __future__ import annotations

import os
import stat
from functools import cached_property

from .paths import BARE_REPOSITORY, PROTECTED_IN_GIT, PROTECTED_NAMES, START_UP_NAMES
from .protected_places import paths_in_settings

COMMON_DIR = "commondir"
"""The file that says where git's config is; a repository works with one that names itself."""
OWN_COMMON_DIR = b".\n"

NAMES = PROTECTED_NAMES | START_UP_NAMES | PROTECTED_IN_GIT | {*BARE_REPOSITORY} | {
    *(".git", "modules", "worktrees", "gitdir")
}  # fmt: skip
"""The names that have stubs in any workspace; git's settings may name others."""


class Stubs:
    """Tells the stubs of a workspace (a real path), and of those in it, from people's files. Use it for one look."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace

    def hides(self, path: str, at: str, dir_fd: int | None = None) -> bool:
        """Return whether an entry is a stub. Ask only about what nobody may write, by its mode.

        `path` is relative to the workspace; `at`, of the same last name, is what can be opened, in `dir_fd` if given.
        """
        name = at.rpartition("/")[2]
        if name not in NAMES and path not in self._named:
            return False
        contents = (None, OWN_COMMON_DIR) if name == COMMON_DIR else (None,)
        return any(_is_stub(at, content, dir_fd) for content in contents)

    @cached_property
    def _named(self) -> frozenset[str]:
        paths = paths_in_settings(self._workspace)
        return frozenset(os.path.relpath(path, self._workspace) for path in paths)


def is_stub(path: str, content: bytes | None = None) -> bool:
    """Return whether a path is a stub, a folder or a file of this content; never blocks on what is there."""
    return os.path.lexists(path) and _is_stub(path, content)


def _is_stub(path: str, content: bytes | None, dir_fd: int | None = None) -> bool:
    try:
        # Opening a FIFO would block without O_NONBLOCK.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags, dir_fd=dir_fd)
    except FileNotFoundError:
        return True  # it was one a moment ago
    except OSError:
        return False
    try:
        mode = os.fstat(fd).st_mode
        if mode & 0o222:
            return False
        if content is None:
            return stat.S_ISDIR(mode) and not os.listdir(fd)
        # One that is still being written is empty.
        return stat.S_ISREG(mode) and os.read(fd, len(content) + 1) in (content, b"")
    except OSError:
        return False
    finally:
        os.close(fd)
