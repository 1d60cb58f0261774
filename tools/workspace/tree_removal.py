"""Removing a whole directory without ever leaving the workspace.

Every directory is opened by its real names with no link followed and no mount point crossed, so
that a link that is swapped in meanwhile stops the removal instead of redirecting it.
"""

from __future__ import annotations

import os
from collections import deque

from ...runtime.definitions import ErrorType, ToolFailure
from .paths import is_steering, not_allowed, shown
from .resolver import Names, OpenDirectory, Resolver

MAX_REMOVED_ENTRIES = 10_000
"""One call of a model must not clear a disk; a larger tree is removed part by part."""


def remove_directory(
    resolver: Resolver, parent: OpenDirectory, name: str, path: str
) -> tuple[Names, ...]:
    """Removes a directory and what it holds; gives the names of all that is gone.

    Nothing is removed when a protected name lies in it or when it holds too much.
    """
    top = (*parent.names, name)
    directories, entries = _survey(resolver, top, path)
    for names in reversed(directories):
        with resolver.open_directory(names, follow=False) as directory:
            _empty(directory)
    os.rmdir(name, dir_fd=parent.fd)
    return (*sorted(entries), top)


def _survey(resolver: Resolver, top: Names, path: str) -> tuple[list[Names], list[Names]]:
    directories: list[Names] = []
    entries: list[Names] = []
    pending = deque([top])
    while pending:
        names = pending.popleft()
        directories.append(names)
        with (
            resolver.open_directory(names, follow=False) as directory,
            os.scandir(directory.fd) as found,
        ):
            for entry in found:
                inner = (*names, entry.name)
                if is_steering(inner):
                    raise not_allowed("/".join(inner))
                entries.append(inner)
                if len(entries) > MAX_REMOVED_ENTRIES:
                    raise _too_much(path)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(inner)
    return directories, entries


def _empty(directory: OpenDirectory) -> None:
    with os.scandir(directory.fd) as found:
        entries = list(found)  # First: what a scan shows of entries that go meanwhile is open.
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            os.rmdir(entry.name, dir_fd=directory.fd)
        else:
            os.unlink(entry.name, dir_fd=directory.fd)


def _too_much(path: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.NOT_EMPTY,
        f"{shown(path)}: it holds more than {MAX_REMOVED_ENTRIES} entries; nothing was removed. "
        "Delete its folders one by one.",
    )
