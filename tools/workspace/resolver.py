"""From names to open files that certainly lie below one root.

A check of a path followed by a use of the path is a race: anybody may put a link in between. So a
path is never checked and then used; it is opened below the root's descriptor, and only descriptors
are used from there on.

`KernelResolver` leaves the lookup to openat2 (RESOLVE_BENEATH: no way out, whatever is renamed
meanwhile; RESOLVE_NO_XDEV: no mount point; RESOLVE_NO_MAGICLINKS: no /proc links). `WalkResolver`
serves where openat2 is missing: it opens one name after the other with O_NOFOLLOW from held
directories and reads links itself; it can't see a bind mount from the same file system. Both follow
relative links that stay inside and refuse absolute ones. A refusal is `OSError` with EXDEV or ELOOP.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

from .openat2 import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    RESOLVE_NO_XDEV,
    openat2,
)

Names = tuple[str, ...]

MAX_LINKS = 40
"""Linux's own bound on links in one lookup (path_resolution(7))."""

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CONFINED = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV
_O_PATH = getattr(os, "O_PATH", 0)
_HERE = -100
"""AT_FDCWD: relative paths begin in the working folder; ours are absolute."""


class OpenDirectory:
    """A directory that is held open, with the real names that lead to it; `with` closes it."""

    def __init__(self, fd: int, names: Names) -> None:
        self.fd = fd
        self.names = names

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class Resolver(Protocol):
    """The one way from a name to a file descriptor."""

    root_fd: int

    def open(self, names: Names, flags: int) -> int:
        """Open what the names lead to; links inside the root are followed."""
        ...

    def open_at(self, directory: OpenDirectory, name: str, flags: int, mode: int = 0) -> int:
        """Open one entry of a directory; a link is refused."""
        ...

    def open_directory(self, names: Names, *, follow: bool = True) -> OpenDirectory:
        """Open a directory; without `follow`, no name on the way may be a link."""
        ...

    def real_names(self, names: Names) -> Names:
        """Return where the names lead when all links are followed; ENOENT when nothing is there."""
        ...

    def names_of(self, fd: int, names: Names) -> Names:
        """Return the real names of what was opened by `names`."""
        ...


class KernelResolver:
    """Resolution by openat2."""

    def __init__(self, root_fd: int) -> None:
        self.root_fd = root_fd

    def open(self, names: Names, flags: int) -> int:
        """See `Resolver`."""
        return openat2(self.root_fd, _joined(names), flags, resolve=_CONFINED)

    def open_at(self, directory: OpenDirectory, name: str, flags: int, mode: int = 0) -> int:
        """See `Resolver`."""
        flags |= os.O_NOFOLLOW
        return openat2(directory.fd, name, flags, mode=mode, resolve=_CONFINED)

    def open_directory(self, names: Names, *, follow: bool = True) -> OpenDirectory:
        """See `Resolver`."""
        resolve = _CONFINED if follow else _CONFINED | RESOLVE_NO_SYMLINKS
        fd = openat2(self.root_fd, _joined(names), DIRECTORY_FLAGS, resolve=resolve)
        if not follow:
            return OpenDirectory(fd, names)
        try:
            return OpenDirectory(fd, self._names_of(fd))
        except BaseException:
            os.close(fd)
            raise

    def real_names(self, names: Names) -> Names:
        """See `Resolver`."""
        fd = self.open(names, _O_PATH)
        try:
            return self._names_of(fd)
        finally:
            os.close(fd)

    def names_of(self, fd: int, names: Names) -> Names:
        """See `Resolver`."""
        return self._names_of(fd)

    def _names_of(self, fd: int) -> Names:
        # The kernel knows the present names of an open file. The root's own are read each time,
        # since the whole workspace may be renamed while it is open.
        root = os.readlink(f"/proc/self/fd/{self.root_fd}")
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path == root:
            return ()
        prefix = root.rstrip("/") + "/"
        if not path.startswith(prefix):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return tuple(path[len(prefix) :].split("/"))


