"""Taking changes back on the disk, each on record before it is done, so that it can be undone too."""

from __future__ import annotations

import contextlib
import errno
import os

from ...runtime.changes.file_versions import (
    Action,
    Change,
    FileState,
    Kind,
    PathMove,
    PathStep,
    path_names,
)
from ...runtime.changes.version_log import VersionLog
from ...runtime.errors import ConflictError
from ...runtime.identity import new_id, now_ms
from ...runtime.taint.tracked_files import FileWatch
from ..workspace.atomic_write import (
    TEMPORARY_PREFIX,
    TEMPORARY_SUFFIX,
    TemporaryFile,
    publish,
    rename_to_free_name,
    write_temporary,
)
from ..workspace.paths import shown
from ..workspace.resolver import DIRECTORY_FLAGS, Names, OpenDirectory, Resolver
from .file_states import Keeper
from .plan import Reversal, UndoPlan

MODE_BITS = 0o777
"""Of a file that is put back. It is ours now, whoever's it was: with the bits that lend its owner's
rights to whoever runs it, it could lend more than it did."""
FOLDER_BITS = 0o3777
OPEN_BITS = 0o700
"""What we need of a folder to work in it."""

ROOM_FACTOR = 2
"""Undoing has as much room again as the changes: a session that has reached its bound can still be
undone."""


