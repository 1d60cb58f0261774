"""A session's folder: everything that file tools touch lies below its root.

Three guarantees: no path, link or race leads outside (`resolver`); what configures callboard or git
can't be written (`paths`, `protected_places`); a written file is complete and durable, or unchanged
(`atomic_write`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Self

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import ValidationError
from ...runtime.handles import FileInfo
from ...runtime.redaction import redacting_logger
from ..failures import invalid
from .atomic_write import (
    TemporaryFile,
    append_to,
    flushed,
    make_folder,
    publish,
    rename_to_free_name,
    sweep_leftovers,
    write_temporary,
)
from .paths import (
    BARE_REPOSITORY,
    check_new_name,
    is_inside_git,
    is_protected,
    is_steering,
    not_allowed,
    root_names,
    shown,
)
from .protected_places import GuardedPlaces, is_stub, own_code_around
from .reader import READ_FLAGS, FileReader, OpenRoot, failure, failures, info_of, lstat, regular
from .resolver import Names, OpenDirectory, Resolver, open_real, open_resolver
from .roots import check_workspace

DIRECTORY_MODE = 0o755
"""Masked by the umask; never writable for others, even under umask 000."""
MAX_REMOVED_ENTRIES = 10_000
"""One call of a model must not clear a disk; a larger tree is removed part by part."""

MAX_NAMED_LEFTOVERS = 5
"""In the log; a crash leaves one or two."""

logger = redacting_logger(__name__)

Target = contextlib.AbstractContextManager[tuple[OpenDirectory, str]]
"""A name in an open directory, which the `with` block closes."""


class Workspace(FileReader):
    """A `WritableFiles` below an open folder, whose real path is `place`. Close it, or use `with`."""

    def __init__(self, root: OpenRoot, place: str) -> None:
        super().__init__(root)
        self.place = place
        self._guarded = GuardedPlaces(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Refuse calls from now on, also those of views; running calls may end. Idempotent."""
        self.root.is_closed = True

    def is_at(self, path: str) -> bool:
        """Return whether the path still leads here: the folder may have been replaced."""
        try:
            found = os.stat(path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self.identity

    @property
    def identity(self) -> tuple[int, int]:
        """The device and the inode of the folder that was opened."""
        own = os.fstat(self.resolver.root_fd)
        return own.st_dev, own.st_ino

    def read_only(self) -> FileReader:
        """Return a view of the same workspace that has no method to write."""
        return FileReader(self.root)

    def write(self, path: str, data: bytes, *, replace: bool, create_dirs: bool) -> FileInfo:
        """See `WritableFiles`."""
        with failures(path), self._open_target(path, create_dirs) as (parent, name):
            present = _present_file(parent, name, path)
            if present is not None and not replace:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            return _put(parent, name, data, present, replace)

    def append(self, path: str, data: bytes, *, create_dirs: bool) -> FileInfo:
        """See `WritableFiles`."""
        with failures(path), self._open_target(path, create_dirs) as (parent, name):
            if _present_file(parent, name, path) is None:
                try:
                    return _put(parent, name, data, None, replace=False)
                except FileExistsError:
                    _present_file(parent, name, path)  # it appeared meanwhile: append to it
            flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
            fd = self.resolver.open_at(parent, name, flags)
            try:
                _check_sole_name(regular(fd, path), path)
                return info_of((*parent.names, name), append_to(fd, data))
            finally:
                os.close(fd)

    def replace_unchanged(self, path: str, data: bytes, *, digest: bytes) -> FileInfo:
        """See `WritableFiles`."""
        with failures(path), self._open_target(path, create_dirs=False) as (parent, name):
            present = _present_file(parent, name, path)
            if present is None:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))

            with write_temporary(parent, data, _kept_mode(present), owner=present) as temporary:
                # Checked last, to see what another program wrote during our own write too.
                if self._digest(parent, name, path) != digest:
                    raise ToolFailure(
                        ErrorType.EDIT_CONFLICT,
                        f"{shown(path)}: something else changed it meanwhile; nothing was "
                        "written. Read it again and repeat the edit.",
                    )
                return _published(parent, temporary, name, replace=True)

    def move(self, source: str, destination: str, *, overwrite: bool) -> None:
        """See `WritableFiles`."""
        with failures(source), self._open_parent(source) as (source_parent, source_name):
            status = lstat(source_parent, source_name)
            _check_ordinary(status)
            with (
                failures(destination),
                self._open_parent(destination) as (target_parent, target_name),
            ):
                check_new_name(destination)
                target = (*target_parent.names, target_name)
                if stat.S_ISDIR(status.st_mode):
                    # A folder can bring hooks and config along.
                    if self._guarded.leads_to(target) or is_inside_git(target):
                        raise not_allowed(destination)
                    start = (*source_parent.names, source_name)
                    if target[: len(start)] == start:
                        why = "a directory can't be moved to itself or into itself."
                        raise invalid("to", f"{shown(destination)}: {why}")
                old, new = source_parent.fd, target_parent.fd
                if overwrite:
                    with contextlib.suppress(FileNotFoundError):
                        _check_ordinary(lstat(target_parent, target_name))
                    os.rename(source_name, target_name, src_dir_fd=old, dst_dir_fd=new)
                else:
                    rename_to_free_name(old, source_name, new, target_name)
                flushed(None, new, old)

    def delete(self, path: str, *, recursive: bool) -> tuple[str, ...]:
        """See `WritableFiles`."""
        with failures(path), self._open_parent(path) as (parent, name):
            names = (*parent.names, name)
            if not stat.S_ISDIR(lstat(parent, name).st_mode):
                os.unlink(name, dir_fd=parent.fd)
                gone: tuple[Names, ...] = (names,)
            elif recursive:
                gone = remove_directory(self.resolver, parent, name, path)
            else:
                os.rmdir(name, dir_fd=parent.fd)
                gone = (names,)
            return flushed(tuple("/".join(removed) for removed in gone), parent.fd)

    def _open_target(self, path: str, create_dirs: bool) -> Target:
        """Return where to write a file: a link at the end stands for the file that it names."""
        check_new_name(path)
        names = self._unprotected(path)
        # What is missing is new; a link to nothing shows at the next look at its name.
        with contextlib.suppress(FileNotFoundError):
            names = self.resolver.real_names(names)
        if not names:
            raise failure(IsADirectoryError(errno.EISDIR, ""), path)
        if create_dirs:
            self._make_directories(names[:-1], path)
        return self._target(names, path)

    def _open_parent(self, path: str) -> Target:
        """Return the entry to move or remove: a link at the end stands for itself."""
        names = self._unprotected(path)
        if not names or self._guarded.leads_to(names):
            raise not_allowed(path)
        return self._target(names, path)

    def _unprotected(self, path: str) -> Names:
        """Return the names as written, links unresolved; refuse protected ones.

        A `.git` that is a link makes a repository under that name too. And no folder is made on
        the way to a path that is refused in the end.
        """
        names = self.root.names(path)
        if self._is_protected(names):
            raise not_allowed(path)
        return names

    def _is_protected(self, names: Names) -> bool:
        return is_protected(names) or self._guarded.covers(names)

    @contextlib.contextmanager
    def _target(self, names: Names, path: str) -> Generator[tuple[OpenDirectory, str]]:
        with self.resolver.open_directory(names[:-1]) as parent:
            if self._is_protected((*parent.names, names[-1])):
                raise not_allowed(path)
            yield parent, names[-1]

    def _make_directories(self, names: Names, path: str) -> None:
        try:
            self.resolver.open_directory(names).__exit__()
        except FileNotFoundError:
            self._make_directories(names[:-1], path)
        else:
            return
        with self.resolver.open_directory(names[:-1]) as parent:
            if self._is_protected((*parent.names, names[-1])):
                raise not_allowed(path)
            try:
                make_folder(self.resolver, parent, names[-1], DIRECTORY_MODE)
                os.fsync(parent.fd)
            except FileExistsError:
                pass  # a parallel write was first; opening what is there decides

    def _digest(self, parent: OpenDirectory, name: str, path: str) -> bytes:
        fd = self.resolver.open_at(parent, name, READ_FLAGS)
        with open(fd, "rb") as file:
            _check_sole_name(regular(fd, path), path)
            return hashlib.file_digest(file, "sha256").digest()


