"""Copies of what a repository's files hold, made before a program may change them.

Programs that run in a workspace one after another share its copies: each one's scan finds what has changed
since the last, by the same facts that show its own changes afterwards, and only that is copied. Copies lie
in a file without a name, which goes with the process; what a program changed moves from there into the log
of versions.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from threading import Lock
from weakref import finalize

import msgspec

from ....runtime.changes.file_versions import FileKind, FileState
from ....runtime.changes.version_log import CHUNK_BYTES
from ...files.file_facts import in_bytes
from ...workspace.reader import READ_FLAGS, FileReader
from ...workspace.resolver import OpenDirectory
from .git_files import GitFiles, tracked_files
from .scan import UNSEEN, Facts, Scan, facts_of

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Files that people write are smaller; copying larger ones would delay the program."""
MAX_TREE_BYTES = 64 * 1024 * 1024
"""Copies of one workspace: a large repository without its history. A runtime without a data folder has them in the
temporary folder, which is memory on many machines."""
MAX_TREES = 4
"""Workspaces whose copies are held at a time."""
MAX_CPU_SECONDS = 0.3
"""CPU time for one program: thousands of files. The rest of a larger repository is copied before later programs."""
MAX_SECONDS = 2.0
"""The same, on a slow disk."""
SETTLED_NS = 100_000_000
"""A file may change twice within one tick of the file system's clock and show the same times. No clock of
a file system that repositories lie on ticks more slowly than this."""

IGNORED = "git ignores it"
IN_TOOLS_FOLDER = "what tools make for themselves is not kept"
NOT_YET = "the repository is large, and not all of it was kept yet"
BEING_CHANGED = "it was being changed when the program began"

OpenAside = Callable[[], int]


class Aside:
    """A file without a name, closed when nobody uses it any more."""

    def __init__(self, fd: int) -> None:
        self.end = 0
        self._fd = fd
        finalize(self, os.close, fd)

    def add(self, source: int, size_bytes: int) -> int:
        """Copy up to so many bytes of a file; return where the copy begins."""
        begin = self.end
        while (taken := self.end - begin) < size_bytes:
            piece = os.pread(source, min(CHUNK_BYTES, size_bytes - taken), taken)
            if not piece:
                break
            self.end += os.pwrite(self._fd, piece, self.end)
        return begin

    def pieces(self, state: FileState) -> Iterator[bytes]:
        """Yield a content that was copied."""
        at, left = state.kept_at or 0, state.size_bytes
        while left and (piece := os.pread(self._fd, min(CHUNK_BYTES, left), at)):
            at, left = at + len(piece), left - len(piece)
            yield piece


class WorkspaceSnapshot(msgspec.Struct, frozen=True):
    """The files that a scan saw, as far as they were copied, and why others were not.

    `kept_at` of a state is a place in `aside`; `tracked` are the names in git's index.
    """

    aside: Aside
    states: dict[str, FileState]
    why: dict[str, str]
    tracked: frozenset[str]


class _Copy(msgspec.Struct, frozen=True):
    facts: Facts
    state: FileState
    is_settled: bool


class WorkspaceCopies:
    """The copies of one workspace, in files that `open_aside` opens; safe from any thread."""

    def __init__(self, open_aside: OpenAside) -> None:
        self._open_aside = open_aside
        self._lock = Lock()
        self._aside: Aside | None = None
        self._copies: dict[str, _Copy] = {}
        self._tracked: frozenset[str] = frozenset()
        self._index: Facts = ()

    def snapshot(self, files: FileReader, scan: Scan) -> WorkspaceSnapshot:
        """Copy what is there. Blocks on the disk; raises `OSError` when it can't begin."""
        with self._lock:
            aside = self._room()
            index = _index_facts(files)
            if index != self._index:
                self._tracked, self._index = tracked_files(files), index
            copying = _Copying(files, aside, self._copies, GitFiles(files, self._tracked))
            copying.run(scan)
            self._copies = copying.copies
            states = {path: copy.state for path, copy in copying.copies.items()}
            return WorkspaceSnapshot(aside, states, copying.why, self._tracked)

    def _room(self) -> Aside:
        """Return the file for copies; a new one when most of the old one is unused."""
        used = sum(copy.state.size_bytes for copy in self._copies.values())
        aside = self._aside
        if aside is None or (
            aside.end > MAX_TREE_BYTES // 2 and aside.end - used > MAX_TREE_BYTES // 8
        ):
            # A snapshot that is still in use keeps the old one open.
            aside = self._aside = Aside(self._open_aside())
            self._copies = {}
        return aside


