"""What a program changed in its workspace, and what of that can be undone.

Before the program begins, `observe` scans the workspace and, in a git repository, puts aside what git would
keep. When it has ended, `conclude` scans again, and writes what differs into the session's log of versions,
as one change of its call, like a change of a file tool. What can't be undone is listed with its reason. A
runtime that dies in between leaves no change; the call says that it was interrupted.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress

import msgspec

from ....runtime.changes.file_versions import (
    NOTHING,
    Change,
    FileKind,
    FileState,
    PathStep,
    path_bytes,
)
from ....runtime.changes.version_log import CallVersions, ChangeDraft
from ....runtime.errors import StorageError
from ....runtime.identity import new_id, now_ms
from ....runtime.processes import ChangedFiles
from ...undo.file_states import Keeper
from ...workspace.paths import is_protected, shown
from ...workspace.reader import FileReader
from ...workspace.resolver import Names
from ..box.protected import AT_TOP
from .git_files import NO_REPOSITORY, GitFiles, is_repository, open_reader
from .scan import UNSEEN, Differences, Scan, changed, differences, scan
from .snapshot import IGNORED, IN_TOOLS_FOLDER, CopyCache, WorkspaceSnapshot

MAX_PATHS = 10_000
"""A program that changes more has unpacked or built something."""
MAX_SECONDS = 5.0
"""The time to read what a program left, by which an undo finds whether it was changed since."""
MAX_PATHS_PER_REASON = 3
"""Paths that are named for each reason why something can't be undone; the others are counted."""

LENDING = stat.S_ISUID | stat.S_ISGID
CLOSED = "the folder that it is in could not be looked into"


class Observation(msgspec.Struct, frozen=True):
    """The workspace before a program: its scan, and what was put aside, or why nothing was."""

    before: Scan
    snapshot: WorkspaceSnapshot | None = None
    why_not: str = ""


def observe(workspace: str, copies: CopyCache, versions: CallVersions | None) -> Observation:
    """Scan a workspace in which a program is about to run. Blocks on the disk."""
    before = scan(workspace)
    if before.why_not or versions is None:
        return Observation(before)
    try:
        files = open_reader(workspace)
        if not is_repository(files):
            return Observation(before, why_not=NO_REPOSITORY)
        kept = copies.of(workspace, versions.open_aside)
        return Observation(before, kept.snapshot(files, before))
    except OSError as error:
        why = f"what was there could not be kept ({os.strerror(error.errno or 0)})"
        return Observation(before, why_not=why)


def conclude(
    workspace: str, observation: Observation, versions: CallVersions | None
) -> ChangedFiles:
    """Return what the program changed, when it has ended, after recording it. Blocks on the disk."""
    before = observation.before
    if before.why_not:
        return changed(before, before)
    after = scan(workspace)
    _take_rights(workspace, before, after)
    listed = changed(before, after)
    if listed.why_not or listed == ChangedFiles() or versions is None:
        return listed
    unkept: tuple[str, ...] = (observation.why_not,)
    if observation.snapshot is not None:
        unkept = _recorded(workspace, observation.snapshot, before, after, versions)
    return msgspec.structs.replace(listed, not_undoable=tuple(filter(None, unkept)))


def _take_rights(workspace: str, before: Scan, after: Scan) -> None:
    """Take setuid and setgid from files that have them now: the program's user lent its rights.

    The filter of system calls prevents them; where a `partial` sandbox has none, this is what is left.
    """
    for path, facts in after.entries.items():
        if not facts[0] & LENDING or path.endswith("/") or not stat.S_ISREG(facts[0]):
            continue
        if before.entries.get(path, (0,))[0] & LENDING:
            continue  # a person's
        with suppress(OSError):  # it is gone
            files = open_reader(workspace)
            fd = files.resolver.open(_names(path), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                now = os.fstat(fd)
                # A second name may be that of a system's program, which an ordinary user has linked here.
                if stat.S_ISREG(now.st_mode) and (now.st_nlink == 1 or os.geteuid() != 0):
                    os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(now.st_mode) & ~LENDING)
            finally:
                os.close(fd)


def _recorded(
    workspace: str, snapshot: WorkspaceSnapshot, before: Scan, after: Scan, versions: CallVersions
) -> tuple[str, ...]:
    """Record the change; return what of it can't be undone, with the reasons."""
    found = differences(before, after)
    count = len(found.created) + len(found.modified) + len(found.deleted)
    if count > MAX_PATHS:
        return (f"the {count} paths are more than is kept of one program ({MAX_PATHS})",)
    try:
        recording = _Recording(open_reader(workspace), snapshot, before, after)
        if (steps := recording.steps(found)) is None:
            return ("reading what the program left took too long",)
        return recording.commit(steps, versions)
    except StorageError as error:
        return (f"what was there could not be kept: {error}",)
    except OSError as error:
        return (f"what was there could not be kept ({os.strerror(error.errno or 0)})",)