def open_workspace(
    path: str | os.PathLike[str],
    *,
    forbidden: Sequence[Path] | None = None,
    unfinished: Iterable[Names] = (),
    is_real: bool = False,
    use_openat2: bool = True,
) -> Workspace:
    """Open a folder as a workspace, and remove what a crash left of unfinished writes.

    `unfinished` are folders where that is known to be; elsewhere only the first entries are looked at.

    With `is_real`, links of the path have been followed and where it leads was looked at: a link that has the place of one
    of its names since then is refused, and so nothing leads elsewhere than was looked at.

    For that of a session `forbidden` are callboard's own data and configuration: it neither is nor holds these, and is
    in no closed place (`check_workspace`), wherever links lead by now. Raises `ValidationError`, which says why the
    folder can't be a workspace and what to do.
    """
    root = os.path.abspath(path)
    real = os.path.realpath(root)
    if is_real and real != root:
        raise _unfit(root, f"a link in it leads to {shown(real)} since it was looked at")
    _check_root(root, real)
    if forbidden is not None:
        check_workspace(real, forbidden)
    try:
        flags = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC
        root_fd = open_real(real, flags, use_openat2=use_openat2)
    except OSError as error:
        raise _unfit(root, f"it can't be opened ({os.strerror(error.errno or 0)})") from error
    try:
        resolver = open_resolver(root_fd, use_openat2=use_openat2)
    except BaseException:
        os.close(root_fd)
        raise
    if swept := sweep_leftovers(resolver, unfinished):
        named = ", ".join(map(shown, swept[:MAX_NAMED_LEFTOVERS]))
        logger.warning("%s: removed %d unfinished writes: %s", shown(real), len(swept), named)
    return Workspace(OpenRoot(root_fd, resolver, (root_names(root), root_names(real))), real)


