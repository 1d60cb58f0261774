"""Writing a file whole and durably, or not at all.

A write goes to a temporary file in the same directory, is flushed to disk, and gets its name in one
rename. A crash in between leaves the old content and a `.callboard-….tmp`, which the next opening of
the workspace removes: it is locked as long as somebody writes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections import deque
from collections.abc import Iterable
from typing import Any, Self, TypeVar

from ...runtime.disk.private_folder import hold, is_left
from .openat2 import rename_exclusive
from .resolver import DIRECTORY_FLAGS, Names, OpenDirectory, Resolver

FILE_MODE = 0o644
"""Masked by the umask; never writable for others, even under umask 000."""
TEMPORARY_PREFIX = ".callboard-"
TEMPORARY_SUFFIX = ".tmp"
_OWN_NAME = re.compile(r"\.callboard-(?:[0-9a-f]{16}|change_[0-9a-z]+)\.tmp")
"""A person's file that only looks like one is theirs."""
MAX_SWEPT_ENTRIES = 2_000
"""Entries that the sweep looks at, breadth first: opening a workspace must take milliseconds."""

Done = TypeVar("Done")

_NO_EXCLUSIVE_RENAME = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


class TemporaryFile:
    """A complete, flushed file under an unguessable name; `with` removes it unless published.

    `status` is what `write_temporary` found of it; its lock ends with the block.
    """

    def __init__(self, parent: OpenDirectory, name: str, fd: int | None = None) -> None:
        self.name = name
        self.status: os.stat_result | None = None
        self._fd = fd
        self.is_published = False
        self._parent = parent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self.is_published:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.name, dir_fd=self._parent.fd)
        finally:
            fd, self._fd = self._fd, None
            if fd is not None:
                os.close(fd)


def write_temporary(
    parent: OpenDirectory,
    data: bytes,
    mode: int | None,
    name: str | None = None,
    *,
    owner: os.stat_result | None = None,
) -> TemporaryFile:
    """Write the bytes to a temporary file in the directory they are for.

    `mode` are the permission bits of the file that it replaces, or `None` for a new one. Without a name it
    gets one that nobody can guess. What root writes belongs to the owner of the file that it replaces
    (`owner`), else of the directory, unless it is private.
    """
    name = name or f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, FILE_MODE, dir_fd=parent.fd)
    hold(fd)
    temporary = TemporaryFile(parent, name, fd)
    try:
        if owner is None and (mode is None or mode & stat.S_IROTH):
            owner = os.fstat(parent.fd)
        _give(fd, owner)
        if mode is not None:
            os.fchmod(fd, mode)
        _write_all(fd, data)
        os.fsync(fd)
        temporary.status = os.fstat(fd)
    except BaseException:
        temporary.__exit__()
        raise
    return temporary


def make_folder(resolver: Resolver, parent: OpenDirectory, name: str, mode: int) -> None:
    """Make a folder; one that root makes belongs to the owner of the folder it is in."""
    os.mkdir(name, mode, dir_fd=parent.fd)
    if os.geteuid() != 0 or (owner := os.fstat(parent.fd)).st_uid == 0:
        return
    # That owner may have put another one there by now: an empty one in a folder of theirs gives them nothing.
    fd = resolver.open_at(parent, name, DIRECTORY_FLAGS)
    try:
        if os.fstat(fd).st_uid == 0 and not os.listdir(fd):
            _give(fd, owner)
    finally:
        os.close(fd)


def _give(fd: int, owner: os.stat_result | None) -> None:
    """As root, let something new belong to an ordinary user, who else could not work on it."""
    if owner is not None and owner.st_uid and os.geteuid() == 0:
        with contextlib.suppress(OSError):  # a share on which root is nobody
            os.fchown(fd, owner.st_uid, owner.st_gid)


def publish(parent: OpenDirectory, temporary: TemporaryFile, name: str, *, replace: bool) -> None:
    """Give the file its name; without `replace`, EEXIST when the name is taken. The caller flushes the folder."""
    if replace:
        os.rename(temporary.name, name, src_dir_fd=parent.fd, dst_dir_fd=parent.fd)
    else:
        rename_to_free_name(parent.fd, temporary.name, parent.fd, name)
    temporary.is_published = True


class Unflushed(Exception):
    """Raised when a change has happened, with `done` as its outcome, and a power cut now may take it back."""

    def __init__(self, done: Any, error: OSError) -> None:
        super().__init__(
            f"the folder could not be flushed ({os.strerror(error.errno or 0)}): "
            "the change is there, and a power cut may take it back"
        )
        self.done = done


def flushed(done: Done, *fds: int) -> Done:
    """Flush the folders of a change that has happened; return its outcome, or raise `Unflushed`."""
    try:
        for fd in fds:
            os.fsync(fd)
    except OSError as error:
        raise Unflushed(done, error) from error
    return done


def append_to(fd: int, data: bytes) -> os.stat_result:
    """Append to an open file, durably; on an error, cut off what was appended in part."""
    before = os.fstat(fd).st_size
    try:
        _write_all(fd, data)
        os.fsync(fd)
        return os.fstat(fd)
    except OSError:
        os.ftruncate(fd, before)
        raise


def rename_to_free_name(source_fd: int, source: str, target_fd: int, target: str) -> None:
    """Rename to a free name; EEXIST when it is taken, also by a racing writer."""
    try:
        rename_exclusive(source_fd, source, target_fd, target)
    except OSError as error:
        if error.errno not in _NO_EXCLUSIVE_RENAME:
            raise
        # EINVAL also means "a directory into itself", which the steps below refuse likewise.
        _claim_and_rename(source_fd, source, target_fd, target)


def _claim_and_rename(source_fd: int, source: str, target_fd: int, target: str) -> None:
    status = os.stat(source, dir_fd=source_fd, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        # An empty directory claims the name (mkdir is exclusive) and is what rename may replace.
        os.mkdir(target, 0o700, dir_fd=target_fd)
        try:
            os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)
        except OSError:
            os.rmdir(target, dir_fd=target_fd)
            raise
        return
    os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False)
    try:
        os.unlink(source, dir_fd=source_fd)
    except OSError:
        os.unlink(target, dir_fd=target_fd)
        raise


def sweep_leftovers(resolver: Resolver, known: Iterable[Names] = ()) -> list[str]:
    """Remove temporary files that dead processes left; return their paths.

    They are looked for in the `known` folders, and in the first entries of all.
    """
    pending: deque[Names] = deque(known)
    held = len(pending)
    pending.append(())
    swept: list[str] = []
    seen = 0
    while pending and seen < MAX_SWEPT_ENTRIES:
        names = pending.popleft()
        held -= 1
        # A folder that can't be read or cleared does not make the workspace unusable.
        with contextlib.suppress(OSError), resolver.open_directory(names, follow=False) as here:
            with os.scandir(here.fd) as entries:
                for entry in entries:
                    seen += held < 0
                    if seen > MAX_SWEPT_ENTRIES:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        if held < 0:
                            pending.append((*names, entry.name))
                    elif _OWN_NAME.fullmatch(entry.name) and is_left(entry.name, here.fd):
                        os.unlink(entry.name, dir_fd=here.fd)
                        swept.append("/".join((*names, entry.name)))
    return swept


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
