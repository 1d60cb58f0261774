"""Reading below one root: the handle that a session gets when it may only look.

The one place where `OSError` of file tools becomes `ToolFailure` (`failures`).
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import os
import stat
import weakref
from collections import deque
from collections.abc import Generator, Iterator

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.handles import FileContent, FileInfo, Listing
from ..failures import failed
from .paths import not_allowed, shown, split_path
from .protected_places import Stubs
from .resolver import Names, OpenDirectory, Resolver

# A FIFO or a device must neither block the open nor become the controlling terminal.
READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OpenRoot:
    """An open root that a workspace and its views share.

    Its descriptor is closed when the last of them is gone, not before: the number of a closed
    descriptor soon means another file, and a thread may still be at work.
    """

    def __init__(self, fd: int, resolver: Resolver, paths: tuple[Names, ...]) -> None:
        self.resolver = resolver
        self.is_closed = False
        self._paths = paths
        weakref.finalize(self, os.close, fd)

    @property
    def place(self) -> str:
        """The real path of the root."""
        return "/" + "/".join(self._paths[-1])

    def names(self, path: str) -> Names:
        """Return the names below the root that a path means; raise `ToolFailure` after closing."""
        if self.is_closed:
            raise failed("the workspace was closed meanwhile.")
        return split_path(path, self._paths)


class FileReader:
    """A `ReadableFiles` below a root; it can't write."""

    def __init__(self, root: OpenRoot) -> None:
        self.root = root
        self.resolver = root.resolver

    def normalize(self, path: str) -> str:
        """See `ReadableFiles`."""
        return "/".join(self.root.names(path)) or "."

    def find(self, path: str, *, follow: bool = True) -> FileInfo | None:
        """See `ReadableFiles`."""
        names = self.root.names(path)
        try:
            with failures(path):
                real = self.resolver.real_names(names) if follow else names
                if not real:
                    return info_of(real, os.fstat(self.resolver.root_fd))
                with self.resolver.open_directory(real[:-1]) as parent:
                    status = lstat(parent, real[-1])
                    if _is_hidden(Stubs(self.root.place), parent, real[-1], status):
                        return None
                    return info_of((*parent.names, real[-1]), status)
        except ToolFailure as error:
            if error.error_type in {ErrorType.FILE_NOT_FOUND, ErrorType.NOT_A_DIRECTORY}:
                return None
            raise

    def read(self, path: str, *, offset: int = 0, limit: int) -> FileContent:
        """See `ReadableFiles`."""
        names = self.root.names(path)
        with failures(path):
            fd = self.resolver.open(names, READ_FLAGS)
            try:
                status = regular(fd, path)
                real = self.resolver.names_of(fd, names)
                return FileContent(data=_read(fd, offset, limit), info=info_of(real, status))
            finally:
                os.close(fd)

    def entries(
        self, path: str, *, recursive: bool, include_hidden: bool, max_entries: int
    ) -> Listing:
        """See `ReadableFiles`.

        Memory is bounded by `max_entries`, however many entries there are: only the first so many
        names of each directory are kept. The walk is breadth first, so a bound cuts the deepest.
        """
        names = self.root.names(path)
        found: list[FileInfo] = []
        total = 0
        stubs = Stubs(self.root.place)
        pending: deque[Names] = deque([()])
        truncated = False
        while pending and not truncated:
            below = pending.popleft()
            with failures(path):
                try:
                    directory = self.resolver.open_directory((*names, *below))
                except OSError:
                    if not below:
                        raise
                    continue  # it vanished or can't be read; the listing goes on
                with directory:
                    count, kept = _scan(directory, stubs, include_hidden, max_entries - len(found))
                    total += count
                    truncated = count > len(kept)
                    found.extend(info_of((*names, *below, name), status) for name, status in kept)
            if recursive:
                pending.extend(
                    (*below, name) for name, status in kept if stat.S_ISDIR(status.st_mode)
                )
        found.sort(key=lambda info: info.path.split("/"))
        whole = not recursive or not truncated
        return Listing(entries=tuple(found), total=total if whole else None, truncated=truncated)