class CopyCache:
    """The copies of the workspaces that were used last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._trees: dict[str, WorkspaceCopies] = {}

    def of(self, workspace: str, open_aside: OpenAside) -> WorkspaceCopies:
        """Return those of one workspace."""
        with self._lock:
            tree = self._trees.pop(workspace, None) or WorkspaceCopies(open_aside)
            self._trees[workspace] = tree
            if len(self._trees) > MAX_TREES:
                del self._trees[next(iter(self._trees))]
            return tree


class _Copying:
    def __init__(
        self, files: FileReader, aside: Aside, known: dict[str, _Copy], git: GitFiles
    ) -> None:
        self.copies: dict[str, _Copy] = {}
        self.why: dict[str, str] = {}
        self._files = files
        self._aside = aside
        self._known = known
        self._git = git
        self._cpu_end = time.thread_time() + MAX_CPU_SECONDS
        self._end = time.monotonic() + MAX_SECONDS

    def run(self, scan: Scan) -> None:
        folders: dict[str, list[tuple[str, Facts]]] = {}
        for path, facts in scan.entries.items():
            known = self._known.get(path)
            if known is not None and known.is_settled and known.facts == facts:
                self.copies[path] = known
            elif not path.endswith("/"):
                folders.setdefault(path.rpartition("/")[0], []).append((path, facts))
        for folder, entries in folders.items():
            self._folder(folder, entries)

    def _folder(self, folder: str, entries: list[tuple[str, Facts]]) -> None:
        names = tuple(folder.split("/")) if folder else ()
        try:
            with self._files.resolver.open_directory(names, follow=False) as directory:
                for path, facts in entries:
                    if why := self._entry(directory, path, facts):
                        self.why[path] = why
        except OSError:
            self.why.update((path, BEING_CHANGED) for path, _ in entries)

    def _entry(self, directory: OpenDirectory, path: str, facts: Facts) -> str:
        """Copy one entry, or return why not."""
        name = path.rpartition("/")[2]
        if why := self._why_not(path, facts):
            return why
        now = time.time_ns()
        try:
            if stat.S_ISLNK(facts[0]):
                target = os.fsencode(os.readlink(name, dir_fd=directory.fd))
                state = FileState(FileKind.SYMLINK, target=target)
                is_same = facts_of(os.lstat(name, dir_fd=directory.fd)) == facts
            else:
                state, is_same = self._file(directory, name, facts)
        except PermissionError:
            return "it can't be read"
        except OSError as error:
            return f"it could not be kept ({os.strerror(error.errno or 0)})"
        if not is_same:
            return BEING_CHANGED
        self.copies[path] = _Copy(facts, state, facts[-1] < now - SETTLED_NS)
        return ""

    def _file(self, directory: OpenDirectory, name: str, facts: Facts) -> tuple[FileState, bool]:
        mode, size = stat.S_IMODE(facts[0]), facts[1]
        fd = self._files.resolver.open_at(directory, name, READ_FLAGS)
        try:
            at = self._aside.add(fd, size)
            is_same = facts_of(os.fstat(fd)) == facts
        finally:
            os.close(fd)
        return FileState(FileKind.FILE, mode=mode, size_bytes=size, kept_at=at), is_same

    def _why_not(self, path: str, facts: Facts) -> str:
        mode, size = facts[:2]
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            return "it is a FIFO, a socket or a device"
        if not UNSEEN.isdisjoint(path.split("/")):
            return IN_TOOLS_FOLDER
        if time.thread_time() > self._cpu_end or time.monotonic() > self._end:
            return NOT_YET
        if self._git.ignores(path):
            return IGNORED
        if size > MAX_FILE_BYTES:
            most = in_bytes(MAX_FILE_BYTES)
            return f"its {in_bytes(size)} are more than is kept of what programs change ({most})"
        if self._aside.end + size > MAX_TREE_BYTES:
            return f"the repository is larger than what is kept of one ({in_bytes(MAX_TREE_BYTES)})"
        return ""


def _index_facts(files: FileReader) -> Facts:
    """Return what tells that git's index is still the same; nothing when there is none."""
    try:
        with files.resolver.open_directory((".git",), follow=False) as folder:
            facts = facts_of(os.lstat("index", dir_fd=folder.fd))
    except OSError:
        return ()
    return facts if facts[-1] < time.time_ns() - SETTLED_NS else (*facts, time.monotonic_ns())