class UndoWork:
    """Does what a plan says.

    Args:
        resolver: The way into the workspace.
        log: Where the versions are, and where those that are replaced go.
        session_id: Whose changes are undone.
        watch: Is told what holds the words of strangers.
    """

    def __init__(
        self, resolver: Resolver, log: VersionLog, session_id: str, watch: FileWatch
    ) -> None:
        self._resolver = resolver
        self._log = log
        self._session_id = session_id
        self._watch = watch
        self._modes: list[tuple[Names, int]] = []
        self._temporary = ""

    def run(self, plan: UndoPlan, undo_id: str) -> None:
        """Takes everything back; what is done stays done when it fails between.

        Raises:
            ConflictError: Something was changed while it was at work.
            StorageError: The log can't be read or written.
            OSError: The workspace can't be.
        """
        for leftover in plan.leftovers:
            self._clear(leftover)
        for reversal in plan.reversals:
            change = self._record(reversal, undo_id)
            self._temporary = f"{TEMPORARY_PREFIX}{change.change_id}{TEMPORARY_SUFFIX}"
            self._open_folders(change)
            for action in change.actions:
                if isinstance(action, PathStep):
                    self._step(action)
                else:
                    self._move(action)
            self._set_modes()
            self._log.end(change.change_id)

    def _record(self, reversal: Reversal, undo_id: str) -> Change:
        room = ROOM_FACTOR * self._log.max_bytes
        with self._log.draft() as draft:
            keeper = Keeper(self._resolver, draft, room, self._is_marked)
            change = Change(
                change_id=new_id("change"),
                session_id=self._session_id,
                call_id=undo_id,
                at_ms=now_ms(),
                actions=tuple(self._seen(action, keeper) for action in reversal.actions),
                undoes=(reversal.change.change_id,),
                left=reversal.left,
            )
            draft.commit(change)
            return change

    def _seen(self, action: Action, keeper: Keeper) -> Action:
        """The action with what is there now, kept; it must still be what was foreseen."""
        if isinstance(action, PathMove) or action.before.kind is Kind.NOTHING:
            return action
        names = path_names(action.path)
        present = keeper.look(names)
        if not present.holds_as(action.before) or present.why:
            raise _changed(names)
        return PathStep(action.path, present, action.after)

    def _is_marked(self, names: Names) -> bool:
        return self._watch.is_marked("/".join(names))

    def _check_unchanged(self, names: Names, present: FileState) -> None:
        """A person may write while this is at work, and nothing of theirs is kept any more."""
        if not Keeper(self._resolver).look(names).holds_as(present):
            raise _changed(names)

    def _clear(self, names: Names) -> None:
        with (
            contextlib.suppress(OSError),
            self._resolver.open_directory(names[:-1], follow=False) as parent,
        ):
            os.unlink(names[-1], dir_fd=parent.fd)

    # ── on the disk ──────────────────────────────────────────────────────────────────────────────

    def _step(self, step: PathStep) -> None:
        names = path_names(step.path)
        wanted, present = step.after, step.before
        path, before = "/".join(names), self._watch.now()
        if wanted.is_marked:
            self._watch.mark(path)
        with self._resolver.open_directory(names[:-1], follow=False) as parent:
            match wanted.kind:
                case Kind.NOTHING:
                    self._check_unchanged(names, present)
                    _remove(parent, names[-1], present)
                case Kind.DIRECTORY:
                    self._make_folder(parent, names, wanted, present)
                case _:
                    with self._made(parent, wanted) as made:
                        is_free = present.kind is Kind.NOTHING
                        self._check_unchanged(names, present)
                        publish(parent, made, names[-1], replace=not is_free)
            os.fsync(parent.fd)
        if wanted.is_marked:
            self._watch.written(path)
        else:
            self._watch.clear(path, before)

    def _made(self, parent: OpenDirectory, wanted: FileState) -> TemporaryFile:
        """The wanted file or link, whole, under a name of its own."""
        if wanted.kind is Kind.FILE:
            data = b"".join(self._log.content(wanted))
            return write_temporary(parent, data, wanted.mode & MODE_BITS, self._temporary)
        os.symlink(wanted.target, os.fsencode(self._temporary), dir_fd=parent.fd)
        return TemporaryFile(parent, self._temporary)

    def _make_folder(
        self, parent: OpenDirectory, names: Names, wanted: FileState, present: FileState
    ) -> None:
        if present.kind is not Kind.DIRECTORY:
            if present.kind is not Kind.NOTHING:
                self._check_unchanged(names, present)
                os.unlink(names[-1], dir_fd=parent.fd)
            os.mkdir(names[-1], 0o700, dir_fd=parent.fd)
        # Last of all: what lies below is put back through it.
        self._modes.append((names, wanted.mode & FOLDER_BITS))

    def _open_folders(self, change: Change) -> None:
        """Folders whose mode is put back may be closed to us before, or behind it."""
        for action in change.actions:
            if isinstance(action, PathStep) and _is_mode_of_folder(action):
                present = action.before.mode & FOLDER_BITS
                if present | OPEN_BITS != present:
                    self._set_mode(path_names(action.path), present | OPEN_BITS)

    def _set_modes(self) -> None:
        for names, mode in reversed(self._modes):
            self._set_mode(names, mode)
        self._modes.clear()

    def _set_mode(self, names: Names, mode: int) -> None:
        with self._resolver.open_directory(names[:-1], follow=False) as parent:
            try:
                fd = self._resolver.open_at(parent, names[-1], DIRECTORY_FLAGS)
            except PermissionError:
                _open_to_owner(self._resolver, parent, names[-1])
                fd = self._resolver.open_at(parent, names[-1], DIRECTORY_FLAGS)
            try:
                os.fchmod(fd, mode)
            finally:
                os.close(fd)

    def _move(self, move: PathMove) -> None:
        source, target = path_names(move.source), path_names(move.destination)
        start, end = "/".join(source), "/".join(target)
        before, carried = self._watch.now(), self._watch.carried(start)
        with (
            self._resolver.open_directory(source[:-1], follow=False) as source_parent,
            self._resolver.open_directory(target[:-1], follow=False) as target_parent,
        ):
            rename_to_free_name(source_parent.fd, source[-1], target_parent.fd, target[-1])
            os.fsync(target_parent.fd)
            os.fsync(source_parent.fd)
        self._watch.clear(end, before)
        for inner in carried:
            self._watch.written(end + inner)
        self._watch.clear(start, before)


def _is_mode_of_folder(step: PathStep) -> bool:
    return step.before.kind is step.after.kind is Kind.DIRECTORY


def _open_to_owner(resolver: Resolver, parent: OpenDirectory, name: str) -> None:
    """Lets us into a folder of ours that its mode closes to us."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
    fd = resolver.open_at(parent, name, flags)
    try:
        os.chmod(f"/proc/self/fd/{fd}", OPEN_BITS)
    finally:
        os.close(fd)


def _remove(parent: OpenDirectory, name: str, present: FileState) -> None:
    if present.kind is not Kind.DIRECTORY:
        os.unlink(name, dir_fd=parent.fd)
        return
    try:
        os.rmdir(name, dir_fd=parent.fd)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise  # what others put there meanwhile stays, and so does the folder


def _changed(names: Names) -> ConflictError:
    return ConflictError(
        f"{shown('/'.join(names))} was changed while its undoing began; what was undone before is "
        "on record. Look at it, and undo again."
    )
