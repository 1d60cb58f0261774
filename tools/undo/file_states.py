"""The state of a path in a workspace, read without following a link, and its content kept."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator

from ...runtime.changes.file_versions import MAX_KEPT_FILE_BYTES, NOTHING, FileKind, FileState
from ...runtime.changes.version_log import CHUNK_BYTES, ChangeDraft
from ..files.file_facts import in_bytes
from ..workspace.reader import READ_FLAGS, lstat
from ..workspace.resolver import Names, OpenDirectory, Resolver
from ..workspace.workspace import tree_below

MAX_READ_BYTES = MAX_KEPT_FILE_BYTES
"""A larger file was never kept, so its content is not compared either."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})

IsMarked = Callable[[Names], bool]
"""Names → whether that path may hold the words of strangers."""


class Keeper:
    """Reads the state of paths, and keeps contents in a draft; without one it compares only.

    The log may hold `room_bytes` in all. `is_marked` says whether a path may hold the words of strangers.
    """

    def __init__(
        self,
        resolver: Resolver,
        draft: ChangeDraft | None = None,
        room_bytes: int = 0,
        is_marked: IsMarked = lambda names: False,
    ) -> None:
        self._resolver = resolver
        self._draft = draft
        self._room_bytes = room_bytes
        self._is_marked = is_marked

    def look(self, names: Names) -> FileState:
        """Return the state of a path; raise `OSError` when it can't be read."""
        try:
            with self._resolver.open_directory(names[:-1], follow=False) as parent:
                return self._look(parent, names)
        except OSError as error:
            if error.errno in _ABSENT:
                return NOTHING
            raise

    def _look(self, parent: OpenDirectory, names: Names) -> FileState:
        status = lstat(parent, names[-1])
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(names[-1], dir_fd=parent.fd))
            return FileState(FileKind.SYMLINK, target=target)
        if stat.S_ISDIR(status.st_mode):
            return FileState(FileKind.DIRECTORY, mode=mode)
        if not stat.S_ISREG(status.st_mode):
            return FileState(FileKind.OTHER, why="it is a FIFO, a socket or a device")
        size, fd = status.st_size, -1
        if not (why := self.why_not(size)):
            try:
                fd = self._resolver.open_at(parent, names[-1], READ_FLAGS)
            except PermissionError:
                why = "it can't be read"
        if why:
            return FileState(FileKind.FILE, mode=mode, size_bytes=size, why=why)
        try:
            at, taken, digest = self._taken(fd, size)
        finally:
            os.close(fd)
        return FileState(
            FileKind.FILE,
            mode=mode,
            size_bytes=taken,
            digest=digest.digest(),
            kept_at=at,
            is_marked=self._is_marked(names),
        )

    def why_not(self, size_bytes: int) -> str:
        """Return why a file of this size can't be kept; empty when it can."""
        if size_bytes > MAX_KEPT_FILE_BYTES:
            most = in_bytes(MAX_KEPT_FILE_BYTES)
            return f"its {in_bytes(size_bytes)} are more than is kept of a file ({most})"
        if self._draft is not None and self._draft.end + size_bytes > self._room_bytes:
            most = in_bytes(self._room_bytes)
            return f"the versions of this session have reached what is kept of it ({most})"
        return ""

    def _taken(self, fd: int, size: int) -> tuple[int | None, int, hashlib._Hash]:
        if self._draft is not None:
            return self._draft.keep(pieces_of(fd), size)
        digest, taken = hashlib.sha256(), 0
        for piece in pieces_of(fd):
            digest.update(piece)
            taken += len(piece)
            if taken > MAX_READ_BYTES:
                break
        return None, taken, digest


def pieces_of(fd: int) -> Iterator[bytes]:
    """Yield an open file from its beginning, piece by piece."""
    at = 0
    while piece := os.pread(fd, CHUNK_BYTES, at):
        yield piece
        at += len(piece)


def real_target(resolver: Resolver, names: Names) -> tuple[Names, int]:
    """Return the real names of a file, with links followed, and how many of them exist.

    Names that do not exist yet are taken as they are. Raises `OSError`.
    """
    for known in range(len(names), -1, -1):
        try:
            real = resolver.real_names(names[:known])
        except FileNotFoundError:
            continue
        return (*real, *names[known:]), len(real)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def real_entry(resolver: Resolver, names: Names) -> Names:
    """Return the real names of an entry; a link at the end stands for itself. Raises `OSError`."""
    return (*resolver.real_names(names[:-1]), names[-1])


def likeness(resolver: Resolver, names: Names) -> tuple[int, bytes]:
    """Return the inode of a path, and a digest of its content; raise `OSError`.

    A directory is represented by the names below it: moving it back loses nothing that is inside.
    """
    with resolver.open_directory(names[:-1], follow=False) as parent:
        status = lstat(parent, names[-1])
    if stat.S_ISDIR(status.st_mode):
        return status.st_ino, likeness_of_names(tree_below(resolver, names), len(names))
    state = Keeper(resolver).look(names)
    sign = state.digest or state.target or str(state.size_bytes).encode()
    return status.st_ino, str(state.kind).encode() + sign


def likeness_of_names(below: list[Names], depth: int) -> bytes:
    """Return the digest of a directory, at this depth, that holds these names."""
    digest = hashlib.sha256()
    for inner in sorted(below):
        digest.update(os.fsencode("/".join(inner[depth:])) + b"\0")
    return b"directory" + digest.digest()
