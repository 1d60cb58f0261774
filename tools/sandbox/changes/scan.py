"""Two looks at a workspace: what a program changed, for people; and what it may have written, for taint.

`scan` lists names, sizes and times before and behind a program, and `changed` compares two lists. No file
is read. A small command in a large workspace must not become slower for it, so beyond a bound nothing is
reported but that. Folders that tools make for themselves are not entered.

`written_since` must miss nothing, since its answer carries the marks of untrusted content: it enters every
folder and has the larger bound, and beyond that everything counts as written. It goes by the time of an
inode's last change (ctime), which the kernel alone sets. What moves together with a folder keeps its own
time, so folders in which entries came or went are reported as well. That is why the two stay two looks:
the first is bounded by what nobody notices, the second by what is safe to say.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

import msgspec

from ....runtime.definitions import ErrorType, ToolFailure
from ....runtime.processes import ChangedFiles, Written
from ....runtime.taint.writers import is_since
from ...workspace.paths import shown
from ...workspace.protected_places import Stubs
from ...workspace.resolver import Names, OpenDirectory, Resolver, open_resolver

MAX_ENTRIES = 20_000
"""As many as a large project has beside what is not looked into, on a fast machine."""
MAX_CPU_SECONDS = 0.08
"""CPU time of one scan; after a longer first one there is no second. A sandbox takes as long to start."""
MAX_SECONDS = 2.0
"""The time for one scan, on a slow disk."""
MAX_NAMED = 50
"""Paths of each kind in a result, which says how many more there are."""

MAX_WRITTEN_ENTRIES = 100_000
"""Takes half a second; in a larger workspace everything counts as written."""
MAX_WRITTEN = 2_000
"""More are not listed one by one."""
MAX_LOOKED_AT = 1_000_000
"""Entries in which files are looked for that lend root's rights, once in a workspace: some seconds."""
MAX_LENDING = 64
"""Such files; a system's folders hold some twenty."""

UNSEEN = frozenset(
    {
        ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", "target",
    }
)  # fmt: skip
"""Folders of tools, which people do not look at: histories, environments, caches, builds."""

Facts = tuple[int, ...]
"""The mode of a folder; mode, size, inode and times of anything else. Names of folders end in `/`."""


class Scan(msgspec.Struct, frozen=True):
    """The entries of a workspace; none with `why_not`. `closed` folders could not be entered."""

    entries: dict[str, Facts]
    why_not: str = ""
    closed: frozenset[str] = frozenset()


class Differences(msgspec.Struct, frozen=True):
    """Names that are different now, sorted."""

    created: tuple[str, ...]
    modified: tuple[str, ...]
    deleted: tuple[str, ...]


