"""The writable files of one call, whose every change can be undone.

Before a path changes, its content and the change itself go into the session's log of versions,
durably: the change can be undone even when the process dies right after it. Content that can't be
kept is reported, and the change is made all the same; when the log can't be written, it is not.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import TypeVar

from ...runtime.changes.file_versions import (
    NOTHING,
    Action,
    Change,
    FileKind,
    FileState,
    PathMove,
    PathStep,
    path_bytes,
    path_names,
)
from ...runtime.changes.version_log import VersionLog
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import StorageError
from ...runtime.handles import FileInfo
from ...runtime.identity import new_id, now_ms
from ..workspace.atomic_write import Unflushed
from ..workspace.paths import is_protected, is_steering, shown
from ..workspace.reader import FileReader, failures
from ..workspace.resolver import Names
from ..workspace.workspace import MAX_REMOVED_ENTRIES, Workspace, tree_below
from .file_states import IsMarked, Keeper, likeness, real_entry, real_target

MAX_TOLD = 20
"""Paths that can't be put back, in a result; the rest is counted."""

Done = TypeVar("Done")
Plan = Callable[[Keeper], Iterator[Action]]


class RecordedFiles(FileReader):
    """A `WritableFiles` on a workspace that keeps what was there before, in the log of versions.

    `is_marked` says whether a path, relative to the workspace, may hold the words of strangers.
    """

    def __init__(
        self,
        files: Workspace,
        log: VersionLog,
        session_id: str,
        call_id: str,
        is_marked: Callable[[str], bool] = lambda path: False,
    ) -> None:
        super().__init__(files.root)
        self._files = files
        self._log = log
        self._session_id = session_id
        self._call_id = call_id
        self._is_marked: IsMarked = lambda names: is_marked("/".join(names))
        self._unkept: dict[str, str] = {}
        self._warnings: list[str] = []

    @property
    def unkept(self) -> tuple[str, ...]:
        """See `KeepsVersions`."""
        return _shown(self._unkept)

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `KeepsVersions`."""
        return tuple(self._warnings)

    def why_unkept(self, path: str) -> tuple[str, ...]:
        """See `KeepsVersions`."""
        keeper = Keeper(self.resolver, is_marked=self._is_marked)
        why: dict[str, str] = {}
        with contextlib.suppress(OSError, ToolFailure):
            for names in self._lost(path, recursive=True):
                state = keeper.look(names)
                if state.why:
                    why[shown("/".join(names))] = state.why
        return _shown(why)

    def write(self, path: str, data: bytes, *, replace: bool, create_dirs: bool) -> FileInfo:
        """See `WritableFiles`."""
        return self._change(
            lambda keeper: self._put(keeper, path, data, create_dirs=create_dirs),
            lambda: self._files.write(path, data, replace=replace, create_dirs=create_dirs),
        )

    def append(self, path: str, data: bytes, *, create_dirs: bool) -> FileInfo:
        """See `WritableFiles`."""
        return self._change(
            lambda keeper: self._put(keeper, path, data, create_dirs=create_dirs, adds=True),
            lambda: self._files.append(path, data, create_dirs=create_dirs),
        )

    def replace_unchanged(self, path: str, data: bytes, *, digest: bytes) -> FileInfo:
        """See `WritableFiles`."""
        return self._change(
            lambda keeper: self._put(keeper, path, data, create_dirs=False),
            lambda: self._files.replace_unchanged(path, data, digest=digest),
        )

    def move(self, source: str, destination: str, *, overwrite: bool) -> None:
        """See `WritableFiles`."""
        self._change(
            lambda keeper: self._moved(keeper, source, destination, overwrite=overwrite),
            lambda: self._files.move(source, destination, overwrite=overwrite),
        )

    def delete(self, path: str, *, recursive: bool) -> tuple[str, ...]:
        """See `WritableFiles`."""
        return self._change(
            lambda keeper: self._removed(keeper, path, recursive=recursive),
            lambda: self._files.delete(path, recursive=recursive),
        )

    # ── what is about to happen ──────────────────────────────────────────────────────────────────

    def _put(
        self, keeper: Keeper, path: str, data: bytes, *, create_dirs: bool, adds: bool = False
    ) -> Iterator[Action]:
        with failures(path):
            names, known = real_target(self.resolver, self.root.names(path))
        if not names or is_protected(names):
            return
        if create_dirs:
            for depth in range(known + 1, len(names)):
                made = FileState(FileKind.DIRECTORY)
                yield PathStep(path_bytes(names[:depth]), NOTHING, made)
        with failures(path):
            before = keeper.look(names)
        yield PathStep(path_bytes(names), before, self._after(before, data, adds))

    def _after(self, before: FileState, data: bytes, adds: bool) -> FileState:
        """Return the state after a write; after an append to what is not kept, without its digest."""
        if not adds or before.kind is FileKind.NOTHING:
            return FileState(
                FileKind.FILE, size_bytes=len(data), digest=hashlib.sha256(data).digest()
            )
        size = before.size_bytes + len(data)
        if before.kept_at is None:
            return FileState(FileKind.FILE, size_bytes=size)
        digest = hashlib.sha256()
        for piece in self._log.content(before):
            digest.update(piece)
        digest.update(data)
        return FileState(FileKind.FILE, size_bytes=size, digest=digest.digest())

    def _moved(
        self, keeper: Keeper, source: str, destination: str, *, overwrite: bool
    ) -> Iterator[Action]:
        resolver = self.resolver
        start, end = self.root.names(source), self.root.names(destination)
        if not start or not end:
            return
        with failures(source):
            start = real_entry(resolver, start)
            inode, sign = likeness(resolver, start)
        with failures(destination):
            end = real_entry(resolver, end)
            lost = NOTHING if start == end or not overwrite else keeper.look(end)
        if start == end or is_protected(start) or is_protected(end):
            return
        if lost.kind is not FileKind.NOTHING:
            yield PathStep(path_bytes(end), lost, NOTHING)
        yield PathMove(path_bytes(start), path_bytes(end), inode, sign)

    def _removed(self, keeper: Keeper, path: str, *, recursive: bool) -> Iterator[Action]:
        with failures(path):
            for names in self._lost(path, recursive=recursive):
                yield PathStep(path_bytes(names), keeper.look(names), NOTHING)

    def _lost(self, path: str, *, recursive: bool) -> list[Names]:
        """Return what a removal takes, the deepest first; nothing when it will be refused."""
        if not (names := self.root.names(path)):
            return []
        top = real_entry(self.resolver, names)
        found = self.find("/".join(top), follow=False)
        is_tree = recursive and found is not None and found.kind == "directory"
        lost = [*(tree_below(self.resolver, top) if is_tree else ()), top]
        is_refused = is_protected(top) or any(map(is_steering, lost))
        is_refused = is_refused or len(lost) > MAX_REMOVED_ENTRIES + 1
        return [] if is_refused else lost

    # ── the record ───────────────────────────────────────────────────────────────────────────────

    def _change(self, plan: Plan, act: Callable[[], Done]) -> Done:
        change = self._recorded(plan)
        try:
            done = act()
        except Unflushed as late:  # it has happened: an error would make the model do it again
            done = late.done
            self._warnings.append(str(late))
        except BaseException as error:
            if change is None:
                raise
            if not (touched := self._touched(change)):
                with contextlib.suppress(StorageError):  # then it counts as broken off
                    self._log.end(change.change_id, is_void=True)
            elif isinstance(error, ToolFailure):
                raise _in_part(error, touched) from error  # noqa: ASYNC104  no Cancelled is one
            raise
        if change is not None:
            try:
                self._log.end(change.change_id)
            except StorageError as error:
                self._warnings.append(f"{error} The change is there; an undo calls it broken off.")
            for action in change.actions:
                if isinstance(action, PathStep) and action.before.why:
                    self._unkept[shown(os.fsdecode(action.path))] = action.before.why
        return done

    def _recorded(self, plan: Plan) -> Change | None:
        """Put the change on record; return `None` for one that is going to be refused."""
        try:
            with self._log.draft() as draft:
                keeper = Keeper(self.resolver, draft, self._log.max_bytes, self._is_marked)
                actions = tuple(plan(keeper))
                if not actions:
                    return None
                change = Change(
                    change_id=new_id("change"),
                    session_id=self._session_id,
                    call_id=self._call_id,
                    at_ms=now_ms(),
                    actions=actions,
                )
                draft.commit(change)
                return change
        except StorageError as error:
            raise ToolFailure(
                ErrorType.STORAGE_FULL if error.retryable else ErrorType.EXECUTION_ERROR,
                f"Nothing was changed: what is there now could not be kept for an undo. {error}",
            ) from error

    def _touched(self, change: Change) -> list[str]:
        """Return the paths that are not as they were, or can't be looked at."""
        keeper = Keeper(self.resolver)
        touched: list[str] = []
        for action in change.actions:
            path = action.path if isinstance(action, PathStep) else action.source
            try:
                present = keeper.look(path_names(path))
                if isinstance(action, PathStep):
                    is_same = present.holds_as(action.before)
                else:
                    is_same = present.kind is not FileKind.NOTHING
            except OSError:
                is_same = False
            if not is_same:
                touched.append(shown(os.fsdecode(path)))
        return touched


def _in_part(failure: ToolFailure, touched: list[str]) -> ToolFailure:
    """Return the failure of a change that stopped in its middle: it says what is different now."""
    changed = _bounded(touched)
    text = f"{failure} It stopped in its middle; not as before: {', '.join(changed)}."
    return ToolFailure(failure.error_type, text, **failure.details, changed=list(changed))


def _shown(why: dict[str, str]) -> tuple[str, ...]:
    return _bounded([f"{path}: {reason}" for path, reason in why.items()])


def _bounded(lines: list[str]) -> tuple[str, ...]:
    more = len(lines) - MAX_TOLD
    return (*lines[:MAX_TOLD], *([f"and {more} more"] if more > 0 else ()))
