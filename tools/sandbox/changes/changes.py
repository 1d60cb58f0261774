"""What a program changed in its workspace, by what the folders say before and behind it.

Sizes and times tell, no file is read. It must cost a small command in a large workspace nothing that
anybody notices: beyond a bound nothing is told but that. What tools make for themselves is not looked
into; whether it changed at all is told of the folder.
"""

from __future__ import annotations

import os
import stat
import time

import msgspec

from ....runtime.processes import ChangedFiles
from ...workspace.paths import shown
from ...workspace.resolver import Names, OpenDirectory, Resolver, open_resolver

MAX_ENTRIES = 20_000
"""As many as a large project has beside what is not looked into, on a fast machine."""
MAX_CPU_SECONDS = 0.08
"""For one look; where the first one ends by that, there is no second. As long as a sandbox takes to
start."""
MAX_SECONDS = 2.0
"""For one look, on a disk that has to be waited for."""
MAX_NAMED = 50
"""Of each kind, in a result; how many more there are is told."""

UNSEEN = frozenset(
    {
        ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", "target",
    }
)  # fmt: skip
"""Folders of tools: a history, an environment, a cache, a build. People look at none of them."""

Facts = tuple[int, ...]
"""Of a folder its mode; of what else there is mode, size, inode and times. A name of a folder ends in
`/`."""


class Look(msgspec.Struct, frozen=True):
    """What was where; with `why_not`, too much to say. What is in `closed` folders is not known."""

    entries: dict[str, Facts]
    why_not: str = ""
    closed: frozenset[str] = frozenset()


class Differences(msgspec.Struct, frozen=True):
    """What is other than before: names, sorted."""

    created: tuple[str, ...]
    modified: tuple[str, ...]
    deleted: tuple[str, ...]


def look(workspace: str) -> Look:
    """What there is, without following a link or leaving the file system. Blocks on the disk."""
    try:
        root = os.open(workspace, getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return Look({}, "the workspace could not be looked at")
    try:
        return _Looking(open_resolver(root)).run()
    finally:
        os.close(root)


def changed(before: Look, after: Look) -> ChangedFiles:
    """What is other now."""
    if why_not := before.why_not or after.why_not:
        return ChangedFiles(why_not=why_not)
    found = differences(before, after)
    kinds = [
        [shown(path) for path in kind] for kind in (found.created, found.modified, found.deleted)
    ]
    return ChangedFiles(
        created=tuple(kinds[0][:MAX_NAMED]),
        modified=tuple(kinds[1][:MAX_NAMED]),
        deleted=tuple(kinds[2][:MAX_NAMED]),
        more=sum(max(0, len(kind) - MAX_NAMED) for kind in kinds),
        repositories=_repositories(found.created)[:MAX_NAMED],
    )


def _repositories(created: tuple[str, ...]) -> tuple[str, ...]:
    """The folders that have a `.git` now; git in the folder above may run what that one names."""
    found = (path.rstrip("/").rpartition("/") for path in created)
    return tuple(shown(folder) for folder, _, name in found if name == ".git" and folder)


def differences(before: Look, after: Look) -> Differences:
    """All that is other now."""
    old, new = before.entries, after.entries
    return Differences(
        created=tuple(sorted(new.keys() - old.keys())),
        modified=tuple(
            sorted(path for path, facts in new.items() if old.get(path, facts) != facts)
        ),
        deleted=tuple(sorted(old.keys() - new.keys())),
    )


class _Looking:
    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._entries: dict[str, Facts] = {}
        self._closed: set[str] = set()
        self._cpu_end = time.thread_time() + MAX_CPU_SECONDS
        self._end = time.monotonic() + MAX_SECONDS

    def run(self) -> Look:
        pending: list[Names] = [()]
        while pending:
            names = pending.pop()
            try:
                with self._resolver.open_directory(names, follow=False) as directory:
                    pending += self._folder(directory)
            except OSError:
                self._closed.add("".join(f"{name}/" for name in names))
                continue  # gone, not ours to read, or another file system
            if len(self._entries) > MAX_ENTRIES:
                return Look({}, f"the workspace holds more than {MAX_ENTRIES} entries")
            if time.thread_time() > self._cpu_end or time.monotonic() > self._end:
                return Look({}, "looking at the workspace took too long")
        return Look(self._entries, closed=frozenset(self._closed))

    def _folder(self, directory: OpenDirectory) -> list[Names]:
        inner: list[Names] = []
        above = "".join(f"{name}/" for name in directory.names)
        with os.scandir(directory.fd) as entries:
            for entry in entries:
                if len(self._entries) > MAX_ENTRIES:
                    break
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                path = above + entry.name
                if not stat.S_ISDIR(status.st_mode):
                    self._entries[path] = facts_of(status)
                elif entry.name in UNSEEN and entry.name != ".git":
                    self._entries[f"{path}/"] = facts_of(status)
                else:
                    # Its own times tell of what is in it, which is looked at by itself; those of a
                    # repository's folder change with what the sandbox puts over its hooks.
                    self._entries[f"{path}/"] = (status.st_mode,)
                    if entry.name != ".git":
                        inner.append((*directory.names, entry.name))
        return inner


def facts_of(status: os.stat_result) -> Facts:
    """What tells that a file is still the same."""
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_mode, status.st_size, status.st_ino, *times
