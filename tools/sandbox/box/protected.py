"""What a sandboxed program may not change in its workspace, though the rest of it is writable.

A hook, a git setting or a start-up file that it planted would run outside, another day. Each is
mounted read-only over itself. What is missing is masked by an empty folder, for which a mount needs
a place on the host: that *stub* is made here, and removed when no sandbox uses it any more.
A folder that could be renamed away, with the mounts in it, is first mounted on itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from ....runtime.definitions import ErrorType, ToolFailure
from ...workspace.paths import BARE_REPOSITORY, PROTECTED_NAMES, START_UP_NAMES, is_below, shown
from ...workspace.protected_places import own_code_in, paths_in_settings
from .stubs import CLOSED_MODE, MODE, Stub, give_up, is_stub, take

AT_TOP = (*sorted(PROTECTED_NAMES), *sorted(START_UP_NAMES))
"""In the workspace itself; deeper, a mount for each folder there is would be too many, and it is file
tools alone that don't write there."""

IN_GIT = ("hooks", "config", "config.worktree")
"""In a repository's own folder: git runs programs that these name."""

COMMON_DIR = "commondir"
"""From where git takes its config; a repository works with one that leads to itself."""

OWN_COMMON_DIR = b".\n"

MAX_REPOSITORIES = 64
"""Submodules and worktrees that stay writable; more than a project has."""
MAX_DEPTH = 4
"""How deep submodules' folders are looked for: a name may hold slashes, a module may hold others."""

Mount = tuple[str, str]
"""`--bind`, `--ro-bind` or `EMPTY`, and a path that it is about."""
EMPTY = "empty"
"""Over a read-only folder that can't be entered: one that can, with nothing in it. What looks through
a workspace (pytest) fails at a closed one."""


class Protection:
    """The mounts that protect one workspace, and the stubs under them.

    Open it before the sandbox starts, and close it when that is gone.

    Args:
        workspace: The real path.
        is_mounted: Whether something is mounted. Else paths are denied, be something there or not,
            and what is seen inside is what stands there.
    """

    def __init__(self, workspace: str, *, is_mounted: bool = True) -> None:
        self.mounts: list[Mount] = []
        self._is_mounted = is_mounted
        self._stubs: list[Stub] = []
        try:
            self._protect(workspace)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes the stubs that no other sandbox uses. Idempotent."""
        while self._stubs:
            give_up(self._stubs.pop())

    def _protect(self, workspace: str) -> None:
        for name in AT_TOP:
            self._seal(os.path.join(workspace, name))
        git = os.path.join(workspace, ".git")
        if _kind(git) == "directory" and not is_stub(git):
            self._protect_repository(git, MAX_DEPTH)
        else:
            self._seal(git)
        self._keep_from_being_repository(workspace)
        for path in (*paths_in_settings(workspace), *own_code_in(workspace)):
            self._seal_below(workspace, path)

    def _keep_from_being_repository(self, workspace: str) -> None:
        """Git takes a folder that holds all three for a repository, with the settings beside them.

        That is so without a `.git`, and with one that was broken: one that is missing stays away.
        """
        for name in _kept_away(workspace):
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
        """Git, which enters what is there, finds it closed; programs inside find it empty."""
        if not self._is_mounted:
            self.mounts.append(("--ro-bind", path))
            return
        self._seal(path, mode=CLOSED_MODE)
        if ("--ro-bind", path) in self.mounts:
            self.mounts.append((EMPTY, path))

    def _seal_below(self, workspace: str, path: str) -> None:
        """Makes what lies deeper read-only; no folder on the way can be put aside."""
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
                    else:
                        self._protect_worktree(inner)

    def _protect_worktree(self, git: str) -> None:
        self.mounts.append(("--bind", git))
        for name in ("config.worktree", "gitdir", COMMON_DIR):
            self._seal(os.path.join(git, name))

    def _seal(self, path: str, content: bytes | None = None, mode: int = MODE) -> None:
        """Makes a path read-only, or fills its place when there is nothing."""
        if _kind(path) == "link":
            raise _unprotectable(path)
        if (stub := take(path, content, mode)) is not None:
            self._stubs.append(stub)
        elif _kind(path) == "missing":
            return  # It can't be made, by nobody.
        self.mounts.append(("--ro-bind", path))


def _kept_away(workspace: str) -> tuple[str, ...]:
    """What makes a repository, with what is rather kept away first.

    Root enters a closed folder too, but git takes nothing whose HEAD is a folder. Where there is a
    `.git`, that would make "HEAD" ambiguous to git itself.
    """
    if os.geteuid() != 0 or _is_roots_repository(workspace):
        return BARE_REPOSITORY
    return BARE_REPOSITORY[::-1]


def _is_roots_repository(workspace: str) -> bool:
    """Whether root, who enters what is kept away, may find a `.git` broken, and look beside it.

    A folder `commondir` is where git gives up then: it reads no settings without that file.
    """
    git = os.path.join(workspace, ".git")
    return os.geteuid() == 0 and _kind(git) != "missing" and not is_stub(git)


def _unprotectable(path: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.SANDBOX_UNAVAILABLE,
        f"{shown(path)} is a symbolic link, which a sandbox can't protect from being replaced. Put "
        "what it leads to in its place, or choose another workspace.",
        reason="a protected name is a link",
    )


def _kind(path: str) -> str:
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
    """Folders below that are a repository's own (they hold HEAD), as many as are protected."""
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
