"""File versions: the structs that record what calls changed in files.

A change is recorded, with the content that it replaces, before it happens. So whenever the process ends,
each path is either as it was or as it was going to be, and both are on record.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

MAX_KEPT_FILE_BYTES = 64 * 1024 * 1024
"""The largest file whose content is kept. Larger ones are build products or data sets, and copying them
would take seconds of every call that touches them."""

MAX_SESSION_BYTES = 512 * 1024 * 1024
"""All versions of one session: as much as a large repository, and little of today's disks."""

MAX_MEMORY_BYTES = 256 * 1024 * 1024
"""All versions of a runtime without a data folder: on many machines the temporary folder is in memory."""


class FileKind(StrEnum):
    """What is at a path."""

    NOTHING = "nothing"
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


class FileState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What is, or was, at a path.

    Attributes:
        kind: What it is.
        mode: The permission bits of a file or directory.
        size_bytes: The size of a file.
        digest: SHA-256 of a file's content; empty if it was not read.
        target: The target of a link.
        kept_at: The position of the content in the log; `None` if it is not kept.
        why: Why it is not kept.
        is_marked: Whether its content may be untrusted.
    """

    kind: FileKind
    mode: int = 0
    size_bytes: int = 0
    digest: bytes = b""
    target: bytes = b""
    kept_at: int | None = None
    why: str = ""
    is_marked: bool = False

    @property
    def can_come_back(self) -> bool:
        """Whether enough is known to restore it."""
        if self.kind is FileKind.FILE:
            return self.kept_at is not None
        return self.kind is not FileKind.OTHER

    def holds_as(self, other: FileState) -> bool:
        """Whether the content is the same; for files that were not read, whether the size is."""
        if self.kind is not other.kind or self.target != other.target:
            return False
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.size_bytes == other.size_bytes


NOTHING = FileState(FileKind.NOTHING)


class PathStep(msgspec.Struct, frozen=True, tag="step", gc=False):
    """One path becomes something else; `path` is relative to the workspace, links resolved."""

    path: bytes
    before: FileState
    after: FileState


class PathMove(msgspec.Struct, frozen=True, tag="move", gc=False):
    """An entry gets another path, with everything in it.

    `inode` tells whether it is still the same entry. `likeness` is a digest of its content, or of the
    names below it, for another entry that was restored to the same.
    """

    source: bytes
    destination: bytes
    inode: int
    likeness: bytes


Action = PathStep | PathMove


class Change(msgspec.Struct, frozen=True, kw_only=True, tag="change", omit_defaults=True):
    """What one operation is about to do.

    Attributes:
        call_id: The call, or the undoing, that it belongs to.
        actions: The actions in order.
        undoes: The changes that it undoes.
        left: The positions of actions of those that it does not undo; they can be undone later.
        unkept: What a program changed besides and can't be restored, with why.
    """

    change_id: str
    session_id: str
    call_id: str
    at_ms: int
    actions: tuple[Action, ...]
    undoes: tuple[str, ...] = ()
    left: tuple[int, ...] = ()
    unkept: tuple[str, ...] = ()


class ChangeEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended", omit_defaults=True):
    """A change is complete; with `is_void` it failed and changed nothing."""

    change_id: str
    is_void: bool = False


class KnownChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change on record.

    Attributes:
        change: The change.
        is_whole: Whether it ended; otherwise it may have been done in part.
        remaining: The positions of its actions that were not undone since.
        is_undone: Whether all of it was undone since.
    """

    change: Change
    is_whole: bool
    remaining: tuple[int, ...]
    is_undone: bool = False


@runtime_checkable
class KeepsVersions(Protocol):
    """Writable files whose versions are kept."""

    @property
    def unkept(self) -> tuple[str, ...]:
        """What was changed and can't be restored, with why."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What went wrong after a change had happened; it does not unmake the change."""
        ...

    def why_unkept(self, path: str) -> tuple[str, ...]:
        """Return what would be lost for good if the path were changed now, with why; blocks."""
        ...


def known_changes(entries: list[Change | ChangeEnded]) -> list[KnownChange]:
    """Return the changes that happened, in order, without void ones."""
    changes = {entry.change_id: entry for entry in entries if isinstance(entry, Change)}
    ended = {entry.change_id: entry for entry in entries if isinstance(entry, ChangeEnded)}
    undoings: dict[str, list[Change]] = {}
    known: list[KnownChange] = []
    # From the end: an undoing that was itself undone undoes nothing.
    for change in reversed(changes.values()):
        end = ended.get(change.change_id)
        if end is not None and end.is_void:
            continue
        taken_back = undoings.get(change.change_id, [])
        remaining = set(range(len(change.actions)))
        for undoing in taken_back:
            remaining &= set(undoing.left)
        is_undone = bool(taken_back) and not remaining
        if end is not None and not is_undone:
            for change_id in change.undoes:
                undoings.setdefault(change_id, []).append(change)
        known.append(
            KnownChange(
                change=change,
                is_whole=end is not None,
                remaining=tuple(sorted(remaining)),
                is_undone=is_undone,
            )
        )
    known.reverse()
    return known


def path_bytes(names: tuple[str, ...]) -> bytes:
    """Return a path as it is recorded, from its names."""
    return os.fsencode("/".join(names))


def path_names(path: bytes) -> tuple[str, ...]:
    """Return the names of a recorded path."""
    return tuple(os.fsdecode(path).split("/"))
