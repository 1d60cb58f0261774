"""What a sandboxed program may not change in its workspace, though the rest of it is writable.

A hook, a git setting or a start-up file that it planted would run outside, another day. Each is
mounted read-only over itself. What is missing is masked by an empty folder, for which a mount needs
a place on the host: that *stub* is made here, and removed when no sandbox uses it any more.
A folder that could be renamed away, with the mounts in it, is first mounted on itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from ...runtime.definitions import ErrorType, ToolFailure
from ..paths import shown

AT_TOP = (
    ".callboard",
    "callboard.toml",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".envrc",
    ".gitconfig",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
)
"""In the workspace itself: what steers callboard, and what shells run when somebody enters."""

IN_GIT = ("hooks", "config", "config.worktree")
"""In a repository's own folder: git runs programs that these name."""

COMMON_DIR = "commondir"
"""From where git takes its config; a repository works with one that leads to itself."""

OWN_COMMON_DIR = b".\n"

MAX_REPOSITORIES = 64
"""Submodules and worktrees that stay writable; more than a project has."""
MAX_DEPTH = 4
"""How deep submodules' folders are looked for: a name may hold slashes, a module may hold others."""

STUB_MODE = 0o555
"""By which a stub is known, also one that a crash left: no umask adds a right to write."""
MAX_TRIES = 100
"""Whoever removes a stub holds it for some microseconds."""

Mount = tuple[str, str]
"""`--bind` or `--ro-bind`, and a path that it is about."""


class Protection:
    """The mounts that protect one workspace, and the stubs under them.

    Open it before the sandbox starts, and close it when that is gone.
    """

    def __init__(self, workspace: str) -> None:
        self.mounts: list[Mount] = []
        self._stubs: list[tuple[str, int]] = []
        try:
            self._protect(workspace)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes the stubs that no other sandbox uses. Idempotent."""
        while self._stubs:
            path, fd = self._stubs.pop()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_stub(path, fd)
            except OSError:
                pass  # Another sandbox uses it, or somebody put something in its place.
            finally:
                os.close(fd)

    def _protect(self, workspace: str) -> None:
        for name in AT_TOP:
            self._seal(os.path.join(workspace, name))
        git = os.path.join(workspace, ".git")
        if _kind(git) == "directory" and not _is_stub(git, None):
            self._protect_repository(git, MAX_DEPTH)
        else:
            self._seal(git)

    def _protect_repository(self, git: str, depth: int) -> None:
        self.mounts.append(("--bind", git))
        for name in IN_GIT:
            self._seal(os.path.join(git, name))
        self._seal(os.path.join(git, COMMON_DIR), OWN_COMMON_DIR)
        for name in ("modules", "worktrees"):
            folder = os.path.join(git, name)
            self._seal(folder)
            if _kind(folder) == "directory" and not _is_stub(folder, None):
                for inner in _repositories(folder, depth):
                    if name == "modules":
                        self._protect_repository(inner, depth - 1)
                    else:
                        self._protect_worktree(inner)

    def _protect_worktree(self, git: str) -> None:
        self.mounts.append(("--bind", git))
        for name in ("config.worktree", "gitdir", COMMON_DIR):
            self._seal(os.path.join(git, name))

    def _seal(self, path: str, content: bytes | None = None) -> None:
        """Makes a path read-only, or fills its place when there is nothing."""
        for _ in range(MAX_TRIES):
            kind = _kind(path)
            if kind == "link":
                raise _unprotectable(path)
            if kind == "missing":
                try:
                    _make_stub(path, content)
                except FileExistsError:
                    continue
                except OSError as error:
                    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                        return  # What we can't make, the program can't either.
                    raise
            elif not _is_stub(path, content):
                break
            if (fd := _lock_stub(path)) is not None:
                self._stubs.append((path, fd))
                break
        else:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        self.mounts.append(("--ro-bind", path))


def _unprotectable(path: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.SANDBOX_UNAVAILABLE,
        f"{shown(path)} is a symbolic link, which a sandbox can't protect from being replaced. Put "
        "what it leads to in its place, or choose another workspace.",
        reason="a protected name is a link",
    )


def _make_stub(path: str, content: bytes | None) -> None:
    if content is None:
        os.mkdir(path, STUB_MODE)
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, STUB_MODE)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def _is_stub(path: str, content: bytes | None) -> bool:
    """Whether this was made to hold a place: nobody may write to it, and it is as it was made."""
    try:
        mode = os.lstat(path).st_mode
        if mode & 0o222:
            return False
        if content is None:
            return stat.S_ISDIR(mode) and not os.listdir(path)
        with open(path, "rb") as file:
            # One that is still being written is empty.
            return stat.S_ISREG(mode) and file.read(len(content) + 1) in (content, b"")
    except OSError:
        return False


def _lock_stub(path: str) -> int | None:
    """A shared lock on a stub, which keeps it there; `None` when it is just being removed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if _is_at(path, fd):
            return fd
    except OSError:
        pass  # Whoever removes it holds the lock.
    os.close(fd)
    return None


def _remove_stub(path: str, fd: int) -> None:
    if not _is_at(path, fd):
        return
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.rmdir(path)  # fails when it is not empty
    elif _is_stub(path, OWN_COMMON_DIR):
        os.unlink(path)


def _is_at(path: str, fd: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    own = os.fstat(fd)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


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