class _Recording:
    def __init__(
        self, files: FileReader, snapshot: WorkspaceSnapshot, before: Scan, after: Scan
    ) -> None:
        self._files = files
        self._snapshot = snapshot
        self._entries = before.entries
        self._closed = before.closed | after.closed
        # By the rules as they are now: they also say which of the new files count.
        self._git = GitFiles(files, snapshot.tracked)
        self._keeper = Keeper(files.resolver)
        self._unkept: dict[str, list[str]] = {}

    def steps(self, found: Differences) -> list[PathStep] | None:
        """Return what each path was and is, in an order in which it could have happened.

        A folder in the place of a file is two steps, since names of folders end in `/`. `None` when it
        takes too long to find out.
        """
        end = time.monotonic() + MAX_SECONDS
        # Deeper paths are removed first, and made last.
        gone = sorted(found.deleted, key=lambda path: (-_depth(path), path))
        made = sorted(found.created, key=lambda path: (_depth(path), path))
        steps: list[PathStep] = []
        for paths, is_there in ((gone, False), (found.modified, True), (made, True)):
            for path in paths:
                if time.monotonic() > end:
                    return None
                if why := self._why_not(path):
                    self._note(path, why)
                elif (step := self._step(path, is_there)) is not None:
                    steps.append(step)
        return steps

    def commit(self, steps: list[PathStep], versions: CallVersions) -> tuple[str, ...]:
        """Record it, with the contents that it replaced; raise `StorageError`."""
        log = versions.log
        with log.draft() as draft:
            room = Keeper(self._files.resolver, draft, log.max_bytes)
            kept = [step for each in steps if (step := self._kept(each, draft, room, versions))]
            if kept:
                change = Change(
                    change_id=new_id("change"),
                    session_id=versions.session_id,
                    call_id=versions.call_id,
                    at_ms=now_ms(),
                    actions=tuple(kept),
                    unkept=self._reasons(),
                )
                draft.commit(change, has_happened=True)
        return self._reasons()

    def _why_not(self, path: str) -> str:
        names = _names(path)
        above = ["".join(f"{name}/" for name in names[:depth]) for depth in range(len(names))]
        if is_protected(names) or names[0] in AT_TOP:
            return "it is protected"
        if not UNSEEN.isdisjoint(names):
            return IN_TOOLS_FOLDER
        if not self._closed.isdisjoint(above):
            return CLOSED
        if path.endswith("/"):
            return ""
        if path in self._entries:
            return self._snapshot.why.get(path, "")
        return IGNORED if self._git.ignores(path) else ""

    def _step(self, path: str, is_there: bool) -> PathStep | None:
        names, before, after = _names(path), NOTHING, NOTHING
        if (facts := self._entries.get(path)) is not None:
            mode = stat.S_IMODE(facts[0])
            is_folder = path.endswith("/")
            before = (
                FileState(FileKind.DIRECTORY, mode) if is_folder else self._snapshot.states[path]
            )
        if is_there:
            try:
                after = self._keeper.look(names)
            except OSError as error:
                self._note(path, f"it can't be looked at ({os.strerror(error.errno or 0)})")
                return None
            if after.why or after.kind is FileKind.NOTHING:
                self._note(path, after.why or "it was changed again when the program ended")
                return None
        return None if self._is_same(before, after) else PathStep(path_bytes(names), before, after)

    def _is_same(self, before: FileState, after: FileState) -> bool:
        """Return whether it was only touched."""
        if before.kind is not after.kind or before.mode != after.mode:
            return False
        if before.kind is not FileKind.FILE:
            return before.target == after.target
        if before.size_bytes != after.size_bytes:
            return False
        digest = hashlib.sha256()
        for piece in self._snapshot.aside.pieces(before):
            digest.update(piece)
        return digest.digest() == after.digest

    def _kept(
        self, step: PathStep, draft: ChangeDraft, room: Keeper, versions: CallVersions
    ) -> PathStep | None:
        """Return the step, with the old content in the log; `None` when that has no room for it."""
        before = step.before
        if before.kind is not FileKind.FILE:
            return step
        path = os.fsdecode(step.path)
        if why := room.why_not(before.size_bytes):
            self._note(path, why)
            return None
        pieces = self._snapshot.aside.pieces(before)
        at, taken, digest = draft.keep(pieces, before.size_bytes)
        kept = FileState(
            FileKind.FILE,
            mode=before.mode,
            size_bytes=taken,
            digest=digest.digest(),
            kept_at=at,
            is_marked=versions.is_marked(path),
        )
        return PathStep(step.path, kept, step.after)

    def _note(self, path: str, why: str) -> None:
        self._unkept.setdefault(why, []).append(shown(path))

    def _reasons(self) -> tuple[str, ...]:
        lines: list[str] = []
        for why, paths in self._unkept.items():
            more = len(paths) - MAX_PATHS_PER_REASON
            rest = f" and {more} more" if more > 0 else ""
            lines.append(f"{', '.join(paths[:MAX_PATHS_PER_REASON])}{rest}: {why}")
        return tuple(lines)


def _names(path: str) -> Names:
    return tuple(path.rstrip("/").split("/"))


def _depth(path: str) -> int:
    return path.rstrip("/").count("/")