class WalkResolver:
    """Resolution name by name, for systems without openat2."""

    def __init__(self, root_fd: int) -> None:
        self.root_fd = root_fd
        self._device = os.fstat(root_fd).st_dev

    def open(self, names: Names, flags: int) -> int:
        """See `Resolver`."""
        parent, name = self._walk(names, follow=True)
        with parent:
            return self.open_at(parent, name or ".", flags)

    def open_at(self, directory: OpenDirectory, name: str, flags: int, mode: int = 0) -> int:
        """See `Resolver`."""
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory.fd)
        if os.fstat(fd).st_dev != self._device:
            os.close(fd)
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return fd

    def open_directory(self, names: Names, *, follow: bool = True) -> OpenDirectory:
        """See `Resolver`."""
        parent, name = self._walk(names, follow=follow)
        if not name:
            return parent
        with parent:
            fd = self.open_at(parent, name, DIRECTORY_FLAGS)
            return OpenDirectory(fd, (*parent.names, name))

    def real_names(self, names: Names) -> Names:
        """See `Resolver`."""
        parent, name = self._walk(names, follow=True)
        with parent:
            if not name:
                return parent.names
            os.stat(name, dir_fd=parent.fd, follow_symlinks=False)
            return (*parent.names, name)

    def names_of(self, fd: int, names: Names) -> Names:
        """See `Resolver`."""
        return self.real_names(names)

    def _walk(self, names: Names, *, follow: bool) -> tuple[OpenDirectory, str]:
        """Return the open parent and the last name, which is not a link (`""`: the parent itself)."""
        # Opened again: the root's own descriptor may be O_PATH, which can't be scanned.
        held = [OpenDirectory(os.open(".", DIRECTORY_FLAGS, dir_fd=self.root_fd), ())]
        try:
            name = self._descend(held, deque(names), follow)
            return held.pop(), name
        finally:
            for directory in held:
                os.close(directory.fd)

    def _descend(self, held: list[OpenDirectory], pending: deque[str], follow: bool) -> str:
        links = 0
        while pending:
            name = pending.popleft()
            if name in {"", "."}:
                continue
            if name == "..":
                if len(held) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                os.close(held.pop().fd)
                continue
            here = held[-1]
            target = _link_target(here.fd, name)
            if target is not None:
                links += 1
                if not follow or links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                pending.extendleft(reversed(target.split("/")))
            elif pending:
                fd = self.open_at(here, name, DIRECTORY_FLAGS)
                held.append(OpenDirectory(fd, (*here.names, name)))
            else:
                return name
        return ""


def _link_target(dir_fd: int, name: str) -> str | None:
    try:
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(status.st_mode):
        return None
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return None  # it was exchanged meanwhile; opening it with O_NOFOLLOW decides


def open_real(path: str, flags: int, *, use_openat2: bool = True) -> int:
    """Open what a real path leads to; a link that has the place of one of its names by now is refused (`OSError`).

    Args:
        path: As `os.path.realpath` gave it.
        flags: With `O_DIRECTORY`: of an entry that is a link, `O_PATH` alone would open the link.
        use_openat2: Whether the kernel may look for links.
    """
    if use_openat2:
        try:
            return openat2(_HERE, path, flags, resolve=RESOLVE_NO_SYMLINKS)
        except OSError as error:
            if error.errno not in {errno.ENOSYS, errno.EPERM}:  # some containers forbid it
                raise
    fd = os.open("/", (_O_PATH or os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        *above, last = [name for name in path.split("/") if name] or ["."]
        for name in above:
            way = (_O_PATH or os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(name, way, dir_fd=fd)
            os.close(fd)
            fd = below
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    finally:
        os.close(fd)


def open_resolver(root_fd: int, *, use_openat2: bool = True) -> Resolver:
    """Return the best resolver that works here: some containers forbid openat2 or hide /proc."""
    if use_openat2:
        kernel = KernelResolver(root_fd)
        try:
            kernel.open_directory(()).__exit__()
        except OSError:
            pass
        else:
            return kernel
    return WalkResolver(root_fd)


def _joined(names: Names) -> str:
    return "/".join(names) or "."


def mount_points(mounts: Path) -> Iterator[tuple[str, str]]:
    """Yield where something is mounted, and the type of its file system; raises `OSError`."""
    for line in os.fsdecode(mounts.read_bytes()).splitlines():
        mount, _, rest = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) >= 5 and rest:
            # "space, tab, newline and backslash are octal escapes" (proc_pid_mountinfo(5))
            point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
            yield point, rest.split(" ")[0]
