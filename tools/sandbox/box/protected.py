"""What a sandboxed program may not change in its workspace, though the rest of it is writable.

A hook, a git setting or a start-up file that it planted would run outside, on another day. Each such
path is mounted read-only over itself. Where one is missing, a *stub* (`stubs`) is put in its place on the
host and mounted the same way, and removed when no sandbox uses it any more. A folder that could be renamed,
with the mounts in it, is first mounted on itself: a mount point can't be renamed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Literal

from ....runtime.definitions import ErrorType, ToolFailure
from ...workspace.paths import BARE_REPOSITORY, PROTECTED_NAMES, START_UP_NAMES, is_below, shown
from ...workspace.protected_places import (
    COMMON_DIR,
    OWN_COMMON_DIR,
    is_stub,
    own_code_in,
    paths_in_settings,
)
from .stubs import CLOSED_MODE, MODE, Stub, give_up, take

AT_TOP = (*sorted(PROTECTED_NAMES), *sorted(START_UP_NAMES))
"""Only in the workspace's own folder: a mount for each folder below would be too many. Deeper, file tools
alone keep from writing these names."""

IN_GIT = ("hooks", "config", "config.worktree")
"""In a `.git` folder: git runs programs that these name."""

MAX_REPOSITORIES = 64
"""Submodules and worktrees that stay writable: more than a project has."""
MAX_DEPTH = 4
"""How deep folders of submodules are searched: a name may hold slashes, a module may hold others."""

PathKind = Literal["missing", "link", "directory", "file"]

Mount = tuple[str, str]
"""`--bind`, `--ro-bind`, `EMPTY` or `mounts.CLOSED`, and the path."""
EMPTY = "empty"
"""An empty folder over one that can't be entered, at which programs that walk a workspace (pytest) would
fail."""


class Protection:
    """The mounts that protect one workspace (a real path), and the stubs under them.

    Open it before the sandbox starts, and close it when that is gone. Where mounts are not possible (the
    second tier) paths are denied, whether something is there or not. `sealed` are further files, as far as they are
    there.
    """

    def __init__(
        self, workspace: str, sealed: Sequence[str] = (), *, is_mounted: bool = True
    ) -> None:
        self.mounts: list[Mount] = []
        self._is_mounted = is_mounted
        self._stubs: list[Stub] = []
        try:
            self._protect(workspace, sealed)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the stubs that no other sandbox uses. Idempotent."""
        while self._stubs:
            give_up(self._stubs.pop())

    def _protect(self, workspace: str, sealed: Sequence[str]) -> None:
        for name in AT_TOP:
            self._seal(os.path.join(workspace, name))
        git = os.path.join(workspace, ".git")
        if _kind(git) == "directory" and not is_stub(git):
            self._protect_repository(git, MAX_DEPTH)
        else:
            self._seal(git)
        self._keep_from_being_repository(workspace)
        there = (path for path in sealed if os.path.isfile(path) and os.path.realpath(path) == path)
        for path in (*paths_in_settings(workspace), *own_code_in(workspace), *there):
            self._seal_below(workspace, path)

    def _keep_from_being_repository(self, workspace: str) -> None:
        """Keep one of `HEAD`, `objects` and `refs` from being made.

        Git takes a folder that holds all three for a repository, with the settings beside them: where there
        is no `.git`, and where it is broken.
        """
        # A closed folder does not keep root out, but git accepts no repository whose HEAD is a folder. Where
        # there is a `.git`, that would make "HEAD" ambiguous to git itself.
        is_head_first = os.geteuid() == 0 and not _is_roots_repository(workspace)
        for name in BARE_REPOSITORY[::-1] if is_head_first else BARE_REPOSITORY:
            path = os.path.join(workspace, name)
            if _kind(path) == "missing" or is_stub(path):
                self._keep_away(path)
                if not self._is_mounted or not _is_roots_repository(workspace):
                    return
                common = os.path.join(workspace, COMMON_DIR)
                if _kind(common) != "file":
                    self._seal(common)
                    return
                break
        for name in IN_GIT:
            self._seal(os.path.join(workspace, name))
        self._seal(os.path.join(workspace, COMMON_DIR), OWN_COMMON_DIR)

    def _keep_away(self, path: str) -> None:
        """Have git find a closed folder there, and programs inside an empty one."""
        if not self._is_mounted:
            self.mounts.append(("--ro-bind", path))
            return
        self._seal(path, mode=CLOSED_MODE)
        if ("--ro-bind", path) in self.mounts:
            self.mounts.append((EMPTY, path))

    def _seal_below(self, workspace: str, path: str) -> None:
        """Make a path deeper in the workspace read-only, and the folders above it impossible to rename."""
        sealed = [sealed for how, sealed in self.mounts if how == "--ro-bind"]
        if any(path == each or is_below(path, each) for each in sealed):
            return
        names = os.path.relpath(path, workspace).split("/")
        place = workspace
        for name in names[:-1]:
            place = os.path.join(place, name)
            if _kind(place) != "directory":
                break
            if ("--bind", place) not in self.mounts:
                self.mounts.append(("--bind", place))
        else:
            place = path
        self._seal(place)

    def _protect_repository(self, git: str, depth: int) -> None:
        self.mounts.append(("--bind", git))
        for name in IN_GIT:
            self._seal(os.path.join(git, name))
        self._seal(os.path.join(git, COMMON_DIR), OWN_COMMON_DIR)
        for name in ("modules", "worktrees"):
            folder = os.path.join(git, name)
            self._seal(folder)
            if _kind(folder) == "directory" and not is_stub(folder):
                for inner in _repositories(folder, depth):
                    if name == "modules":
                        self._protect_repository(inner, depth - 1)
                        continue
                    self.mounts.append(("--bind", inner))
                    for part in ("config.worktree", "gitdir", COMMON_DIR):
                        self._seal(os.path.join(inner, part))

    def _seal(self, path: str, content: bytes | None = None, mode: int = MODE) -> None:
        """Make a path read-only; if there is nothing, put a stub there."""
        if _kind(path) == "link":
            raise ToolFailure(
                ErrorType.SANDBOX_UNAVAILABLE,
                f"{shown(path)} is a symbolic link, which a sandbox can't protect from being replaced. Put "
                "what it leads to in its place, or choose another workspace.",
                reason="a protected name is a link",
            )
        if (stub := take(path, content, mode)) is not None:
            self._stubs.append(stub)
        elif _kind(path) == "missing":
            return  # Nobody can make it.
        self.mounts.append(("--ro-bind", path))


def _is_roots_repository(workspace: str) -> bool:
    """Return whether this is root, which enters closed folders, in a workspace with a `.git`.

    A program may break that `.git`, and root's git would look beside it. A folder `commondir` there makes
    git give up before it reads settings.
    """
    git = os.path.join(workspace, ".git")
    return os.geteuid() == 0 and _kind(git) != "missing" and not is_stub(git)


def _kind(path: str) -> PathKind:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return "missing"
        raise
    if stat.S_ISLNK(mode):
        return "link"
    return "directory" if stat.S_ISDIR(mode) else "file"


def _repositories(folder: str, depth: int) -> Iterator[str]:
    """Yield folders below that are `.git` folders of their own (they hold HEAD), up to the maximum."""
    found = 0
    waiting = [(folder, depth)] if depth > 0 else []
    while waiting:
        place, left = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if os.path.lexists(os.path.join(entry.path, "HEAD")):
                    if found == MAX_REPOSITORIES:
                        return
                    found += 1
                    yield entry.path
                elif left > 1:
                    waiting.append((entry.path, left - 1))