def info_of(names: Names, status: os.stat_result) -> FileInfo:
    """Return the facts of an entry, from its status."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        kind = "file"
    elif stat.S_ISDIR(mode):
        kind = "directory"
    else:
        kind = "symlink" if stat.S_ISLNK(mode) else "other"
    return FileInfo(
        path="/".join(names) or ".",
        kind=kind,
        size_bytes=status.st_size,
        modified_seconds=status.st_mtime,
        links=status.st_nlink,
    )


def lstat(directory: OpenDirectory, name: str) -> os.stat_result:
    """Return the status of one entry itself, links not followed."""
    return os.stat(name, dir_fd=directory.fd, follow_symlinks=False)


def regular(fd: int, path: str) -> os.stat_result:
    """Return the status of an open file; raise `ToolFailure` unless it is a regular file."""
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode):
        return status
    what = "a directory" if stat.S_ISDIR(status.st_mode) else "a FIFO, socket or device"
    raise ToolFailure(ErrorType.NOT_A_FILE, f"{shown(path)}: {what}, where a file is meant.")


_MEANING: dict[int, tuple[ErrorType, str]] = {
    errno.ENOENT: (
        ErrorType.FILE_NOT_FOUND,
        "no such file or directory. list_directory shows what there is.",
    ),
    errno.ENOTDIR: (ErrorType.NOT_A_DIRECTORY, "not a directory, or a part of the path is a file."),
    errno.EISDIR: (ErrorType.NOT_A_FILE, "a directory, where a file is meant."),
    errno.ENXIO: (ErrorType.NOT_A_FILE, "not a regular file."),
    errno.ENODEV: (ErrorType.NOT_A_FILE, "not a regular file."),
    errno.EEXIST: (ErrorType.ALREADY_EXISTS, "it exists already."),
    errno.ENOTEMPTY: (
        ErrorType.NOT_EMPTY,
        "the directory is not empty; delete_file takes recursive=true.",
    ),
    errno.EACCES: (ErrorType.ACCESS_DENIED, "the operating system denies access."),
    errno.EPERM: (ErrorType.ACCESS_DENIED, "the operating system does not permit it."),
    errno.EROFS: (ErrorType.ACCESS_DENIED, "the file system is read-only."),
    errno.EBUSY: (ErrorType.ACCESS_DENIED, "it is in use by the operating system."),
    errno.ETXTBSY: (ErrorType.ACCESS_DENIED, "it is a program that is running."),
    errno.ENOSPC: (ErrorType.STORAGE_FULL, "no space left on the disk; nothing was changed."),
    errno.EDQUOT: (ErrorType.STORAGE_FULL, "the disk quota is used up; nothing was changed."),
    errno.EFBIG: (ErrorType.STORAGE_FULL, "the file would be larger than is allowed."),
    errno.ENAMETOOLONG: (ErrorType.VALIDATION_ERROR, "a name in the path is too long."),
    errno.EINVAL: (ErrorType.VALIDATION_ERROR, "the operating system can't do this with it."),
}


def failure(error: OSError, path: str) -> ToolFailure:
    """Return the `ToolFailure` for an error about a path."""
    if error.errno in {errno.EXDEV, errno.ELOOP}:
        return not_allowed(path)
    fallback = ErrorType.EXECUTION_ERROR, f"{os.strerror(error.errno or errno.EIO)}."
    error_type, text = _MEANING.get(error.errno or 0, fallback)
    if error_type is ErrorType.VALIDATION_ERROR:
        return ToolFailure(error_type, f"{shown(path)}: {text}", field="path")
    return ToolFailure(error_type, f"{shown(path)}: {text}")


@contextlib.contextmanager
def failures(path: str) -> Generator[None]:
    """Turn an `OSError` of the block into a `ToolFailure` about `path`."""
    try:
        yield
    except OSError as error:
        raise failure(error, path) from error


def _read(fd: int, offset: int, limit: int) -> bytes:
    pieces = []
    while limit > 0:
        piece = os.pread(fd, limit, offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _scan(
    directory: OpenDirectory, stubs: Stubs, include_hidden: bool, max_entries: int
) -> tuple[int, list[tuple[str, os.stat_result]]]:
    count = 0

    def names() -> Iterator[str]:
        nonlocal count
        with os.scandir(directory.fd) as entries:
            for entry in entries:
                if include_hidden or not entry.name.startswith("."):
                    count += 1
                    yield entry.name

    kept = []
    # One more than is kept: `nsmallest(0, …)` would not iterate, and nothing would be counted.
    for name in heapq.nsmallest(max_entries + 1, names())[:max_entries]:
        try:
            status = lstat(directory, name)
            if not _is_hidden(stubs, directory, name, status):
                kept.append((name, status))
                continue
        except FileNotFoundError:
            pass  # Removed since it was listed.
        count -= 1
    return count, kept


def _is_hidden(stubs: Stubs, parent: OpenDirectory, name: str, status: os.stat_result) -> bool:
    """Return whether an entry is nobody's work: what a sandbox has put there for as long as it runs."""
    if status.st_mode & 0o222:
        return False
    return stubs.hides("/".join((*parent.names, name)), name, parent.fd)
