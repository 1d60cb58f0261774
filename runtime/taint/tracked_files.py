"""File handles that track taint: reading a marked file taints the call, a tainted call marks its files.

A writer marks a file before its first byte changes, and a reader looks for marks before and after it
reads. So whichever way two calls overlap, the reader finds the mark. File names, sizes and times
(`find`, `entries`) don't taint.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from ..changes.file_versions import KeepsVersions
from ..definitions import ErrorType, ToolFailure
from ..handles import FileContent, FileInfo, Listing, ReadableFiles, WritableFiles
from .marked_files import MarkedFiles, OpenLook

if TYPE_CHECKING:
    from .writers import Writer


class FileWatch:
    """What one call has read and changed; all its handles share it.

    Args:
        marks: The marked files of the runtime.
        workspace: The folder that the handles' paths are relative to.

    Attributes:
        read: Marked files that the call has read since `begin`, relative to the workspace.
        has_learned: Whether it may have learned anything of what was there: a content, a name, a size.
    """

    def __init__(self, marks: MarkedFiles, workspace: str) -> None:
        self.read: dict[str, None] = {}
        self.has_learned = False
        self._marks = marks
        self._workspace = workspace
        self._lock = Lock()
        self._is_over = False
        self._session_is_tainted: Callable[[], bool] = lambda: True
        self._folders: dict[str, bool] = {}
        self._marked: dict[str, None] = {}
        self._cleared: dict[str, None] = {}

    @property
    def is_needed(self) -> bool:
        """Whether any marks concern this workspace, or programs run whose writes are not marked yet."""
        marks = self._marks
        return (bool(marks) and marks.concern(self._root)) or marks.has_writers

    @property
    def is_tainted(self) -> bool:
        """Whether what the call writes may be untrusted content."""
        return bool(self.read) or self._session_is_tainted()

    def begin(self, is_tainted: Callable[[], bool]) -> None:
        """Begin the call. What was read before, for a preview, never reaches the model."""
        self.read.clear()
        self.has_learned = False
        self._session_is_tainted = is_tainted

    def end(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the paths that the call marked and cleared, and refuse later changes.

        An abandoned thread of the call may still run; its changes would not be recorded.
        """
        with self._lock:
            self._is_over = True
            # Other calls may have cleared or marked these paths since, and record that themselves.
            marked = [path for path in self._marked if self._marks.covers(path)]
            cleared = [path for path in self._cleared if not self._marks.below(path)]
            return tuple(marked), tuple(cleared)

    def note_read(self, path: str, *, was_marked: bool) -> None:
        """Note that a file's content was read."""
        if was_marked or self.is_marked(path) or self.is_foreign(path) or self._is_new(path):
            self.read[path] = None

    def _is_new(self, path: str) -> bool:
        marks = self._marks
        return marks.has_writers and marks.writers.wrote(os.path.join(self._place, path))

    def begin_program(self, since_ns: int) -> Writer:
        """Note that a program of the call begins, which may write until `end_program`."""
        above = self.folders_above_marks()
        return self._marks.writers.begin(
            self._place, self._root, since_ns, above, lambda: self.is_tainted
        )

    def open_row(self, session_id: str, since_ns: int) -> str:
        """Return what the table of marks has while a background program of a session runs: see `OpenLook`."""
        return OpenLook(self._root, session_id, since_ns).row

    def again(self, is_tainted: Callable[[], bool]) -> FileWatch:
        """Return a watch of the same workspace, for what happens behind the call."""
        watch = FileWatch(self._marks, self._workspace)
        watch.begin(is_tainted)
        return watch

    def end_program(self, writer: Writer) -> None:
        """Note that what a program wrote is marked."""
        self._marks.writers.end(writer)

    def note_clean(self, path: str) -> None:
        """Note that the whole of a file was written now, and not by a tainted session."""
        if self._marks.has_writers:
            self._marks.writers.clean(os.path.join(self._place, path))

    def note_typed(self) -> None:
        """Note that programs in the workspace may have heard from a tainted session."""
        self._marks.writers.taint(self._place)

    def note_meanwhile(self, since: int) -> None:
        """Note that a program of the call may have read what was marked, or written beside it, since a time."""
        self.note_all_read()
        if not self.read and self._marks.has_marked(self._root, since):
            self.read["."] = None

    def is_foreign(self, path: str) -> bool:
        """Whether strangers may have written a file, by where it came from; the path has no links."""
        return self._marks.origins.is_foreign(os.path.join(self._place, path), self._folders)

    def leaves(self, source: str, destination: str) -> bool:
        """Whether a move takes something out of where it would be known to be foreign."""
        places = [os.path.join(self._place, path) for path in (source, destination)]
        origin, target = (
            os.path.join(os.path.realpath(os.path.dirname(each)), os.path.basename(each))
            for each in places
        )
        return self.is_foreign(origin) and not self.is_foreign(target)

    def note_all_read(self, named: Iterable[str] = (), cwd: str = ".") -> None:
        """Note that a program that begins in `cwd` may have read every marked file of the workspace, and
        whatever these texts name."""
        marks, origins = self._marks, self._marks.origins
        if bool(marks) and marks.concern(self._root):
            inside = marks.below(self._root)
            first = min(inside, default=self._root)
            self.read[os.path.relpath(first, self._root)] = None
        elif marks.has_writers and marks.writers.is_beside(self._place):
            self.read["."] = None
        elif origins.is_foreign_folder(self._place):
            self._note_foreign(".", self._place)
        elif (untrusted := origins.untrusted_in(self._place)) is not None:
            self.read[os.path.relpath(untrusted, self._place)] = None
        if not named:
            return
        from .named_places import named_places  # here: many turns run no program

        for name, real in named_places(named, self._place, cwd):
            if f"{self._place}/".startswith(f"{real}/") and real != self._place:
                continue  # above the workspace: no program sees more of it
            if not os.path.isdir(real):
                if self.is_foreign(real):
                    self._note_foreign(name, os.path.dirname(real))
            elif origins.is_foreign_folder(real):
                self._note_foreign(name, real)
            elif f"{real}/".startswith(f"{self._place}/") and origins.holds_foreign(real):
                self.read[name] = None

    def _note_foreign(self, name: str, folder: str) -> None:
        self.read[name] = None
        if (repository := self._marks.origins.repository_of(folder)) is not None:
            self._marks.know_foreign(repository)

    def has_left(self, changed: Iterable[str]) -> bool:
        """Whether something may have left a foreign folder, to be no longer known as that: mark what did not move.

        Args:
            changed: Folders of the workspace whose entries changed.
        """
        origins, has_left = self._marks.origins, False
        for folder in self._marks.foreign_in(self._place):
            if not os.path.isdir(folder):
                has_left = True
            elif origins.has_lost_signs(folder):
                self.written(os.path.relpath(folder, self._place))
        return has_left or any(
            origins.is_foreign_folder(os.path.join(self._place, each)) for each in changed
        )

    def folders_above_marks(self) -> list[str]:
        """Return the folders below the workspace that hold marked files, as absolute paths."""
        if not self.is_needed:
            return []
        found: set[str] = set()
        for path in self._marks.below(self._root):
            while (path := os.path.dirname(path)) not in found and len(path) > len(self._root):
                found.add(path)
        return sorted(found)

    def is_marked(self, path: str) -> bool:
        """Whether a path relative to the workspace is marked."""
        return self._marks.covers(self._absolute(path))

    def mark(self, path: str) -> None:
        """Mark a file that is about to be written with untrusted content."""
        with self._lock:
            self._check()
            self._mark(path, is_being_written=True)

    def written(self, path: str) -> None:
        """Mark a file that was written, perhaps under another name than it was marked before."""
        with self._lock:
            self._mark(path, is_being_written=False)

    def clear(self, path: str, before: float) -> None:
        """Clear marks at and below a path that is gone, or holds something else."""
        absolute = self._absolute(path)
        with self._lock:
            if self._is_over or not self._marks.below(absolute):
                return
            self._marks.clear(absolute, before)
            self._cleared[absolute] = None
            inside = f"{absolute}/"
            for marked in [p for p in self._marked if p == absolute or p.startswith(inside)]:
                del self._marked[marked]

    def carried(self, source: str) -> list[str]:
        """Return the marks that move with a path, as suffixes for its new path."""
        absolute = self._absolute(source)
        if self._marks.covers(absolute):
            carried = [""]
        else:
            carried = [marked[len(absolute) :] for marked in self._marks.below(absolute)]
        if carried:
            with self._lock:
                self._check()
        return carried

    def now(self) -> int:
        """Return a time for `clear`."""
        return self._marks.now()

    def _check(self) -> None:
        if self._is_over:
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                "the call has ended, and its session has read untrusted content: what it writes now "
                "would not be recorded. Nothing was changed.",
            )

    def _mark(self, path: str, *, is_being_written: bool) -> None:
        absolute = self._absolute(path)
        marked = self._marks.mark(absolute, self._root, is_being_written=is_being_written)
        self._marked[marked] = None

    def _absolute(self, path: str) -> str:
        return self._root if path == "." else f"{self._root}/{_on_record(path)}"

    @cached_property
    def _place(self) -> str:
        return os.path.realpath(self._workspace)

    @cached_property
    def _root(self) -> str:
        return _on_record(self._place)


