"""Taking back what calls of a session, and of those below it, changed: the choice, the plan, and the work.

Each change is on record before it is done, with what it replaces: a crash in the middle leaves a
change that is listed as broken off, and every undo can itself be undone.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Literal

import msgspec

from ...runtime.changes.file_versions import (
    Action,
    Change,
    FileKind,
    FileState,
    KnownChange,
    PathMove,
    PathStep,
    path_names,
)
from ...runtime.changes.undo_report import MAX_PATHS, ChangedCall, UndoneFile, UndoReport
from ...runtime.changes.version_log import VersionLog
from ...runtime.errors import ConflictError, NotFoundError
from ...runtime.identity import new_id, now_ms
from ...runtime.taint.tracked_files import FileWatch
from ..workspace.atomic_write import (
    TEMPORARY_PREFIX,
    TEMPORARY_SUFFIX,
    TemporaryFile,
    make_folder,
    publish,
    rename_to_free_name,
    write_temporary,
)
from ..workspace.paths import shown
from ..workspace.resolver import DIRECTORY_FLAGS, Names, OpenDirectory, Resolver
from ..workspace.workspace import open_workspace
from .file_states import Keeper
from .plan import Reversal, UndoPlan, paths_of, plan_undo, temporary_names

MAX_TOLD = 5
"""Calls of programs that a message names; the report has all."""
HERE = " here: versions of files stay on the node where the call ran, which in a cluster may be another one"
"""Ends a sentence on what can't be undone, where several nodes may share the record."""


class Undo:
    """The undo of changes in a workspace; each is kept in a log of its session. The methods block on the disk.

    Args:
        workspace: The folder.
        forbidden: Folders that it may not hold.
        log: Returns the log of a session.
        is_real: Whether links of the path were followed already, and others are refused; see `open_workspace`.
        has_nodes: Whether several nodes may share the record, so that versions may lie on another one.
    """

    def __init__(
        self,
        workspace: str,
        forbidden: Sequence[Path],
        log: Callable[[str], VersionLog],
        *,
        is_real: bool = False,
        has_nodes: bool = False,
    ) -> None:
        self._has_nodes = has_nodes
        self._open = partial(open_workspace, workspace, forbidden=forbidden, is_real=is_real)
        self._log = log

    def planned(
        self,
        known: list[KnownChange],
        call_id: str | None,
        force: bool,
        programs: list[str],
        delegated: Collection[str] = (),
    ) -> UndoPlan:
        """Plan the undo of one call's changes, or of all, from those on record; nothing is done.

        `force` puts back what was changed since. `programs` is what programs changed and can't be undone, for
        the message. `delegated` are the sessions to which the call delegated. Raises `NotFoundError` when there
        is nothing to undo.
        """
        chosen = chosen_changes(known, call_id, programs, delegated, has_nodes=self._has_nodes)
        ids = {each.change.change_id for each in chosen}
        stay = [k for k in known if k.change.change_id not in ids and not k.is_undone]
        broken = (k.change for k in known if k.change.undoes and not k.is_whole)
        leftovers = tuple(names for change in broken for names in temporary_names(change))
        with self._open() as workspace:
            plan = plan_undo(workspace.resolver, chosen, stay, force)
        return msgspec.structs.replace(plan, leftovers=leftovers)

    def run(self, plan: UndoPlan, undo_id: str, watch: FileWatch) -> None:
        """Carry a plan out; see `UndoWork.run`, whose `OSError` becomes `ConflictError`."""
        with self._open() as workspace:
            work = UndoWork(workspace.resolver, self._log, watch)
            try:
                work.run(plan, undo_id)
            except OSError as error:
                raise ConflictError(
                    f"The undo stopped ({os.strerror(error.errno or 0)}): what was undone before "
                    "is on record. Look at the workspace, and undo again."
                ) from error

    def report(
        self, plan: UndoPlan, undo_id: str, programs: list[str], running: tuple[str, ...] = ()
    ) -> UndoReport:
        """Return what a plan does, in words; of one that is not done yet, also inside of files."""
        files: tuple[UndoneFile, ...] = ()
        if not undo_id:
            from .previews import undone_files  # here: few undos are looked at first

            with self._open() as workspace:
                files = undone_files(workspace.resolver, plan, self._log)
        calls = dict.fromkeys(reversal.change.call_id for reversal in plan.reversals)
        return UndoReport(
            undo_id=undo_id,
            call_ids=tuple(calls),
            lines=plan.lines,
            left=tuple(map(str, plan.problems)),
            programs=tuple(programs),
            running=running,
            files=files,
        )