def _check_root(root: str, real: str) -> None:
    if not os.path.exists(real):
        raise _unfit(root, "it does not exist; make it first")
    if not os.path.isdir(real):
        raise _unfit(root, "it is not a folder")
    if real == "/":
        raise _unfit(root, "it is the whole file system")
    if real == os.path.realpath(os.path.expanduser("~")):
        raise _unfit(root, "it is your whole home folder")
    parts = [os.path.join(real, name) for name in BARE_REPOSITORY]
    if all(os.path.lexists(path) and not is_stub(path) for path in parts):
        raise _unfit(root, "it is a git repository's own folder, whose settings run programs")
    if (code := own_code_around(real)) is not None:
        raise _unfit(root, f"callboard itself runs from there ({code})")


def _unfit(root: str, why: str) -> ValidationError:
    return ValidationError(
        f"{shown(root)} can't be the workspace: {why}. Choose a project's own folder.",
        field="workspace",
    )


def _present_file(parent: OpenDirectory, name: str, path: str) -> os.stat_result | None:
    try:
        status = lstat(parent, name)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        # a link to nothing: every other link was followed
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    _check_ordinary(status)
    _check_sole_name(status, path)
    return status


def _check_ordinary(status: os.stat_result) -> None:
    """Raise `OSError` for a FIFO, a socket or a device: only its name can be removed."""
    mode = status.st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))


def _check_sole_name(status: os.stat_result, path: str) -> None:
    if status.st_nlink > 1:
        raise ToolFailure(
            ErrorType.ACCESS_DENIED,
            f"{shown(path)}: the file has {status.st_nlink} names (hard links), and another one "
            "may lie outside the workspace; it is not written. Write to a new name instead.",
        )


def _kept_mode(present: os.stat_result | None) -> int | None:
    return None if present is None else present.st_mode & 0o777


def _put(
    parent: OpenDirectory, name: str, data: bytes, present: os.stat_result | None, replace: bool
) -> FileInfo:
    with write_temporary(parent, data, _kept_mode(present), owner=present) as temporary:
        return _published(parent, temporary, name, replace=replace)


def _published(
    parent: OpenDirectory, temporary: TemporaryFile, name: str, *, replace: bool
) -> FileInfo:
    assert temporary.status is not None
    # Its facts were taken before: nothing that fails behind the rename makes it unhappen.
    info = info_of((*parent.names, name), temporary.status)
    publish(parent, temporary, name, replace=replace)
    return flushed(info, parent.fd)


# ── removing a directory ─────────────────────────────────────────────────────────────────────────
# Not `runtime.disk.tree_removal`, which makes everything removable: it lifts the owner's bans, and
# moves what lies deep. In a workspace a ban of its owner holds, and a removal that fails in the
# middle must leave what remains where it was.


def remove_directory(
    resolver: Resolver, parent: OpenDirectory, name: str, path: str
) -> tuple[Names, ...]:
    """Remove a directory and what it holds; return the names of all that is gone.

    Nothing is removed when a protected name lies in it, or when it holds too much. Every directory
    is opened by its real names, with no link followed and no mount point crossed: a link that is
    put there meanwhile stops the removal instead of redirecting it. So does a new entry.
    """
    top = (*parent.names, name)
    entries = tree_below(resolver, top)
    for inner in entries:
        if is_steering(inner):
            raise not_allowed("/".join(inner))
    if len(entries) > MAX_REMOVED_ENTRIES:
        raise ToolFailure(
            ErrorType.NOT_EMPTY,
            f"{shown(path)}: it holds more than {MAX_REMOVED_ENTRIES} entries; nothing was removed. "
            "Delete its folders one by one.",
        )
    for folder, inside in groupby(entries, key=itemgetter(slice(-1))):
        with resolver.open_directory(folder, follow=False) as directory:
            for *_, last in inside:
                with contextlib.suppress(FileNotFoundError):  # somebody else removed it
                    if stat.S_ISDIR(lstat(directory, last).st_mode):
                        os.rmdir(last, dir_fd=directory.fd)
                    else:
                        os.unlink(last, dir_fd=directory.fd)
    os.rmdir(name, dir_fd=parent.fd)
    return (*sorted(entries), top)


def tree_below(resolver: Resolver, top: Names) -> list[Names]:
    """Return what a directory holds at any depth, the deepest first; no link is followed.

    A tree that is too large to be removed is cut, one entry past the bound.
    """
    found: list[Names] = []
    pending = deque([top])
    while pending and len(found) <= MAX_REMOVED_ENTRIES:
        names = pending.popleft()
        with (
            resolver.open_directory(names, follow=False) as directory,
            os.scandir(directory.fd) as entries,
        ):
            for entry in entries:
                found.append((*names, entry.name))
                if len(found) > MAX_REMOVED_ENTRIES:
                    break
                if entry.is_dir(follow_symlinks=False):
                    pending.append(found[-1])
    found.sort(key=lambda names: (-len(names), names))
    return found