class TrackedReader:
    """A `ReadableFiles` handle that tracks what one call reads."""

    def __init__(self, files: ReadableFiles, watch: FileWatch) -> None:
        self._files = files
        self.watch = watch
        self.normalize = files.normalize

    def find(self, path: str, *, follow: bool = True) -> FileInfo | None:
        """See `ReadableFiles`; names, sizes and times don't taint."""
        found = self._files.find(path, follow=follow)
        if found is not None:
            self.watch.has_learned = True
        return found

    def entries(
        self, path: str, *, recursive: bool, include_hidden: bool, max_entries: int
    ) -> Listing:
        """See `ReadableFiles`; names, sizes and times don't taint."""
        self.watch.has_learned = True
        return self._files.entries(
            path, recursive=recursive, include_hidden=include_hidden, max_entries=max_entries
        )

    def read(self, path: str, *, offset: int = 0, limit: int) -> FileContent:
        """See `ReadableFiles`."""
        watch = self.watch
        watch.has_learned = True
        real = _real(self._files, path) if watch.is_needed else None
        was_marked = real is not None and watch.is_marked(real)
        content = self._files.read(path, offset=offset, limit=limit)
        if watch.is_needed:
            watch.note_read(real or _real(self._files, path), was_marked=was_marked)
        elif watch.is_foreign(content.info.path):
            watch.read[content.info.path] = None
        return content