def clear_unfinished(
    workspace: str,
    forbidden: Sequence[Path],
    known: Iterable[KnownChange],
    *,
    is_real: bool = False,
) -> None:
    """Remove the temporary files of changes that a crash cut off, wherever they are in the workspace.

    `is_real` is that of `open_workspace`.
    """
    folders = {
        names[:-1]
        for each in known
        if not each.is_whole
        for action in each.change.actions
        for names in map(path_names, paths_of(action))
    }
    open_workspace(workspace, forbidden=forbidden, unfinished=folders, is_real=is_real).close()


def chosen_changes(
    known: list[KnownChange],
    call_id: str | None,
    programs: list[str],
    delegated: Collection[str] = (),
    *,
    has_nodes: bool = False,
) -> list[KnownChange]:
    """Return the changes of a call, or of all calls, that are not undone yet; raise `NotFoundError`."""
    calls = [each for each in known if not each.change.undoes]
    if call_id is None:
        found = calls
        nothing = no_change(has_nodes=has_nodes)
    else:
        found = [each for each in calls if each.change.session_id in delegated]
        found = found or [each for each in known if each.change.call_id == call_id]
        nothing = f"{call_id} changed no file of this session so that it can be undone{HERE if has_nodes else ''}."
    if not found:
        raise NotFoundError(nothing + (f" {cannot(programs)}" if programs else ""))
    chosen = [each for each in found if not each.is_undone]
    if not chosen:
        raise NotFoundError("All of that is undone already.")
    return chosen


def no_change(*, has_nodes: bool) -> str:
    """Return the sentence on a session without changes; where there may be several nodes, it speaks of this one."""
    return f"This session has no change of a file that can be undone{HERE if has_nodes else ''}."


def cannot(programs: list[str]) -> str:
    """Return the sentence on what programs changed and can't be undone."""
    more = f"; and {len(programs) - MAX_TOLD} more calls" if len(programs) > MAX_TOLD else ""
    return f"What programs changed and can't be undone: {'; '.join(programs[:MAX_TOLD])}{more}."


def changed_calls(known: Iterable[KnownChange]) -> list[ChangedCall]:
    """Return one entry for each call, in the order of calls."""
    by_call: dict[str, list[KnownChange]] = {}
    for each in known:
        by_call.setdefault(each.change.call_id, []).append(each)
    return list(starmap(_changed_call, by_call.items()))


def _changed_call(call_id: str, changes: list[KnownChange]) -> ChangedCall:
    paths: dict[str, None] = {}
    for each in changes:
        ends = [end for action in each.change.actions for end in paths_of(action)]
        paths.update(dict.fromkeys(shown("/".join(path_names(end))) for end in ends))
    state: Literal["changed", "undone", "broken_off"]
    if not all(each.is_whole for each in changes):
        state = "broken_off"
    else:
        state = "undone" if all(each.is_undone for each in changes) else "changed"
    return ChangedCall(
        call_id=call_id,
        session_id=changes[0].change.session_id,
        at_ms=changes[0].change.at_ms,
        paths=tuple(paths)[:MAX_PATHS],
        path_count=len(paths),
        state=state,
        is_undoing=any(each.change.undoes for each in changes),
    )


# ── the work ─────────────────────────────────────────────────────────────────────────────────────

MODE_BITS = 0o777
"""The mode bits of a restored file. It is ours now, whoever had it, so setuid and setgid bits would lend
other rights than before."""
FOLDER_BITS = 0o3777
OPEN_BITS = 0o700
"""What we need to work in a folder."""

ROOM_FACTOR = 2
"""An undo has as much room again as the changes: a session that has reached its bound can still be
undone."""