def scan(workspace: str) -> Scan:
    """List what is there, following no link and not leaving the file system. Blocks on the disk."""
    try:
        root = os.open(workspace, getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return Scan({}, "the workspace could not be looked at")
    try:
        return _Scanner(open_resolver(root), Stubs(workspace)).run()
    except OSError:
        return Scan({}, "the workspace could not be looked at")
    finally:
        os.close(root)


def changed(before: Scan, after: Scan) -> ChangedFiles:
    """Return what is different now, for a result: a bounded number of paths."""
    if why_not := before.why_not or after.why_not:
        return ChangedFiles(why_not=why_not)
    found = differences(before, after)
    kinds = [
        [shown(path) for path in kind] for kind in (found.created, found.modified, found.deleted)
    ]
    # Folders that have a `.git` now: git in the folder above may run what their settings name.
    ends = (path.rstrip("/").rpartition("/") for path in found.created)
    repositories = [shown(folder) for folder, _, name in ends if name == ".git" and folder]
    return ChangedFiles(
        created=tuple(kinds[0][:MAX_NAMED]),
        modified=tuple(kinds[1][:MAX_NAMED]),
        deleted=tuple(kinds[2][:MAX_NAMED]),
        more=sum(max(0, len(kind) - MAX_NAMED) for kind in kinds),
        repositories=tuple(repositories[:MAX_NAMED]),
        sizes={
            shown(path): facts[1]
            for path in (*found.created[:MAX_NAMED], *found.modified[:MAX_NAMED])
            if stat.S_ISREG((facts := after.entries[path])[0])
        },
    )


def differences(before: Scan, after: Scan) -> Differences:
    """Return all that is different now."""
    old, new = before.entries, after.entries
    return Differences(
        created=tuple(sorted(new.keys() - old.keys())),
        modified=tuple(
            sorted(path for path, facts in new.items() if old.get(path, facts) != facts)
        ),
        deleted=tuple(sorted(old.keys() - new.keys())),
    )


class _Scanner:
    def __init__(self, resolver: Resolver, stubs: Stubs) -> None:
        self._resolver = resolver
        self._stubs = stubs
        self._entries: dict[str, Facts] = {}
        self._closed: set[str] = set()
        self._cpu_end = time.thread_time() + MAX_CPU_SECONDS
        self._end = time.monotonic() + MAX_SECONDS

    def run(self) -> Scan:
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
                return Scan({}, f"the workspace holds more than {MAX_ENTRIES} entries")
            if time.thread_time() > self._cpu_end or time.monotonic() > self._end:
                return Scan({}, "looking at the workspace took too long")
        return Scan(self._entries, closed=frozenset(self._closed))

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
                is_closed = not status.st_mode & 0o222
                if is_closed and self._stubs.hides(path, entry.name, directory.fd):
                    continue  # of another sandbox, perhaps of another runtime
                if not stat.S_ISDIR(status.st_mode):
                    self._entries[path] = facts_of(status)
                elif entry.name in UNSEEN and entry.name != ".git":
                    self._entries[f"{path}/"] = facts_of(status)
                else:
                    # Its own times change with its entries, which are scanned themselves; those of a
                    # repository's folder change with what the sandbox puts over its hooks.
                    self._entries[f"{path}/"] = (status.st_mode,)
                    if entry.name != ".git":
                        inner.append((*directory.names, entry.name))
        return inner


def facts_of(status: os.stat_result) -> Facts:
    """Return what tells that a file is still the same."""
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_mode, status.st_size, status.st_ino, *times


def written_since(workspace: str, since_ns: int) -> Written | None:
    """Return what may have been written since; `None` when there is too much to say.

    A repository's own folder is one entry, written when anything in it may have been.
    """
    files: list[str] = []
    newer: list[str] = []
    folders = [""]
    stubs = Stubs(workspace)
    left = MAX_WRITTEN_ENTRIES
    while folders:
        above = folders.pop()
        try:
            entries = list(os.scandir(os.path.join(workspace, above)))
        except OSError:
            continue  # it is gone, or nobody here may look
        left -= len(entries)
        for entry in entries:
            path = f"{above}/{entry.name}" if above else entry.name
            is_newer = _is_newer(entry, since_ns)
            if is_newer and not _mode(entry) & 0o222 and stubs.hides(path, entry.path):
                continue
            if entry.name == ".git":
                if is_newer or _holds_newer(entry, since_ns):
                    files.append(path)
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
                if is_newer:
                    newer.append(path)
            elif is_newer:
                files.append(path)
        if left < 0 or len(files) + len(newer) > MAX_WRITTEN:
            return None
    return Written(files=tuple(files), folders=tuple(newer))


def lending_files(workspace: str) -> tuple[str, ...]:
    """Return the setuid and setgid files of root in a workspace, and those with capabilities; blocks on the disk.

    A program that runs as root could write them through shared memory, by which the kernel does not take these rights
    from a file. Raises `ToolFailure` when there is too much to look at, or too many are found.
    """
    found: list[str] = []
    folders, left = [workspace], MAX_LOOKED_AT
    while folders and left >= 0 and len(found) <= MAX_LENDING:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif _lends(entry):
                    found.append(entry.path)
    if left < 0 or len(found) > MAX_LENDING:
        what = (
            f"more than {MAX_LENDING} files lend root's rights"
            if left >= 0
            else "there is too much to look at"
        )
        raise ToolFailure(
            ErrorType.SANDBOX_UNAVAILABLE,
            f"Nothing was run: programs run as root here, and in {shown(workspace)} {what}, so that setuid files can't "
            "be kept from being written. Give the workspace to an ordinary user (chown -R), or work in another folder.",
            reason="files that lend root's rights",
        )
    return tuple(found)


def _lends(entry: os.DirEntry[str]) -> bool:
    mode = _mode(entry)
    if not stat.S_ISREG(mode) or not mode & 0o111:
        return False
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return True
    try:
        return bool(os.getxattr(entry.path, "security.capability", follow_symlinks=False))
    except OSError:
        return False  # there is none


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return 0


def _holds_newer(entry: os.DirEntry[str], since_ns: int) -> bool:
    try:
        inside = list(os.scandir(entry.path))
    except OSError:
        return False  # a file, as of a worktree
    return any(_is_newer(each, since_ns) for each in inside)


def _is_newer(entry: os.DirEntry[str], since_ns: int) -> bool:
    try:
        changed = entry.stat(follow_symlinks=False).st_ctime_ns
    except OSError:
        return False  # it is gone
    return is_since(changed, since_ns)