class TrackedWriter(TrackedReader):
    """A `WritableFiles` handle that tracks what one call reads and writes."""

    def __init__(self, files: WritableFiles, watch: FileWatch) -> None:
        super().__init__(files, watch)
        self._writable = files

    @property
    def unkept(self) -> tuple[str, ...]:
        """See `KeepsVersions`."""
        return self._writable.unkept if isinstance(self._writable, KeepsVersions) else ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `KeepsVersions`."""
        return self._writable.warnings if isinstance(self._writable, KeepsVersions) else ()

    def why_unkept(self, path: str) -> tuple[str, ...]:
        """See `KeepsVersions`."""
        files = self._writable
        return files.why_unkept(path) if isinstance(files, KeepsVersions) else ()

    def write(self, path: str, data: bytes, *, replace: bool, create_dirs: bool) -> FileInfo:
        """See `WritableFiles`; in a session that is not tainted, this clears the mark."""
        watch, files = self.watch, self._writable
        is_tainted, before = watch.is_tainted, watch.now()

        def write() -> FileInfo:
            try:
                return files.write(path, data, replace=replace, create_dirs=create_dirs)
            except ToolFailure:
                watch.has_learned = True  # its text says what is there
                raise

        info = self._put(path, write) if is_tainted else write()
        if not is_tainted and watch.is_needed:
            watch.clear(info.path, before)
            watch.note_clean(info.path)
        return info

    def append(self, path: str, data: bytes, *, create_dirs: bool) -> FileInfo:
        """See `WritableFiles`."""
        files = self._writable
        self.watch.has_learned = True  # the size of what was there
        return self._put(path, lambda: files.append(path, data, create_dirs=create_dirs))

    def replace_unchanged(self, path: str, data: bytes, *, digest: bytes) -> FileInfo:
        """See `WritableFiles`."""
        files = self._writable
        self.watch.has_learned = True
        info = self._put(path, lambda: files.replace_unchanged(path, data, digest=digest))
        if not self.watch.is_tainted:  # nor was what it read of the file
            self.watch.note_clean(info.path)
        return info

    def move(self, source: str, destination: str, *, overwrite: bool) -> None:
        """See `WritableFiles`; marks move along, and marks at the destination are cleared."""
        watch = self.watch
        watch.has_learned = True
        leaves = watch.leaves(self._files.normalize(source), self._files.normalize(destination))
        if not (watch.is_needed or leaves):
            self._writable.move(source, destination, overwrite=overwrite)
            return
        origin, target = _place(self._files, source), _place(self._files, destination)
        before, carried = watch.now(), [""] if leaves else watch.carried(origin)
        self._writable.move(source, destination, overwrite=overwrite)
        watch.clear(target, before)
        for inner in carried:
            watch.written(target + inner)
        watch.clear(origin, before)

    def delete(self, path: str, *, recursive: bool) -> tuple[str, ...]:
        """See `WritableFiles`; the marks of deleted files are cleared."""
        before, self.watch.has_learned = self.watch.now(), True
        gone = self._writable.delete(path, recursive=recursive)
        if self.watch.is_needed:
            self.watch.clear(gone[-1], before)
        return gone

    def _put(self, path: str, write: Callable[[], FileInfo]) -> FileInfo:
        """Write, marking the file if the call is tainted; a failure without a change leaves no mark."""
        watch = self.watch
        if not watch.is_tainted:
            return write()
        found = self._files.find(path)
        target = _place(self._files, path) if found is None else found.path
        was_marked = watch.is_marked(target)
        watch.mark(target)
        try:
            info = write()
        except BaseException:
            watch.written(target)
            if not was_marked and self._files.find(path) == found:
                watch.clear(target, math.inf)
            raise
        if info.path != target:
            watch.written(target)
            watch.clear(target, math.inf)
        watch.written(info.path)
        return info


def disregard(files: ReadableFiles, path: str) -> None:
    """Forget that a file was read, because nothing of it is in the call's result.

    Args:
        files: The handle that read it.
        path: Its path on the disk, relative to the workspace.
    """
    if isinstance(files, TrackedReader):
        files.watch.read.pop(path, None)


def _on_record(path: str) -> str:
    """Return a path as it can be stored: bytes that are not UTF-8 are escaped."""
    return path.encode(errors="backslashreplace").decode()


def _real(files: ReadableFiles, path: str) -> str:
    """Return the path of a file with links resolved."""
    found = files.find(path)
    return files.normalize(path) if found is None else found.path


def _place(files: ReadableFiles, path: str) -> str:
    """Return the path of an entry, existing or not; a link at the end is not followed."""
    found = files.find(path, follow=False)
    if found is not None:
        return found.path
    above, _, name = files.normalize(path).rpartition("/")
    parent = files.find(above or ".")
    if parent is None:
        return files.normalize(path)
    return name if parent.path == "." else f"{parent.path}/{name}"