class UndoWork:
    """Carries out a plan; what it replaces is kept in the log of the change that it takes back.

    `watch` notes the words of strangers.
    """

    def __init__(
        self, resolver: Resolver, log: Callable[[str], VersionLog], watch: FileWatch
    ) -> None:
        self._resolver = resolver
        self._log_of = log
        self._watch = watch
        self._modes: list[tuple[Names, int]] = []
        self._temporary = ""
        self._at_ms = 0

    def run(self, plan: UndoPlan, undo_id: str) -> None:
        """Undo everything; on an error, what was done stays done.

        Raises:
            ConflictError: Something was changed meanwhile.
            StorageError: The log can't be read or written.
            OSError: The workspace can't be read or written.
        """
        for names in plan.leftovers:
            with (
                contextlib.suppress(OSError),
                self._resolver.open_directory(names[:-1], follow=False) as parent,
            ):
                os.unlink(names[-1], dir_fd=parent.fd)
        for reversal in plan.reversals:
            self._log = self._log_of(reversal.change.session_id)
            change = self._record(reversal, undo_id)
            self._temporary = f"{TEMPORARY_PREFIX}{change.change_id}{TEMPORARY_SUFFIX}"
            self._open_folders(change)
            for action in change.actions:
                if isinstance(action, PathStep):
                    self._step(action)
                else:
                    self._move(action)
            for names, mode in reversed(self._modes):
                self._set_mode(names, mode)
            self._modes.clear()
            self._log.end(change.change_id)

    def _record(self, reversal: Reversal, undo_id: str) -> Change:
        # Several can be done in a millisecond, and those of several sessions are put in order by their times.
        self._at_ms = max(now_ms(), self._at_ms + 1)
        room = ROOM_FACTOR * self._log.max_bytes
        with self._log.draft() as draft:
            keeper = Keeper(
                self._resolver, draft, room, lambda names: self._watch.is_marked("/".join(names))
            )
            change = Change(
                change_id=new_id("change"),
                session_id=reversal.change.session_id,
                call_id=undo_id,
                at_ms=self._at_ms,
                actions=tuple(self._seen(action, keeper) for action in reversal.actions),
                undoes=(reversal.change.change_id,),
                left=reversal.left,
            )
            draft.commit(change)
            return change

    def _seen(self, action: Action, keeper: Keeper) -> Action:
        """Keep what is there now, which must still be what was planned for."""
        if isinstance(action, PathMove) or action.before.kind is FileKind.NOTHING:
            return action
        names = path_names(action.path)
        present = keeper.look(names)
        if not present.holds_as(action.before) or present.why:
            raise _changed(names)
        return PathStep(action.path, present, action.after)

    def _check_unchanged(self, names: Names, present: FileState) -> None:
        """Raise `ConflictError` when a path changed: a person may write, and that is not kept."""
        if not Keeper(self._resolver).look(names).holds_as(present):
            raise _changed(names)

    # ── on the disk ──────────────────────────────────────────────────────────────────────────────

    def _step(self, step: PathStep) -> None:
        names = path_names(step.path)
        wanted, present = step.after, step.before
        path, before = "/".join(names), self._watch.now()
        if wanted.is_marked:
            self._watch.mark(path)
        with self._resolver.open_directory(names[:-1], follow=False) as parent:
            match wanted.kind:
                case FileKind.NOTHING:
                    self._check_unchanged(names, present)
                    _remove(parent, names[-1], present)
                case FileKind.DIRECTORY:
                    self._make_folder(parent, names, wanted, present)
                case _:
                    with self._made(parent, wanted) as made:
                        is_free = present.kind is FileKind.NOTHING
                        self._check_unchanged(names, present)
                        publish(parent, made, names[-1], replace=not is_free)
            os.fsync(parent.fd)
        if wanted.is_marked:
            self._watch.written(path)
        else:
            self._watch.clear(path, before)

    def _made(self, parent: OpenDirectory, wanted: FileState) -> TemporaryFile:
        if wanted.kind is FileKind.FILE:
            data = b"".join(self._log.content(wanted))
            return write_temporary(parent, data, wanted.mode & MODE_BITS, self._temporary)
        os.symlink(wanted.target, os.fsencode(self._temporary), dir_fd=parent.fd)
        return TemporaryFile(parent, self._temporary)

    def _make_folder(
        self, parent: OpenDirectory, names: Names, wanted: FileState, present: FileState
    ) -> None:
        if present.kind is not FileKind.DIRECTORY:
            if present.kind is not FileKind.NOTHING:
                self._check_unchanged(names, present)
                os.unlink(names[-1], dir_fd=parent.fd)
            make_folder(self._resolver, parent, names[-1], 0o700)
        # Set last: what lies below is put back through this folder.
        self._modes.append((names, wanted.mode & FOLDER_BITS))

    def _open_folders(self, change: Change) -> None:
        """Open folders whose mode is put back: they may be closed to us before or after."""
        for action in change.actions:
            if isinstance(action, PathStep) and (
                action.before.kind is action.after.kind is FileKind.DIRECTORY
            ):
                present = action.before.mode & FOLDER_BITS
                if present | OPEN_BITS != present:
                    self._set_mode(path_names(action.path), present | OPEN_BITS)

    def _set_mode(self, names: Names, mode: int) -> None:
        with self._resolver.open_directory(names[:-1], follow=False) as parent:
            try:
                fd = self._resolver.open_at(parent, names[-1], DIRECTORY_FLAGS)
            except PermissionError:  # a folder of ours that its mode closes to us
                flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
                handle = self._resolver.open_at(parent, names[-1], flags)
                try:
                    os.chmod(f"/proc/self/fd/{handle}", OPEN_BITS)
                finally:
                    os.close(handle)
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


def _remove(parent: OpenDirectory, name: str, present: FileState) -> None:
    if present.kind is not FileKind.DIRECTORY:
        os.unlink(name, dir_fd=parent.fd)
        return
    try:
        os.rmdir(name, dir_fd=parent.fd)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise  # what others put there meanwhile stays, and so does the folder


def _changed(names: Names) -> ConflictError:
    return ConflictError(
        f"{shown('/'.join(names))} was changed while its undo began; what was undone before is on "
        "record. Look at it, and undo again."
    )
